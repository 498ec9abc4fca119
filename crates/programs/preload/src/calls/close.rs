//! close(2), and the time that a close may take to send what was written.

use std::time::Duration;

use calisto_client::sockets::SocketOption;
use libc::{c_int, c_uint};
use rustix::io::Errno;

use crate::calls::{refuse, to_kernel};
use crate::entry::descriptors::{self, Found};
use crate::entry::file::{File, Kind};
use crate::entry::{Held, own_code};
use crate::process::lookup;
use crate::system::{fork, outcome, real};
use crate::wait::deadline::Deadline;

/// close(2). A descriptor that the program does not know of is not open, as far as it can see.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn close(fd: c_int) -> c_int {
    if !fork::is_borrowed() {
        if matches!(descriptors::find_quietly(fd), Found::Internal) && !own_code::is_running() {
            return outcome::failed(Errno::BADF);
        }
        lookup::leave(fd);
        // The number is free only when the kernel has it back: until then nobody gets it anew. Who
        // waits on it is woken after that, and finds what the kernel has there by then.
        let removed = descriptors::remove(fd);
        if let Some((held, true)) = &removed {
            outcome::unheard(|| prepare(held));
        }
        // SAFETY: a plain number.
        let result = unsafe { real::close(fd) };
        if let Some((held, true)) = removed {
            outcome::unheard(|| end(&held));
        }
        return result;
    }
    // SAFETY: a plain number.
    unsafe { real::close(fd) }
}

/// The number means nothing to us any more.
pub(crate) fn forget(fd: c_int) {
    lookup::leave(fd);
    if let Some((held, true)) = descriptors::remove(fd) {
        prepare(&held);
        end(&held);
    }
}

/// No number of this process names it any more.
pub(crate) fn end(held: &Held) {
    held.end();
    to_kernel::closed(held);
}

/// What a close does while the kernel's socket is still open.
pub(crate) fn prepare(held: &Held) {
    match held.file() {
        Some(file) if file.kind == Kind::Listener && !file.is_shared() => refuse::all(file),
        _ => linger(held),
    }
}

/// SO_LINGER: close(2) waits until the peer has all that was written, or the time is over. The
/// kernel's socket is still open then: with it the data plane's would go.
fn linger(held: &Held) {
    let Some(file) = held.file() else { return };
    let seconds = lingers(file);
    if seconds == 0 {
        return;
    }
    let deadline = Deadline::after(Duration::from_secs(seconds.into()));
    while file.socket.unsent_bytes() > 0 && !deadline.is_over() {
        // Nothing is held back for more to come. And nobody is told of the last acknowledgement: a
        // worker looks what there is of them because an option was set.
        file.socket.set_option(SocketOption::More, 0);
        file.socket.set_option(SocketOption::Cork, 0);
        std::thread::sleep(LINGER_STEP);
    }
}

/// Seconds that a close of it waits, at most.
fn lingers(file: &File) -> u32 {
    // Counted from one on; without any time it is a reset, which waits for nothing.
    let seconds = file.socket.option(SocketOption::Linger).saturating_sub(1);
    let is_so = file.kind == Kind::Stream && !file.is_shared() && !file.socket.is_kernels();
    if is_so { seconds } else { 0 }
}

/// A number of our own for the kernel's socket of what lingers, so that another file may have its
/// number meanwhile. Nothing: it does not linger, or there is no number left.
pub(crate) fn keep_lingering(fd: c_int, held: &Held) -> Option<c_int> {
    let file = held.file()?;
    if lingers(file) == 0 || file.socket.unsent_bytes() == 0 {
        return None;
    }
    // SAFETY: plain numbers.
    let kept = unsafe { real::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    (kept >= 0).then(|| {
        descriptors::set_internal(kept);
        kept
    })
}

/// Waits as long as a close does, and gives the number back.
pub(crate) fn end_lingering(kept: c_int, held: &Held) {
    prepare(held);
    descriptors::remove(kept);
    // SAFETY: it was made for this.
    unsafe { real::close(kept) };
}

/// How long a look lasts whether all was sent.
const LINGER_STEP: Duration = Duration::from_millis(1);

/// close_range(2). Our own descriptors are left out, so that a program that closes all it does not
/// know goes on being served.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    const ONLY_MARK: c_int = libc::CLOSE_RANGE_CLOEXEC as c_int;
    const KNOWN: c_int = ONLY_MARK | libc::CLOSE_RANGE_UNSHARE as c_int;
    let is_refused = first > last || flags & !KNOWN != 0;
    // A child of vfork is about to become another program, which has no use for them.
    if is_refused || flags & ONLY_MARK != 0 || fork::is_borrowed() || !descriptors::any_special() {
        // SAFETY: plain numbers.
        return unsafe { real::close_range(first, last, flags) };
    }
    let mut from = first;
    for (fd, is_internal) in descriptors::special(first as usize, last as usize) {
        let number = fd as c_uint;
        if !is_internal {
            forget(fd);
            continue;
        }
        if number > from {
            // SAFETY: plain numbers.
            let result = unsafe { real::close_range(from, number - 1, flags) };
            if result < 0 {
                return result;
            }
        }
        from = number + 1;
    }
    if from > last {
        return 0;
    }
    // SAFETY: plain numbers.
    unsafe { real::close_range(from, last, flags) }
}

/// closefrom(3).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn closefrom(first: c_int) -> c_int {
    // SAFETY: plain numbers.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) }
}
