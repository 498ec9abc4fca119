//! A counter that a sleeping thread can poll: eventfd(2).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;

use crate::SysError;

/// A non-blocking eventfd.
#[derive(Debug)]
pub struct EventFd {
    fd: OwnedFd,
}

impl EventFd {
    /// A new one, at zero.
    ///
    /// # Errors
    /// Out of file descriptors.
    pub fn new() -> Result<Self, SysError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let fd = rustix::event::eventfd(0, flags).map_err(|errno| {
            SysError::new("make an eventfd", errno, "raise the limit of open files (ulimit -n)")
        })?;
        Ok(Self { fd })
    }

    /// One that another process sent. It must be an eventfd and is made non-blocking.
    ///
    /// # Errors
    /// The descriptor takes no flags.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, SysError> {
        let doing = "use a received eventfd";
        let flags = rustix::fs::fcntl_getfl(&fd)
            .and_then(|flags| rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK));
        flags.map_err(|errno| SysError::new(doing, errno, "send an eventfd"))?;
        Ok(Self { fd })
    }

    /// The same under a high number: see [`crate::descriptor::out_of_the_way`].
    #[must_use]
    pub fn out_of_the_way(self) -> Self {
        Self { fd: crate::descriptor::out_of_the_way(self.fd) }
    }

    /// Wakes the thread that polls it. A counter at its limit is as awake as it can be.
    pub fn ring(&self) {
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Sets it back to zero; how often it was rung since.
    pub fn drain(&self) -> u64 {
        let mut count = [0u8; 8];
        match rustix::io::read(&self.fd, &mut count) {
            Ok(8) => u64::from_ne_bytes(count),
            _ => 0,
        }
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_add_up_until_drained() {
        let event = EventFd::new().expect("descriptors are left");
        assert_eq!(event.drain(), 0);
        event.ring();
        event.ring();
        assert_eq!(event.drain(), 2);
        assert_eq!(event.drain(), 0);
    }
}
