//! A process that cannot be mistaken for its successor: pidfd_open(2).

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use base::Nanos;
use rustix::io::Errno;
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

    /// The process that connected a UNIX socket (SO_PEERPIDFD, Linux 6.5). Where the kernel does
    /// not tell, the one that has its number now: then it may be another one that has got it since.
    ///
    /// # Errors
    /// It is no connected UNIX socket, or the process has ended.
    pub fn of_peer(socket: BorrowedFd<'_>) -> Result<Self, SysError> {
        /// The same on every architecture that we run on.
        const SO_PEERPIDFD: libc::c_int = 77;
        let pid = crate::unix_socket::peer_credentials(socket)?.pid;
        match crate::socket::get_int(socket, libc::SOL_SOCKET, SO_PEERPIDFD) {
            Ok(fd) => {
                // SAFETY: the kernel has just made it for us, and nobody else knows of it.
                let fd = unsafe { OwnedFd::from_raw_fd(fd) };
                Ok(Self { fd, pid })
            }
            Err(Errno::NOPROTOOPT) => Self::open(pid),
            Err(errno) => {
                let advice = "it may have ended already";
                Err(SysError::new(format!("watch process {pid}"), errno, advice))
            }
        }
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
    fn the_process_that_has_connected_is_watched_and_no_successor_of_its_number() {
        let path = std::env::temp_dir().join(format!("calisto-pidfd-{}", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("it is free");
        let script = "import socket, sys\n\
            one = socket.socket(socket.AF_UNIX); one.connect(sys.argv[1]); sys.stdin.read()\n";
        let mut child = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(&path)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("python is here");
        let (connection, _) = listener.accept().expect("it connects");
        std::fs::remove_file(&path).expect("it is ours");
        let watch = PidFd::of_peer(connection.as_fd()).expect("it waits for its input");
        assert!(watch.pid() == child.id() && !watch.is_dead());
        drop(child.stdin.take());
        child.wait().expect("it is our child");
        assert!(watch.is_dead());
        // Its number is free now, and may be another process's soon.
        let late = PidFd::of_peer(connection.as_fd());
        assert!(late.is_err() || late.is_ok_and(|late| late.is_dead()));
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("descriptors are left");
        let own = PidFd::of_peer(one.as_fd()).expect("we live");
        assert!(own.pid() == std::process::id() && !own.is_dead());
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
