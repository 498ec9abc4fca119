//! A thread that waits for one socket: it looks, lets others run, and sleeps on the socket's notify
//! word.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use base::Nanos;
use rustix::io::Errno;
use rustix::thread::futex::{self, Timespec};
use sys::{clock, thread};

use super::confined::is_confined;
use super::readiness::Readiness;
use super::socket::Socket;
use super::yield_policy::{Step, YieldPolicy};

/// A daemon that was killed rings no notify word: a sleeping thread looks at this interval whether
/// the daemon lives.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The socket is ready for something of what was waited for, or has an error or a hang-up.
    Ready,
    /// The time is up.
    TimedOut,
    /// A signal was handled.
    Interrupted,
}

impl Socket {
    /// Waits until the socket is ready for any of `want`, or has an error or a hang-up, for at most
    /// `timeout` (none: without end).
    ///
    /// # Errors
    /// ENOTCONN: it was closed and is no more.
    pub fn wait(&self, want: Readiness, timeout: Option<Duration>) -> Result<Waited, Errno> {
        self.wait_by(want, timeout, doze)
    }

    /// The same, but that a signal ends the wait only if its handler was set to end calls: after
    /// one with SA_RESTART the kernel waits on. Kernels before 5.16 end it after each.
    ///
    /// # Errors
    /// As for [`Self::wait`].
    pub fn wait_on(&self, want: Readiness, timeout: Option<Duration>) -> Result<Waited, Errno> {
        self.wait_by(want, timeout, doze_on)
    }

    fn wait_by(
        &self,
        want: Readiness,
        timeout: Option<Duration>,
        doze: impl Fn(&AtomicU32, u32, Nanos) -> Result<(), Errno>,
    ) -> Result<Waited, Errno> {
        if self.is_ready(want) {
            return Ok(Waited::Ready);
        }
        let begun = clock::now();
        let deadline = timeout.map(|timeout| begun + Nanos::from(timeout));
        let mut yield_policy = YieldPolicy::new(self.session().profile());
        let mut now = begun;
        while !is_confined() && yield_policy.nothing(now) == Step::Yield {
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(Waited::TimedOut);
            }
            thread::sched_yield();
            if self.is_ready(want) {
                return Ok(Waited::Ready);
            }
            now = clock::now();
        }
        self.sleep(want, deadline, doze)
    }

    fn is_ready(&self, want: Readiness) -> bool {
        !self.readiness().for_want(want).is_empty()
    }

    fn sleep(
        &self,
        want: Readiness,
        deadline: Option<Nanos>,
        doze: impl Fn(&AtomicU32, u32, Nanos) -> Result<(), Errno>,
    ) -> Result<Waited, Errno> {
        let slot = self.slot()?;
        loop {
            let notify_word = slot.words.notify_word.load(Ordering::Acquire);
            // Said that we sleep before the look; who brings news does it the other way round, and
            // wakes all who have said so. A needless bit costs one system call.
            slot.words.sleepers.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.is_ready(want) {
                return Ok(Waited::Ready);
            }
            let now = clock::now();
            let left = match deadline {
                Some(deadline) if now >= deadline => return Ok(Waited::TimedOut),
                Some(deadline) => deadline.since(now).min(LOOK_EVERY),
                None => LOOK_EVERY,
            };
            match doze(&slot.words.notify_word, notify_word, left) {
                Err(Errno::INTR) if !self.is_ready(want) => return Ok(Waited::Interrupted),
                Err(Errno::TIMEDOUT) => {
                    // What it finds shows in the readiness.
                    self.session().is_alive();
                }
                _ => {}
            }
        }
    }
}

fn doze(notify_word: &AtomicU32, expected: u32, most: Nanos) -> Result<(), Errno> {
    let timeout = Timespec {
        tv_sec: (most.0 / 1_000_000_000) as i64,
        tv_nsec: (most.0 % 1_000_000_000) as _,
    };
    futex::wait(notify_word, futex::Flags::empty(), expected, Some(&timeout))
}

/// The same by futex_waitv(2), to whose sleep the kernel returns after a handler with SA_RESTART:
/// its time limit is a moment, where that of [`doze`] would begin anew.
fn doze_on(notify_word: &AtomicU32, expected: u32, most: Nanos) -> Result<(), Errno> {
    if is_confined() {
        return doze(notify_word, expected, most);
    }
    let until = clock::now() + most;
    let until = Timespec {
        tv_sec: (until.0 / 1_000_000_000) as i64,
        tv_nsec: (until.0 % 1_000_000_000) as _,
    };
    let mut word = futex::Wait::new();
    word.val = expected.into();
    word.uaddr = futex::WaitPtr::new(notify_word.as_ptr().cast());
    word.flags = futex::WaitFlags::SIZE_U32;
    let flags = futex::WaitvFlags::empty();
    match futex::waitv(&[word], flags, Some(&until), futex::ClockId::Monotonic) {
        Ok(_) => Ok(()),
        Err(errno @ (Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT)) => Err(errno),
        // There is no such call here.
        Err(_) => doze(notify_word, expected, most),
    }
}
