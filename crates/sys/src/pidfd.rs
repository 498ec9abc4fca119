//! A process that cannot be mistaken for its successor: pidfd_open(2).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::Nanos;
use rustix::process::{Pid, PidfdFlags};

use crate::{SysError, poll};

/// A handle to one process; its pid may be reused, the handle never means another one.
#[derive(Debug)]
pub struct PidFd {
    fd: OwnedFd,
    pid: u32,
}

impl PidFd {
    /// The process that has `pid` now.
    ///
    /// # Errors
    /// No such process.
    pub fn open(pid: u32) -> Result<Self, SysError> {
        let failed = |errno| {
            SysError::new(format!("watch process {pid}"), errno, "it may have ended already")
        };
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let raw = raw.ok_or_else(|| failed(rustix::io::Errno::SRCH))?;
        let fd = rustix::process::pidfd_open(raw, PidfdFlags::empty()).map_err(failed)?;
        Ok(Self { fd, pid })
    }

    /// Whether it has ended (a zombie has: none of its threads runs any more).
    pub fn is_dead(&self) -> bool {
        poll::wait_readable(self.fd.as_fd(), Nanos::ZERO)
    }

    /// The pid it had when it was opened.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

impl AsFd for PidFd {
    /// Readable once the process is dead.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_dead_once_it_has_ended() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat is everywhere");
        let watch = PidFd::open(child.id()).expect("it waits for its input");
        assert!(!watch.is_dead());
        drop(child.stdin.take());
        assert!(poll::wait_readable(watch.as_fd(), Nanos::from_secs(10)));
        assert!(watch.is_dead(), "a zombie counts as dead");
        child.wait().expect("it is our child");
        assert!(watch.is_dead());
    }

    #[test]
    fn a_pid_that_is_none_is_refused() {
        assert!(PidFd::open(0).is_err());
        assert!(PidFd::open(u32::MAX).is_err());
    }
}
