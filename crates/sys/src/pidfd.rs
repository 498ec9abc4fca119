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

    /// Whether it has ended or is on its way out: its descriptors close a moment before it is dead.
    pub fn is_ending(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid));
        self.is_dead() || stat.is_ok_and(|stat| is_exiting(&stat))
    }

    /// The pid it had when it was opened.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

/// Reads a line of /proc/PID/stat, proc_pid_stat(5): state is field 3, the kernel's flags field 9.
fn is_exiting(stat: &str) -> bool {
    /// Of linux/sched.h: getting shut down.
    const PF_EXITING: u64 = 0x4;
    // The name stands in brackets and may hold anything, brackets too.
    let Some((_, fields)) = stat.rsplit_once(')') else { return false };
    let mut fields = fields.split_whitespace();
    let state = fields.next();
    let flags = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok());
    matches!(state, Some("Z" | "X")) || flags.is_some_and(|flags| flags & PF_EXITING != 0)
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
    fn a_process_on_its_way_out_is_told_from_one_that_lives() {
        let line = |state: &str, flags: u32| format!("7 (a) b)) {state} 1 7 7 0 -1 {flags} 99 0");
        assert!(!is_exiting(&line("S", 0x40_0000)));
        assert!(is_exiting(&line("R", 0x40_0004)));
        assert!(is_exiting(&line("Z", 0)));
        assert!(!is_exiting("") && !is_exiting("7 (cat)") && !is_exiting("7 (cat) S 1"));
        let own = PidFd::open(std::process::id()).expect("we live");
        assert!(!own.is_ending());
    }

    #[test]
    fn a_pid_that_is_none_is_refused() {
        assert!(PidFd::open(0).is_err());
        assert!(PidFd::open(u32::MAX).is_err());
    }
}
