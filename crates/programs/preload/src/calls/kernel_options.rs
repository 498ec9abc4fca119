//! Options that only the kernel's stack carries out, and what becomes of the sockets that have
//! them: see [`super::option_table`].
//!
//! A program that sets one relies on it (TCP_MD5SIG: that segments cannot be forged; SO_MARK: that
//! a packet takes another route), so a socket that was given one before it could be ours is the
//! kernel's for good, and the program and the daemon are told when it would have become ours. Many
//! of these options cannot be read back, so the number is marked when one is set. A listener or a
//! UDP socket that is ours already goes back to the kernel, which has the other half of it. A
//! connection cannot: its call fails as on a kernel that was built without the option, unless it
//! is [`Treatment::Early`].

use libc::{c_int, c_void, socklen_t};
use rustix::io::Errno;

use crate::calls::option_table::{self, Treatment};
use crate::calls::{close, fallback, inherit, listen};
use crate::entry::file::Kind;
use crate::entry::{Held, descriptors};
use crate::system::{address, copy, fork, kernel_socket, real};
use crate::wait::epoll;

/// An option as the program gives it.
#[derive(Clone, Copy)]
pub(crate) struct Given {
    pub(crate) level: c_int,
    pub(crate) name: c_int,
    pub(crate) value: *const c_void,
    pub(crate) bytes: socklen_t,
}

impl Given {
    /// What becomes of it.
    ///
    /// # Safety
    /// Reading the value is the program's wish.
    unsafe fn treatment(self, is_stream: bool) -> Treatment {
        let Self { level, name, value, bytes } = self;
        let treatment = option_table::treatment(level, name, is_stream);
        if (level, name) == (libc::IPPROTO_TCP, libc::TCP_CONGESTION) {
            // SAFETY: the caller's promise.
            let text = unsafe { inherit::congestion_name(value, bytes) };
            let is_known = text.map_or(true, |text| inherit::congestion_value(&text).is_some());
            return if is_known { treatment } else { Treatment::Falls };
        }
        if (level, name) == (libc::IPPROTO_TCP, libc::TCP_MAXSEG) {
            // SAFETY: the caller's promise; what cannot be read is refused by the kernel.
            let bytes = unsafe { copy::get(value.cast::<c_int>()) };
            return if bytes == Ok(MSS_UNSET) { Treatment::Early } else { treatment };
        }
        if !matches!(treatment, Treatment::Falls | Treatment::Early) {
            return treatment;
        }
        if bytes as usize == size_of::<c_int>() {
            // SAFETY: that many bytes are there.
            let number = unsafe { copy::get(value.cast::<c_int>()) };
            // What cannot be read is refused by the kernel.
            if number.map_or(true, |number| option_table::is_usual(level, name, number)) {
                return Treatment::Kernel;
            }
        }
        treatment
    }
}

/// What TCP_MAXSEG says of a socket on which it was not set (TCP_MSS_DEFAULT of Linux): the daemon,
/// which is given the socket, cannot tell that somebody has.
const MSS_UNSET: c_int = 536;

/// The kernel has taken an option of a socket that is not ours.
///
/// # Safety
/// Reading the value is the program's wish.
pub(crate) unsafe fn note(fd: c_int, given: Given) {
    if fork::is_borrowed()
        || !(descriptors::is_plain(fd) || descriptors::is_fresh(fd))
        || option_table::stays_with_us(given.level, given.name)
    {
        return;
    }
    let Some((_, is_stream)) = kernel_socket::kind_of(fd) else { return };
    // SAFETY: the caller's promise.
    if matches!(unsafe { given.treatment(is_stream) }, Treatment::Falls | Treatment::Early) {
        descriptors::set_kernels(fd);
    }
}

/// An option is about to be set on a connection of ours.
///
/// # Errors
/// ENOPROTOOPT, or ENOENT for a congestion control: the data plane has no such thing.
///
/// # Safety
/// Reading the value is the program's wish.
pub(crate) unsafe fn on_connection(given: Given) -> Result<(), Errno> {
    const TCP_FASTOPEN_NO_COOKIE: c_int = 34;
    let name = (given.level, given.name);
    if let (
        libc::IPPROTO_TCP,
        libc::TCP_FASTOPEN | libc::TCP_FASTOPEN_CONNECT | TCP_FASTOPEN_NO_COOKIE,
    ) = name
    {
        // It is too late: the kernel's half does not know.
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller's promise.
    match unsafe { given.treatment(true) } {
        Treatment::Falls if name == (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => Err(Errno::NOENT),
        Treatment::Falls => Err(Errno::NOPROTOOPT),
        _ => Ok(()),
    }
}

/// The kernel has taken an option of a socket that has both halves; true: it is the kernel's alone
/// from now on.
///
/// # Safety
/// Reading the value is the program's wish.
pub(crate) unsafe fn on_halves(fd: c_int, held: &Held, kind: Kind, given: Given) -> bool {
    if fork::is_borrowed() {
        return false;
    }
    // SAFETY: the caller's promise.
    let treatment = unsafe { given.treatment(kind != Kind::Datagram) };
    match (kind, treatment) {
        (Kind::Listener, Treatment::Falls) => listen::give_up(fd, held),
        (Kind::Datagram, Treatment::Falls | Treatment::Early) => {
            let peer =
                held.file().and_then(|file| Some((file.socket.peer_address()?, file.family)));
            epoll::moves_back(fd);
            close::forget(fd);
            if let Some((peer, family)) = peer {
                // The kernel's half was not connected.
                let (name, count) = address::storage(peer, family);
                // SAFETY: an address of ours. It fails only where there is no way any more.
                unsafe { real::connect(fd, (&raw const name).cast(), count as socklen_t) };
            }
        }
        _ => return false,
    }
    descriptors::set_kernels(fd);
    fallback::tell(fd);
    true
}
