//! Many descriptors behind one: epoll(7), level-triggered.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::SysError;

/// A descriptor that is readable when one of its members is.
#[derive(Debug)]
pub struct PollSet {
    fd: OwnedFd,
}

impl PollSet {
    /// Without members.
    ///
    /// # Errors
    /// Out of file descriptors.
    pub fn new() -> Result<Self, SysError> {
        let fd = epoll::create(CreateFlags::CLOEXEC).map_err(|errno| {
            SysError::new("make an epoll set", errno, "raise the limit of open files (ulimit -n)")
        })?;
        Ok(Self { fd })
    }

    /// Makes `member` one of it, until the member's last copy is closed.
    ///
    /// # Errors
    /// A descriptor that cannot be polled (a file), or one that is a member already.
    pub fn add(&self, member: BorrowedFd<'_>) -> Result<(), SysError> {
        epoll::add(&self.fd, member, EventData::new_u64(0), EventFlags::IN)
            .map_err(|errno| SysError::new("wait for a descriptor", errno, ""))
    }
}

impl AsFd for PollSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use base::Nanos;

    use super::*;
    use crate::eventfd::EventFd;
    use crate::poll::wait_readable;

    #[test]
    fn it_is_readable_for_as_long_as_a_member_is() {
        let set = PollSet::new().expect("descriptors are left");
        let (quiet, rung) = (EventFd::new().expect("fds"), EventFd::new().expect("fds"));
        set.add(quiet.as_fd()).expect("an eventfd can be polled");
        set.add(rung.as_fd()).expect("an eventfd can be polled");
        assert!(!wait_readable(set.as_fd(), Nanos::ZERO));
        rung.ring();
        for _ in 0..2 {
            assert!(wait_readable(set.as_fd(), Nanos::from_secs(30)));
        }
        rung.drain();
        assert!(!wait_readable(set.as_fd(), Nanos::ZERO));
    }

    #[test]
    fn a_member_that_cannot_be_polled_is_refused() {
        let set = PollSet::new().expect("descriptors are left");
        let file = std::fs::File::open("/proc/self/exe").expect("we are a file");
        assert!(set.add(file.as_fd()).is_err());
    }
}
