//! Has a socket of the kernel continue a TCP connection of another stack: TCP_REPAIR of tcp(7). Its
//! peer notices nothing.
//!
//! The socket is one that was never connected; a bound one keeps its place. [`Repaired::begin`]
//! makes the connection stand, without a segment; from [`Repaired::go_on`] on it is like any other.
//! In between it takes what comes and says little, and [`Repaired::undo`] leaves the socket as if
//! nothing had been. CAP_NET_ADMIN is needed, over the user namespace of the socket's network.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::{SendFlags, sockopt};

use crate::SysError;
use crate::error::last_errno;
use crate::socket::{canonical, get_int, kind_of, local_address, set_int};

/// What must be known of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The socket's end.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// Number of the first byte that the peer has not acknowledged.
    pub send_first: u32,
    /// Number of the first byte that was not read.
    pub receive_first: u32,
    /// Payload of a segment that the peer takes, without the bytes of timestamps.
    pub mss: u16,
    /// Shifts of the peer's windows and of ours, 14 at most; zero: windows are not scaled.
    pub shifts: [u8; 2],
    /// Whether selective acknowledgements were agreed on.
    pub sack: bool,
    /// What our timestamps say now, in milliseconds, if timestamps were agreed on.
    pub timestamp: Option<u32>,
    /// Both windows.
    pub window: Window,
    /// Bytes that both directions shall have room for, beside what the kernel gives by itself: of
    /// what was promised to the peer, and of what the application may have written.
    pub room: [usize; 2],
    /// Whether others may bind to its port beside it, as beside a connection whose listener has
    /// SO_REUSEADDR; what the socket says itself counts too.
    pub reuses_address: bool,
}

/// `struct tcp_repair_window` of linux/tcp.h: windows in bytes, unscaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Window {
    /// Number of the segment that `snd_wnd` came from.
    pub snd_wl1: u32,
    /// The peer's window.
    pub snd_wnd: u32,
    /// The largest that it ever was.
    pub max_window: u32,
    /// Ours, from `rcv_wup` on.
    pub rcv_wnd: u32,
    /// The number acknowledged when it was announced.
    pub rcv_wup: u32,
}

/// Of linux/tcp.h, for which libc has no names; the same on every architecture.
const TCP_REPAIR_WINDOW: libc::c_int = 29;
const REPAIR_ON: libc::c_int = 1;
const REPAIR_OFF: libc::c_int = 0;
const REPAIR_OFF_WITHOUT_PROBE: libc::c_int = -1;
/// Of TCP_NOTSENT_LOWAT: 2^32 - 1 bytes.
const NO_LIMIT: libc::c_int = -1;
const RECEIVE_QUEUE: libc::c_int = 1;
const SEND_QUEUE: libc::c_int = 2;
/// TCP's options by their numbers on the wire, as TCP_REPAIR_OPTIONS wants them.
const OPTION_MSS: u32 = 2;
const OPTION_WINDOW: u32 = 3;
const OPTION_SACK: u32 = 4;
const OPTION_TIMESTAMPS: u32 = 8;
/// Of asm-generic/socket.h: which buffers the kernel no longer sizes itself.
const SO_BUF_LOCK: libc::c_int = 72;

/// What the kernel keeps a byte in, at most: half a page of bookkeeping for a full page of bytes,
/// and some for the first.
const BYTES_FOR_EACH: usize = 4;
const BYTES_BESIDE: usize = 256 << 10;

/// `struct tcp_repair_opt` of linux/tcp.h.
#[derive(Clone, Copy)]
#[repr(C)]
struct RepairOption {
    code: u32,
    value: u32,
}

/// A socket with a connection that stands and is still in repair mode.
#[derive(Debug)]
pub struct Repaired<'a> {
    socket: BorrowedFd<'a>,
    /// SO_REUSEADDR, which repair mode has for itself: as it was, and as it is to be.
    reuse: [bool; 2],
    /// TCP_NOTSENT_LOWAT as it was: meanwhile it keeps nothing out that there is room for.
    unsent_low: libc::c_int,
}

/// Whether a socket is a TCP socket that could be given a connection: it neither has one, nor opens
/// one, nor listens. Everything is the kernel's word.
pub fn can_begin(socket: BorrowedFd<'_>) -> bool {
    kind_of(socket).is_ok_and(|kind| kind.is_tcp()) && state(socket) == Some(CLOSED)
}

/// Whether the peer's end has come to a TCP socket, or it is over: nothing more can.
pub fn has_heard_end(socket: BorrowedFd<'_>) -> bool {
    /// TIME-WAIT, CLOSE, CLOSE-WAIT, LAST-ACK, CLOSING of include/net/tcp_states.h.
    const ENDED: [u8; 5] = [6, CLOSED, 8, 9, 11];
    state(socket).is_some_and(|state| ENDED.contains(&state))
}

/// TCP_CLOSE of include/net/tcp_states.h.
const CLOSED: u8 = 7;

/// The first byte of `struct tcp_info`.
fn state(socket: BorrowedFd<'_>) -> Option<u8> {
    let mut state = 0_u8;
    let mut length: libc::socklen_t = 1;
    // SAFETY: `state` has room for the one byte that `length` says.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut state).cast(),
            &raw mut length,
        )
    };
    (result == 0 && length == 1).then_some(state)
}

impl<'a> Repaired<'a> {
    /// Gives the socket the connection: `unread` was received and not read, `sent` was sent and not
    /// acknowledged.
    ///
    /// # Errors
    /// It is no such socket, CAP_NET_ADMIN is missing, the record cannot be, or there is no memory.
    /// Then the socket is as it was; only its place may be another.
    pub fn begin(
        socket: BorrowedFd<'a>,
        record: &Record,
        unread: &[u8],
        sent: &[u8],
    ) -> Result<Self, SysError> {
        let failed = |errno| {
            SysError::new("give a connection to the kernel", errno, "CAP_NET_ADMIN is needed")
        };
        if !can_begin(socket) {
            return Err(failed(Errno::ISCONN));
        }
        let reuse = sockopt::socket_reuseaddr(socket).map_err(failed)?;
        let unsent_low = get_int(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
        let unsent_low = unsent_low.map_err(failed)?;
        set_int(socket, libc::IPPROTO_TCP, libc::TCP_REPAIR, REPAIR_ON).map_err(failed)?;
        let reuse = [reuse, reuse || record.reuses_address];
        let repaired = Self { socket, reuse, unsent_low };
        match repaired.make(record, unread, sent) {
            Ok(()) => Ok(repaired),
            Err(errno) => {
                repaired.undo();
                Err(failed(errno))
            }
        }
    }

    fn make(&self, record: &Record, unread: &[u8], sent: &[u8]) -> Result<(), Errno> {
        let socket = self.socket;
        let tcp = |name, value| set_int(socket, libc::IPPROTO_TCP, name, value);
        let is_v6 = kind_of(socket).map_err(|error| error.errno())?.is_ipv6();
        let [local, remote] = [record.local, record.remote].map(|end| of_family(end, is_v6));
        tcp(libc::TCP_NOTSENT_LOWAT, NO_LIMIT)?;
        // From its size the kernel reckons the largest window that it will ever announce.
        self.make_room(record)?;
        for (queue, first) in
            [(SEND_QUEUE, record.send_first), (RECEIVE_QUEUE, record.receive_first)]
        {
            tcp(libc::TCP_REPAIR_QUEUE, queue)?;
            tcp(libc::TCP_QUEUE_SEQ, first.cast_signed())?;
        }
        self.bind(local).map_err(|error| error.errno())?;
        rustix::net::connect(socket, &remote)?;
        let own = local_address(socket).map_err(|error| error.errno())?;
        if canonical(own) != canonical(local) {
            return Err(Errno::ADDRNOTAVAIL);
        }
        let [of_peer, ours] = record.shifts.map(u32::from);
        // The shifts even when they are zero: the kernel has chosen some.
        let mut options = vec![
            RepairOption { code: OPTION_MSS, value: record.mss.into() },
            RepairOption { code: OPTION_WINDOW, value: of_peer | ours << 16 },
        ];
        if record.sack {
            options.push(RepairOption { code: OPTION_SACK, value: 0 });
        }
        if record.timestamp.is_some() {
            options.push(RepairOption { code: OPTION_TIMESTAMPS, value: 0 });
        }
        set(socket, libc::TCP_REPAIR_OPTIONS, &options)?;
        if let Some(now) = record.timestamp {
            // The lowest bit asks for microseconds since Linux 6.7. It may not go back either.
            let even = now.wrapping_add(now & 1);
            tcp(libc::TCP_TIMESTAMP, even.cast_signed())?;
        }
        self.fill(RECEIVE_QUEUE, unread)?;
        self.fill(SEND_QUEUE, sent)?;
        set(socket, TCP_REPAIR_WINDOW, &[record.window])
    }

    /// A socket that has a place keeps it; the check behind the connect says whether it is the
    /// right one.
    fn bind(&self, local: SocketAddr) -> Result<(), SysError> {
        match local_address(self.socket)?.port() {
            0 => crate::socket::bind(self.socket, local).map(drop),
            _ => Ok(()),
        }
    }

    fn make_room(&self, record: &Record) -> Result<(), Errno> {
        let socket = self.socket;
        let forced = [
            (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, record.room[0]),
            (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE, record.room[1]),
        ];
        let locked = get_int(socket, libc::SOL_SOCKET, SO_BUF_LOCK).ok();
        for (name, force, bytes) in forced {
            let bytes = bytes.saturating_mul(BYTES_FOR_EACH).saturating_add(BYTES_BESIDE);
            let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
            if get_int(socket, libc::SOL_SOCKET, name)? < bytes {
                // The kernel takes it twice.
                set_int(socket, libc::SOL_SOCKET, force, bytes / 2)?;
            }
        }
        // Whoever has not sized them leaves that to the kernel, as before.
        if let Some(locked) = locked {
            let _ = set_int(socket, libc::SOL_SOCKET, SO_BUF_LOCK, locked);
        }
        Ok(())
    }

    fn fill(&self, queue: libc::c_int, bytes: &[u8]) -> Result<(), Errno> {
        if bytes.is_empty() {
            return Ok(());
        }
        set_int(self.socket, libc::IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, queue)?;
        send_all(self.socket, bytes)
    }

    /// From now on the connection is the kernel's: `unsent` is sent, and the peer is asked where it
    /// is.
    ///
    /// # Errors
    /// The peer has reset it by now, or there is no memory for `unsent`: the connection is of no
    /// use.
    pub fn go_on(self, unsent: &[u8]) -> Result<(), SysError> {
        let failed = |errno| SysError::new("go on with a connection", errno, "");
        set_int(self.socket, libc::IPPROTO_TCP, libc::TCP_REPAIR, REPAIR_OFF).map_err(failed)?;
        sockopt::set_socket_reuseaddr(self.socket, self.reuse[1]).map_err(failed)?;
        send_all(self.socket, unsent).map_err(failed)?;
        self.limit_unsent().map_err(failed)
    }

    fn limit_unsent(&self) -> Result<(), Errno> {
        set_int(self.socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, self.unsent_low)
    }

    /// Takes the connection off the socket, without a segment.
    pub fn undo(self) {
        // Of one that has none this is an error, and all that is left to do is done.
        let _ = rustix::net::connect_unspec(self.socket);
        let _ = get_int(self.socket, libc::SOL_SOCKET, libc::SO_ERROR);
        let off = REPAIR_OFF_WITHOUT_PROBE;
        let _ = set_int(self.socket, libc::IPPROTO_TCP, libc::TCP_REPAIR, off);
        let _ = sockopt::set_socket_reuseaddr(self.socket, self.reuse[0]);
        let _ = self.limit_unsent();
    }
}

/// The address as a socket of that family names it.
fn of_family(address: SocketAddr, is_v6: bool) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(v4) if is_v6 => SocketAddr::new(v4.to_ipv6_mapped().into(), address.port()),
        _ => address,
    }
}

fn send_all(socket: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::send(socket, bytes, flags) {
            Ok(0) => return Err(Errno::NOBUFS),
            Ok(sent) => bytes = &bytes[sent.min(bytes.len())..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Sets an option of TCP whose value is a list of plain structs.
fn set<T: Copy>(socket: BorrowedFd<'_>, name: libc::c_int, value: &[T]) -> Result<(), Errno> {
    // SAFETY: the value is as long as is said, and lives as long as the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            value.as_ptr().cast(),
            size_of_val(value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

#[cfg(test)]
mod tests;
