//! How a call waits for one socket.

/// Points at which a thread may be cancelled.
pub(crate) mod cancel;
/// When a call must return.
pub(crate) mod deadline;
/// Sets of epoll(7).
pub(crate) mod epoll;
/// Waiting for a socket with two halves.
mod halves;
/// Waiting for several descriptors.
pub(crate) mod list;
/// How long a thread lets others run.
pub(crate) mod yield_policy;

use calisto_client::sockets::{Readiness, Waited};
use libc::c_int;
use rustix::io::Errno;

use crate::entry::file::Kind;
use crate::entry::{Held, descriptors, own_code};
use crate::process::lookup;
use crate::system::{fork, interrupts};
use crate::wait::deadline::Deadline;

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// Look again.
    Look,
    /// The time is up.
    TimedOut,
    /// The descriptor is another file's by now, or none's. The call ends as that of a closed
    /// descriptor (EBADF, or what it has done so far): it was made of the file that the number had
    /// when it began, and must not touch the one that has it now. Linux would let it wait on for
    /// the old file, as long as that takes; here the file ends with its last number.
    Replaced,
}

/// A socket's connection was given to the kernel: returns when its number is the kernel's, and
/// calls can be made of that.
#[cold]
pub(crate) fn given(fd: c_int, held: &Held) {
    // Another thread may be about to do that.
    while lookup::socket(fd).is_some() && descriptors::is_still(fd, held) {
        if own_code::is_running() || fork::is_borrowed() {
            return;
        }
        std::thread::yield_now();
    }
}

/// Waits for one socket, and for its kernel half if it has one.
///
/// # Errors
/// EINTR: a signal was handled whose handler ends calls.
pub(crate) fn on(
    fd: c_int,
    held: &Held,
    want: Readiness,
    deadline: Deadline,
) -> Result<Ended, Errno> {
    let Some(file) = held.file() else { return Ok(Ended::Replaced) };
    cancel::point();
    let waited = match file.kind {
        Kind::Stream => {
            let left = deadline.left();
            let step = left.map_or(cancel::LOOK_EVERY, |left| left.min(cancel::LOOK_EVERY));
            // A call with a time limit is ended by every handler.
            match deadline == Deadline::Never && interrupts::depends() {
                true => file.socket.wait_on(want, Some(step)),
                false => file.socket.wait(want, Some(step)),
            }
        }
        Kind::Listener | Kind::Datagram => halves::both(fd, held, want, deadline),
    };
    cancel::point();
    if file.is_to_leave() {
        given(fd, held);
    }
    if !descriptors::is_still(fd, held) {
        return Ok(Ended::Replaced);
    }
    match waited {
        Ok(Waited::Ready) => Ok(Ended::Look),
        Ok(Waited::TimedOut) if !deadline.is_over() => Ok(Ended::Look),
        Ok(Waited::TimedOut) => Ok(Ended::TimedOut),
        // A call with a time limit is never begun again.
        Ok(Waited::Interrupted) if deadline != Deadline::Never || interrupts::ends_calls() => {
            Err(Errno::INTR)
        }
        Ok(Waited::Interrupted) => Ok(Ended::Look),
        // It is over, which the next look finds out.
        Err(_) => Ok(Ended::Look),
    }
}
