//! Options that only the kernel's stack carries out, and what becomes of the sockets that have
//! them.
//!
//! A program that sets one relies on it (TCP_MD5SIG: that segments cannot be forged; SO_MARK: that
//! a packet takes another route), so a socket that was given one before it could be ours is the
//! kernel's for good, and the program and the daemon are told when it would have become ours. Many
//! of these options cannot be read back, so the number is marked when one is set. A listener or a
//! UDP socket that is ours already goes back to the kernel, which has the other half of it. A
//! connection cannot: its call fails as on a kernel that was built without the option, unless that
//! is a hint which changes nothing that the program could see.

use std::sync::OnceLock;

use libc::{c_int, c_void, socklen_t};
use rustix::io::Errno;

use crate::calls::{close, fallback, inherit, listen};
use crate::entry::file::Kind;
use crate::entry::{Held, descriptors};
use crate::system::{copy, fork, kernel_socket};
use crate::wait::epoll;

/// What an option is to a connection that is ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Weight {
    /// The program relies on it.
    Promise,
    /// It makes things faster, or bounds how long they take.
    Hint,
}

use Weight::{Hint, Promise};

/// Of linux/tcp.h, linux/in6.h and asm-generic/socket.h, where libc has no name for them.
const TCP_MD5SIG_EXT: c_int = 32;
const TCP_TX_DELAY: c_int = 37;
const TCP_AO_ADD_KEY: c_int = 38;
const TCP_AO_INFO: c_int = 40;
const TCP_AO_REPAIR: c_int = 42;
const IPV6_MINHOPCOUNT: c_int = 73;
const SO_TIMESTAMPING_NEW: c_int = 65;

/// All of them. Zero switches those off that are numbers.
const OPTIONS: &[(c_int, c_int, Weight)] = &[
    (libc::IPPROTO_TCP, libc::TCP_MD5SIG, Promise),
    (libc::IPPROTO_TCP, TCP_MD5SIG_EXT, Promise),
    (libc::IPPROTO_TCP, TCP_AO_ADD_KEY, Promise),
    (libc::IPPROTO_TCP, TCP_AO_INFO, Promise),
    (libc::IPPROTO_TCP, TCP_AO_REPAIR, Promise),
    (libc::IPPROTO_TCP, libc::TCP_REPAIR, Promise),
    (libc::IPPROTO_TCP, libc::TCP_SAVE_SYN, Promise),
    (libc::IPPROTO_TCP, TCP_TX_DELAY, Promise),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT, Hint),
    (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, Hint),
    (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, Hint),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN, Hint),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, Hint),
    (libc::IPPROTO_IP, libc::IP_MINTTL, Promise),
    (libc::IPPROTO_IP, libc::IP_OPTIONS, Promise),
    (libc::IPPROTO_IPV6, IPV6_MINHOPCOUNT, Promise),
    (libc::SOL_SOCKET, libc::SO_MARK, Promise),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPING, Promise),
    (libc::SOL_SOCKET, SO_TIMESTAMPING_NEW, Promise),
    (libc::SOL_SOCKET, libc::SO_TXTIME, Promise),
    (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, Promise),
    (libc::SOL_SOCKET, libc::SO_ATTACH_BPF, Promise),
];

/// An option as the program gives it.
#[derive(Clone, Copy)]
pub(crate) struct Given {
    pub(crate) level: c_int,
    pub(crate) name: c_int,
    pub(crate) value: *const c_void,
    pub(crate) bytes: socklen_t,
}

impl Given {
    /// What it is, if only the kernel carries it out and it is not switched off.
    ///
    /// # Safety
    /// Reading the value is the program's wish.
    unsafe fn weight(self) -> Option<Weight> {
        let Self { level, name, value, bytes } = self;
        if (level, name) == (libc::IPPROTO_TCP, libc::TCP_CONGESTION) {
            // SAFETY: the caller's promise.
            let text = unsafe { inherit::congestion_name(value, bytes) }.ok()?;
            return inherit::congestion_value(&text).is_none().then_some(Promise);
        }
        let is_it = |&&(l, n, _): &&(c_int, c_int, Weight)| (l, n) == (level, name);
        let &(.., weight) = OPTIONS.iter().find(is_it)?;
        if (level, name) == (libc::IPPROTO_TCP, libc::TCP_FASTOPEN) && !has_fast_open() {
            // Linux takes it then, and does nothing.
            return None;
        }
        if bytes as usize == size_of::<c_int>() {
            // SAFETY: that many bytes are there.
            let number = unsafe { copy::get(value.cast::<c_int>()) }.ok()?;
            return (number != 0).then_some(weight);
        }
        Some(weight)
    }
}

/// Whether listeners of this machine take data with a SYN: bit 1 of the sysctl.
fn has_fast_open() -> bool {
    static IT_HAS: OnceLock<bool> = OnceLock::new();
    *IT_HAS.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_fastopen");
        let number = text.ok().and_then(|text| text.trim().parse::<u32>().ok());
        number.is_none_or(|number| number & 2 != 0)
    })
}

/// The kernel has taken an option of a socket that is not ours.
///
/// # Safety
/// Reading the value is the program's wish.
pub(crate) unsafe fn note(fd: c_int, given: Given) {
    // SAFETY: the caller's promise.
    if unsafe { given.weight() }.is_some()
        && !fork::is_borrowed()
        && (descriptors::is_plain(fd) || descriptors::is_fresh(fd))
        && kernel_socket::kind_of(fd).is_some()
    {
        descriptors::set_kernels(fd);
    }
}

/// An option is about to be set on a socket of ours; whether that may go on as if it were any
/// other.
///
/// # Errors
/// ENOPROTOOPT, or ENOENT for a congestion control: the data plane has no such thing.
///
/// # Safety
/// Reading the value is the program's wish.
pub(crate) unsafe fn on_ours(fd: c_int, held: &Held, given: Given) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let Some(Promise) = (unsafe { given.weight() }) else { return Ok(()) };
    let kind = held.file().map(|file| file.kind);
    match kind {
        Some(Kind::Stream) if given.name == libc::TCP_CONGESTION => Err(Errno::NOENT),
        Some(Kind::Stream) => Err(Errno::NOPROTOOPT),
        Some(Kind::Listener) => {
            listen::give_up(fd, held);
            stays(fd);
            Ok(())
        }
        Some(Kind::Datagram) => {
            epoll::moves_back(fd);
            close::forget(fd);
            stays(fd);
            Ok(())
        }
        None => Ok(()),
    }
}

fn stays(fd: c_int) {
    descriptors::set_kernels(fd);
    fallback::tell(fd);
}
