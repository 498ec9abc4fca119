//! What the kernel tells without being asked: a netlink socket that has joined multicast groups.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, sockopt};

use super::read_messages;

/// One datagram of the kernel; what it tells by itself is shorter, except for routes of hundreds of
/// next hops.
const DATAGRAM_BYTES: usize = 16 << 10;

/// A nonblocking socket that hears groups of one subsystem in the namespace in which it was made.
#[derive(Debug)]
pub(crate) struct Groups {
    fd: OwnedFd,
    datagram: Vec<u8>,
}

/// What one look at the socket brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A datagram of the kernel, whose messages were passed on.
    Messages,
    /// The kernel had more to tell than the socket held, or it was not understood.
    Lost,
    /// Nothing more for now.
    Nothing,
}

impl Groups {
    /// Joins the groups whose bits are set (bit 0 is group 1), with room for about `buffer_bytes`
    /// of what was not read yet.
    pub(crate) fn join(
        subsystem: Option<Protocol>,
        groups: u32,
        buffer_bytes: usize,
    ) -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, subsystem)?;
        // Beyond net.core.rmem_max with CAP_NET_ADMIN only; a shorter one just loses sooner.
        sockopt::set_socket_recv_buffer_size_force(&fd, buffer_bytes)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&fd, buffer_bytes))?;
        rustix::net::bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        Ok(Self { fd, datagram: vec![0; DATAGRAM_BYTES] })
    }

    /// Passes type and body of each message of the next datagram to `each`.
    pub(crate) fn next(&mut self, mut each: impl FnMut(u16, &[u8])) -> Heard {
        self.next_with_flags(|kind, _, body| each(kind, body))
    }

    /// The same with each message's flags between the two.
    pub(crate) fn next_with_flags(&mut self, mut each: impl FnMut(u16, u16, &[u8])) -> Heard {
        let received = rustix::net::recvfrom(
            &self.fd,
            &mut self.datagram[..],
            RecvFlags::DONTWAIT | RecvFlags::TRUNC,
        );
        let (bytes, from) = match received {
            Ok((_, bytes, from)) => (bytes, from),
            Err(Errno::AGAIN | Errno::INTR) => return Heard::Nothing,
            Err(_) => return Heard::Lost,
        };
        // Another process with the rights may send here, too; the kernel's number is zero.
        let is_kernel = from
            .and_then(|from| SocketAddrNetlink::try_from(from).ok())
            .is_some_and(|from| from.pid() == 0);
        if !is_kernel {
            return Heard::Messages;
        }
        // With TRUNC the length is that of the datagram, not of what fitted.
        let Some(datagram) = self.datagram.get(..bytes) else { return Heard::Lost };
        match read_messages(datagram, &mut each) {
            Ok(_) => Heard::Messages,
            Err(_) => Heard::Lost,
        }
    }
}

impl AsFd for Groups {
    /// Readable when there is something to hear.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
