//! Says once more that a peer has closed its side, to the kernel's socket that goes on with the
//! connection: the peer was told that its FIN has come, and sends no other.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use sys::SysError;
use tcp::Repair;
use wire::build::TcpSegment;
use wire::{ethernet, tcp as header};

/// The kernel takes a packet to itself at once, unless its CPU is busy with others.
const TAKEN_WITHIN: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// The way of packets to this host that come from nowhere else.
#[derive(Debug)]
pub(super) struct PeerEnds {
    /// Of IPv4 and of IPv6; without CAP_NET_RAW there are none.
    senders: [Option<OwnedFd>; 2],
}

impl PeerEnds {
    /// Opens the sockets for that, in this thread's network namespace.
    pub(super) fn open() -> Self {
        // Such a socket sends packets with their headers, and receives nothing.
        let protocol = Some(rustix::net::ipproto::RAW);
        let open = |family| {
            let made =
                rustix::net::socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, protocol);
            made.ok()
        };
        Self { senders: [AddressFamily::INET, AddressFamily::INET6].map(open) }
    }

    /// Says so to the socket that has the connection's name by now. It is taken a moment later: see
    /// [`Self::await_all`].
    ///
    /// # Errors
    /// There is no way: the connection would wait for an end for ever.
    pub(super) fn tell(&self, repair: &Repair) -> Result<(), SysError> {
        let failed = |errno, advice: &'static str| {
            SysError::new("tell the kernel that a peer has closed its side", errno, advice)
        };
        let sender = self.senders[usize::from(repair.key.is_ipv6())].as_ref();
        let sender = sender.ok_or_else(|| failed(Errno::PERM, "CAP_NET_RAW is needed"))?;
        let mut frame = [0; 128];
        let fin = TcpSegment {
            source_mac: [0; 6],
            destination_mac: [0; 6],
            source: repair.key.source(),
            destination: repair.key.destination(),
            sequence: (repair.receive_first + repair.unread.bytes).0,
            acknowledgement: repair.send_first.0,
            flags: header::FIN | header::ACK,
            // Said again as it was, or less by what the shift does not show.
            window: u16::try_from(repair.window.snd_wnd >> repair.shifts[0]).unwrap_or(u16::MAX),
            payload: &[],
            vlan: None,
        };
        let length = fin.write(&mut frame).ok_or_else(|| failed(Errno::INVAL, ""))?;
        let packet = &frame[usize::from(ethernet::HEADER_BYTES)..length];
        // The port of a raw socket's address is a protocol's number, or zero.
        let to = SocketAddr::new(repair.key.destination().ip(), 0);
        rustix::net::sendto(sender.as_fd(), packet, SendFlags::DONTWAIT, &to)
            .map_err(|errno| failed(errno, ""))?;
        Ok(())
    }

    /// Waits a moment until all of these sockets, which were [told](Self::tell), have heard.
    pub(super) fn await_all<'a>(told: impl Iterator<Item = BorrowedFd<'a>> + Clone) {
        let begun = Instant::now();
        while !told.clone().all(sys::tcp_repair::has_heard_end) && begun.elapsed() < TAKEN_WITHIN {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
