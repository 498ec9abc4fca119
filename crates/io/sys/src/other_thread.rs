//! A thread of another process (or of ours), proven to be the one that was meant.
//!
//! A tid is a number that an application told us, and the kernel gives it to somebody else once the
//! thread has ended. Two handles cannot be mistaken for a successor's: a directory of /proc, whose
//! files belong to one thread for good, and a pidfd of the thread (Linux 6.9; without it the
//! directory alone serves). The calls that take a number are done between two looks at a handle: if
//! the second still finds the thread, the number was its own in between.

use std::os::fd::{AsFd, OwnedFd};

use base::Nanos;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::cpu_set::CpuSet;
use crate::pidfd::PidFd;
use crate::{SysError, poll, scheduling, signal};

/// A handle to one thread.
#[derive(Debug)]
pub struct OtherThread {
    /// /proc/PID/task/TID.
    task: OwnedFd,
    /// Readable once the thread has ended. None: the kernel is older than that.
    pidfd: Option<OwnedFd>,
    pid: u32,
    tid: u32,
}

/// The process has no thread of that id, or has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotThere;

/// The thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Why a thread was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unchanged {
    /// It has ended.
    Gone,
    /// The kernel said no: no such CPU, or no right to touch another user's thread.
    Refused(SysError),
}

/// What a thread was doing at one moment, proc_pid_stat(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    /// On a CPU, or waiting for one.
    Running,
    /// Asleep until something happens, or idle in the kernel.
    Sleeping,
    /// Asleep in the kernel where no signal reaches it.
    Uninterruptible,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// Ended, and not cleared away yet.
    Ended,
}

impl OtherThread {
    /// The thread `tid` of `process`. Five system calls, 12 us: once for each thread.
    ///
    /// # Errors
    /// `process` has no such thread, or has ended, or is hidden from us.
    pub fn find(process: &PidFd, tid: u32) -> Result<Self, NotThere> {
        let pid = process.pid();
        let path = format!("/proc/{pid}/task/{tid}");
        let directory = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let task = rustix::fs::open(path, directory, Mode::empty()).map_err(|_| NotThere)?;
        // PIDFD_THREAD is O_EXCL.
        let of_a_thread = PidfdFlags::from_bits_retain(libc::O_EXCL.unsigned_abs());
        let raw = i32::try_from(tid).ok().and_then(Pid::from_raw).ok_or(NotThere)?;
        let pidfd = rustix::process::pidfd_open(raw, of_a_thread).ok();
        let found = Self { task, pidfd, pid, tid };
        // The process lives, so /proc/PID was its own; the directory lives, so no successor had the
        // number when the pidfd was opened.
        if process.is_dead() || found.read_task("stat", &mut [0]).is_err() || found.is_gone() {
            return Err(NotThere);
        }
        Ok(found)
    }

    /// The thread of our own process that has `tid`.
    ///
    /// # Errors
    /// We have no such thread.
    pub fn of_ours(tid: u32) -> Result<Self, NotThere> {
        Self::find(&PidFd::open(std::process::id()).map_err(|_| NotThere)?, tid)
    }

    /// Its process's id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its id.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// Whether it has ended. One system call, 0.3 us (before Linux 6.9: three, 7 us).
    pub fn is_gone(&self) -> bool {
        match &self.pidfd {
            Some(pidfd) => poll::wait_readable(pidfd.as_fd(), Nanos::ZERO),
            None => matches!(self.state(), Err(Gone) | Ok(ThreadState::Ended)),
        }
    }

    /// Lets it run on CPU `cpu` only. 2 us if it sleeps or need not move, 6 us to move one that
    /// runs.
    ///
    /// # Errors
    /// It has ended, or the kernel refuses.
    pub fn pin(&self, cpu: usize) -> Result<(), Unchanged> {
        self.set_affinity(&CpuSet::only(cpu))
    }

    /// Lets it run on `cpus` only; as [`Self::pin`].
    ///
    /// # Errors
    /// As [`Self::pin`].
    pub fn set_affinity(&self, cpus: &CpuSet) -> Result<(), Unchanged> {
        self.by_number(|tid| {
            rustix::thread::sched_setaffinity(Some(tid), cpus.mask())
                .map_err(|errno| cpus.refused(errno))
        })
    }

    /// The CPUs that it may run on. 0.6 us.
    ///
    /// # Errors
    /// It has ended.
    pub fn affinity(&self) -> Result<CpuSet, Gone> {
        let number = Pid::from_raw(self.tid.cast_signed());
        let mask = rustix::thread::sched_getaffinity(number).map_err(|_| Gone)?;
        if self.is_gone() { Err(Gone) } else { Ok(CpuSet::from(mask)) }
    }

    /// Makes it SCHED_IDLE (true) or SCHED_OTHER (false). 1 us.
    ///
    /// # Errors
    /// As [`Self::pin`]; from SCHED_IDLE back needs CAP_SYS_NICE or a generous RLIMIT_NICE.
    pub fn idle_class(&self, idle: bool) -> Result<(), Unchanged> {
        self.by_number(|tid| {
            scheduling::set_idle_of(tid.as_raw_nonzero().get().unsigned_abs(), idle)
        })
    }

    /// Interrupts it by [`signal::NUDGE`]. 0.7 us; waking a sleeper on a halted CPU costs this side
    /// some 10 us.
    ///
    /// # Errors
    /// As [`Self::pin`].
    pub fn nudge(&self) -> Result<(), Unchanged> {
        let refused = |errno| {
            if errno == Errno::SRCH {
                return Unchanged::Gone;
            }
            let advice = "run as the thread's user, or with CAP_KILL";
            Unchanged::Refused(SysError::new("nudge a thread", errno, advice))
        };
        let Some(pidfd) = &self.pidfd else {
            return self.by_number(|tid| signal::nudge_by_number(self.pid, tid));
        };
        let nudge = Signal::from_named_raw(signal::NUDGE).expect("SIGURG has a name");
        rustix::process::pidfd_send_signal(pidfd, nudge).map_err(refused)
    }

    /// CPU time that it has used so far. While it runs this may be behind by a scheduler tick (1
    /// to 10 ms). Three system calls, 4 us.
    ///
    /// # Errors
    /// It has ended, or the kernel keeps no such figures (CONFIG_SCHED_INFO).
    pub fn cpu_time(&self) -> Result<Nanos, Gone> {
        let mut buffer = [0; 96];
        let text = str::from_utf8(self.read_task("schedstat", &mut buffer)?).map_err(|_| Gone)?;
        // Nanoseconds on a CPU come first. A kernel without CONFIG_SCHED_INFO keeps none.
        text.split_ascii_whitespace()
            .next()
            .and_then(|text| text.parse().ok())
            .map(Nanos)
            .ok_or(Gone)
    }

    /// What it is doing. Three system calls, 7 us.
    ///
    /// # Errors
    /// It has ended.
    pub fn state(&self) -> Result<ThreadState, Gone> {
        let mut buffer = [0; 512];
        let text = self.read_task("stat", &mut buffer)?;
        // The name stands in brackets and may hold anything, brackets too.
        let end_of_name = text.iter().rposition(|&byte| byte == b')').ok_or(Gone)?;
        match text.get(end_of_name + 2) {
            Some(b'R') => Ok(ThreadState::Running),
            Some(b'S' | b'I') => Ok(ThreadState::Sleeping),
            Some(b'T' | b't') => Ok(ThreadState::Stopped),
            Some(b'Z' | b'X' | b'x') => Ok(ThreadState::Ended),
            // D, and the short-lived states of waking and parking in the kernel.
            Some(_) => Ok(ThreadState::Uninterruptible),
            None => Err(Gone),
        }
    }

    /// Does something that takes the thread's number, between two looks at the thread.
    fn by_number(&self, act: impl FnOnce(Pid) -> Result<(), SysError>) -> Result<(), Unchanged> {
        if self.is_gone() {
            return Err(Unchanged::Gone);
        }
        let number = Pid::from_raw(self.tid.cast_signed()).expect("find() made one of it");
        let done = act(number);
        if self.is_gone() {
            return Err(Unchanged::Gone);
        }
        done.map_err(Unchanged::Refused)
    }

    /// The beginning of one of its files in /proc.
    fn read_task<'buffer>(
        &self,
        name: &str,
        buffer: &'buffer mut [u8],
    ) -> Result<&'buffer [u8], Gone> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.task, name, flags, Mode::empty()).map_err(|_| Gone)?;
        let length = rustix::io::read(&file, &mut *buffer).map_err(|_| Gone)?;
        buffer.get(..length).ok_or(Gone)
    }
}

#[cfg(test)]
mod tests;
