//! Waits for one of several descriptors: ppoll(2) with a timeout in nanoseconds.

use std::os::fd::BorrowedFd;

use base::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// Up to this many descriptors are waited for at once; a port has one per queue.
pub const WAIT_MAX: usize = 64;

/// Descriptors to wait for; reusable, without allocation.
#[derive(Debug, Default)]
pub struct Waiter<'fd> {
    fds: Vec<PollFd<'fd>>,
}

impl<'fd> Waiter<'fd> {
    /// Nothing to wait for yet, with room for [`WAIT_MAX`] descriptors.
    pub fn new() -> Self {
        Self { fds: Vec::with_capacity(WAIT_MAX) }
    }

    /// Waits for `fd` to be readable too; false when there are [`WAIT_MAX`] already.
    #[must_use]
    pub fn add(&mut self, fd: BorrowedFd<'fd>) -> bool {
        if self.fds.len() == WAIT_MAX {
            return false;
        }
        self.fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        true
    }

    /// Sleeps until one is readable (or broken), a signal comes, or `timeout` passes
    /// ([`Nanos::FAR_FUTURE`]: never). How many are ready.
    pub fn wait(&mut self, timeout: Nanos) -> usize {
        let timespec = (timeout != Nanos::FAR_FUTURE).then(|| timespec(timeout));
        match rustix::event::poll(&mut self.fds, timespec.as_ref()) {
            Ok(ready) => ready,
            Err(errno) => {
                // EINTR is a wake-up like any other; the rest would be a bug of this file.
                debug_assert!(matches!(errno, Errno::INTR | Errno::NOMEM), "{errno}");
                self.fds.iter_mut().for_each(PollFd::clear_revents);
                0
            }
        }
    }

    /// Whether the `index`-th added descriptor was ready in the last [`Self::wait`].
    pub fn is_ready(&self, index: usize) -> bool {
        self.fds.get(index).is_some_and(|fd| !fd.revents().is_empty())
    }
}

/// Sleeps until `fd` is readable or `timeout` passes; whether it is readable.
pub fn wait_readable(fd: BorrowedFd<'_>, timeout: Nanos) -> bool {
    let timespec = (timeout != Nanos::FAR_FUTURE).then(|| timespec(timeout));
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, timespec.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Sleeps until `first` or one of `others` is readable (or broken), a signal comes, or `timeout`
/// passes; whether one is readable. Of the others, [`WAIT_MAX`] less one are looked at. Allocates
/// nothing.
pub fn wait_any<'fd>(
    first: BorrowedFd<'fd>,
    others: impl Iterator<Item = BorrowedFd<'fd>>,
    timeout: Nanos,
) -> bool {
    let timespec = (timeout != Nanos::FAR_FUTURE).then(|| timespec(timeout));
    let mut fds: [PollFd<'fd>; WAIT_MAX] =
        std::array::from_fn(|_| PollFd::from_borrowed_fd(first, PollFlags::IN));
    let mut count = 1;
    for (place, fd) in fds[1..].iter_mut().zip(others) {
        *place = PollFd::from_borrowed_fd(fd, PollFlags::IN);
        count += 1;
    }
    rustix::event::poll(&mut fds[..count], timespec.as_ref()).is_ok_and(|ready| ready > 0)
}

fn timespec(length: Nanos) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(length.0 / 1_000_000_000).expect("2^64 ns are 584 years"),
        tv_nsec: (length.0 % 1_000_000_000) as _,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::eventfd::EventFd;

    #[test]
    fn only_the_descriptor_that_was_rung_is_ready() {
        let quiet = EventFd::new().expect("descriptors are left");
        let rung = EventFd::new().expect("descriptors are left");
        let mut waiter = Waiter::new();
        assert!(waiter.add(quiet.as_fd()));
        assert!(waiter.add(rung.as_fd()));
        assert_eq!(waiter.wait(Nanos::ZERO), 0);
        rung.ring();
        assert_eq!(waiter.wait(Nanos::FAR_FUTURE), 1);
        assert!(!waiter.is_ready(0));
        assert!(waiter.is_ready(1));
        assert!(!waiter.is_ready(2));
    }

    #[test]
    fn any_of_some_descriptors_ends_a_wait_for_all() {
        let quiet = EventFd::new().expect("descriptors are left");
        let rung = EventFd::new().expect("descriptors are left");
        let others = || [quiet.as_fd(), rung.as_fd()].into_iter();
        assert!(!wait_any(quiet.as_fd(), others(), Nanos::from_micros(200)));
        rung.ring();
        assert!(wait_any(quiet.as_fd(), others(), Nanos::FAR_FUTURE));
        assert!(wait_any(rung.as_fd(), std::iter::empty(), Nanos::FAR_FUTURE));
    }

    #[test]
    fn a_timeout_ends_the_wait() {
        let quiet = EventFd::new().expect("descriptors are left");
        assert!(!wait_readable(quiet.as_fd(), Nanos::from_micros(200)));
    }

    #[test]
    fn one_descriptor_too_many_is_refused() {
        let event = EventFd::new().expect("descriptors are left");
        let mut waiter = Waiter::new();
        for _ in 0..WAIT_MAX {
            assert!(waiter.add(event.as_fd()));
        }
        assert!(!waiter.add(event.as_fd()));
    }
}
