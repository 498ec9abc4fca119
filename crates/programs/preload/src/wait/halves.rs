//! Waiting for a socket that has a half of the kernel's: a listener, or one of UDP.

use calisto_client::sockets::{Readiness, Waited};
use libc::{c_int, pollfd};
use rustix::io::Errno;

use crate::entry::{Held, descriptors};
use crate::system::interrupts::GoingOn;
use crate::wait::deadline::Deadline;
use crate::wait::list::{List, Ours};

/// Waits for a socket that has a kernel half.
pub(crate) fn both(
    fd: c_int,
    held: &Held,
    want: Readiness,
    deadline: Deadline,
) -> Result<Waited, Errno> {
    let events = want.bits() as i16;
    let mut list = List::new(std::iter::empty());
    list.kernel.push(pollfd { fd, events: events & !libc::POLLOUT, revents: 0 });
    list.ours.push(Ours { index: 0, held: held.clone(), fd, events });
    // A call with a time limit is ended by every handler. The signals of the others come when the
    // sleep is over, which they end by their descriptor, and the caller looks again.
    let hidden = (deadline == Deadline::Never).then(Hidden::new).flatten();
    let mut mask = std::ptr::null();
    if let Some(Hidden(GoingOn { fd, mask: without })) = &hidden {
        list.kernel.push(pollfd { fd: *fd, events: libc::POLLIN, revents: 0 });
        mask = std::ptr::from_ref(without);
    }
    let waited = list.wait_once(deadline, mask);
    drop(hidden);
    match waited {
        Ok(Some(0)) => Ok(Waited::TimedOut),
        // A socket that was renewed has another entry, which the caller finds out.
        Ok(_) => Ok(Waited::Ready),
        Err(Errno::INTR) => Ok(Waited::Interrupted),
        Err(errno) => Err(errno),
    }
}

/// The descriptor of signals after which a call goes on, which the program does not know of.
struct Hidden(GoingOn);

impl Hidden {
    fn new() -> Option<Self> {
        let going_on = GoingOn::watched()?;
        descriptors::set_internal(going_on.fd);
        Some(Self(going_on))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // Before it is closed, and another file has its number.
        descriptors::is_new(self.0.fd);
    }
}
