//! The thread that looks after polls that do not end.
//!
//! It sleeps on a kernel timer that a worker starts when it wakes up: that costs the worker a third
//! of a microsecond, where waking a thread would cost ten. While somebody is awake it looks at its
//! rate; when all sleep, so does it.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use base::Nanos;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use sys::SysError;

/// The timer, which any thread may start.
#[derive(Debug)]
pub(crate) struct Watchdog {
    timer: OwnedFd,
    period: Nanos,
    /// The timer runs, or the watchdog is awake and will look whether it must.
    is_armed: AtomicBool,
}

impl Watchdog {
    /// # Errors
    /// Out of file descriptors.
    pub(crate) fn new(period: Nanos) -> Result<Self, SysError> {
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
        let timer = timer.map_err(|errno| {
            SysError::new("make a timer", errno, "raise the limit of open files (ulimit -n)")
        })?;
        Ok(Self { timer, period: period.max(Nanos(1)), is_armed: AtomicBool::new(false) })
    }

    /// A worker has woken up, and has said so in `WorkerSet::note_awake` before.
    pub(crate) fn arm(&self) {
        // The worker says that it is awake and then reads this; `WorkerSet::watch_polls` clears
        // this and then looks who is awake. In the one order of all these (SeqCst), one of the two
        // sees the other.
        if !self.is_armed.load(Ordering::SeqCst) && !self.is_armed.swap(true, Ordering::SeqCst) {
            self.start(self.period);
        }
    }

    /// Has the watchdog look at once.
    pub(crate) fn fire(&self) {
        self.start(Nanos(1));
    }

    fn start(&self, after: Nanos) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec {
            tv_sec: i64::try_from(after.0 / 1_000_000_000).expect("2^64 ns are 584 years"),
            tv_nsec: (after.0 % 1_000_000_000) as _,
        };
        let once = Itimerspec { it_interval: zero, it_value: value };
        // A timer of our own and a time of less than 1e9 nanoseconds: it cannot be refused.
        let _ = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
    }

    /// Sleeps until the timer has run out, or a signal has come, which is as good.
    pub(crate) fn sleep(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.timer, &mut count);
    }

    /// The thread has looked: the next worker that wakes up starts the timer.
    pub(crate) fn disarm(&self) {
        self.is_armed.store(false, Ordering::SeqCst);
    }
}
