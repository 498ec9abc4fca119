//! shutdown(2).

use calisto_client::sockets::{GIVEN_TO_KERNEL, Shutdown};
use libc::c_int;
use rustix::io::Errno;

use crate::calls::listen;
use crate::entry::file::Kind;
use crate::process::lookup;
use crate::system::{fork, outcome, real};
use crate::wait;

/// shutdown(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn shutdown(fd: c_int, how: c_int) -> c_int {
    let Some(held) = lookup::socket(fd) else {
        // SAFETY: plain numbers.
        return unsafe { real::shutdown(fd, how) };
    };
    let direction = match how {
        libc::SHUT_RD => Shutdown::Read,
        libc::SHUT_WR => Shutdown::Write,
        libc::SHUT_RDWR => Shutdown::Both,
        _ => return outcome::failed(Errno::INVAL),
    };
    let Some(file) = held.file() else { return outcome::failed(Errno::NOTSOCK) };
    let ours = file.socket.shutdown(direction);
    if ours == Err(GIVEN_TO_KERNEL) {
        wait::given(fd, &held);
        // SAFETY: plain numbers.
        return unsafe { real::shutdown(fd, how) };
    }
    if file.kind == Kind::Stream {
        if file.is_opening() && file.socket.is_connected() {
            // Linux takes the call for the program's notice that the connection stands.
            file.set_opening(false);
        }
        return outcome::done(ours);
    }
    // A listener and a UDP socket have a kernel half.
    // SAFETY: plain numbers.
    let result = unsafe { real::shutdown(fd, how) };
    if file.kind == Kind::Listener {
        // Shut for reading it listens no more (`inet_shutdown`), and may listen or connect anew.
        if result == 0 && direction != Shutdown::Write && !fork::is_borrowed() {
            outcome::unheard(|| listen::give_up(fd, &held));
        }
        return result;
    }
    // That of a UDP socket does not know that it is connected.
    if file.socket.peer_address().is_some() { outcome::done(ours) } else { result }
}
