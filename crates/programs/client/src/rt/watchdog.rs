//! The thread that looks after polls that do not end.
//!
//! It sleeps on a kernel timer that a worker starts when it wakes up: that costs the worker a third of
//! a microsecond, where waking a thread would cost ten. While somebody is awake it looks at its rate;
//! when all sleep, so does it.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use base::Nanos;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use sys::{SysError, clock};

use crate::rt::worker_set::WorkerSet;

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
        // The worker says that it is awake and then reads this; `watch` clears this and then looks
        // who is awake. In the one order of all these (SeqCst), one of the two sees the other.
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

    /// The thread: until the worker set has ended.
    pub(crate) fn watch(&self, worker_set: &WorkerSet) {
        while !worker_set.is_over() {
            let mut count = [0; 8];
            // A signal is as good as the timer.
            let _ = rustix::io::read(&self.timer, &mut count);
            if worker_set.is_over() {
                return;
            }
            worker_set.look_at_polls(clock::now());
            self.is_armed.store(false, Ordering::SeqCst);
            if worker_set.is_anyone_awake() {
                self.arm();
            }
        }
    }
}
