//! Waiting: look, spin, arm, look once more, sleep.

use std::os::fd::{AsFd, BorrowedFd};

use attach::{DetachReason, Detached};
use base::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec};
use sched::SpinBudget;
use sys::{clock, thread};

use super::Worker;
use super::spin::{UNSENT_RETRY, spinning};
use crate::shared;

/// Looks at the ring between two reads of the clock while spinning.
const LOOKS_PER_YIELD: u32 = 64;

/// Why a sleep has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// By its timeout or a signal.
    Not,
    /// Through the pipe.
    ByDaemon,
    /// Through the connection: there is a message, or it has ended.
    ByLink,
    /// The daemon's end of the pipe is closed.
    ByHangUp,
    /// By another thread of this process.
    ByAlarm,
}

impl Worker {
    /// Waits until [`Self::receive`] would find something, at most `timeout`
    /// ([`Nanos::FAR_FUTURE`]: without end); whether it would. A signal ends the wait early.
    ///
    /// A worker on granted cores gives its core back here when it has nothing to do or was asked
    /// to, and goes on when it is granted one. False after `timeout`: it has no core then, and
    /// [`Self::claim_core`] asks for one.
    ///
    /// # Errors
    /// The attachment has ended.
    pub fn wait(&mut self, timeout: Nanos) -> Result<bool, Detached> {
        self.shared.glance()?;
        self.retry_unsent();
        self.flush();
        if self.grant_side.is_some() {
            return self.wait_granted(timeout);
        }
        if !self.unsent.is_empty() {
            // Nobody says when the ring to the daemon has room again.
            let woken = self.sleep(timeout.min(UNSENT_RETRY));
            self.awake(woken)?;
            return Ok(self.has_next());
        }
        if self.has_next() {
            return Ok(true);
        }
        let dry_since = clock::now();
        if self.spin_for(self.learned.budget().min(timeout)) {
            self.learned.learn(clock::now().since(dry_since));
            return Ok(true);
        }
        let deadline = dry_since + timeout;
        loop {
            if self.arm() {
                self.disarm();
                return Ok(true);
            }
            self.counters.sleeps += 1;
            let rest = deadline.since(clock::now());
            let woken = self.sleep(if timeout == Nanos::FAR_FUTURE { timeout } else { rest });
            self.awake(woken)?;
            if self.has_next() {
                // It came before the wake-up that it cost.
                let gap = clock::now().since(dry_since);
                self.learned.learn(gap.since(self.learned.wake_cost()));
                return Ok(true);
            }
            // What the daemon woke us for may be gone: a late byte for an earlier sleep.
            if matches!(woken, Woken::Not | Woken::ByAlarm) {
                return Ok(false);
            }
        }
    }

    /// After a sleep: whether the attachment has ended.
    pub(super) fn awake(&mut self, woken: Woken) -> Result<(), Detached> {
        self.disarm();
        self.shared.glance()?;
        match woken {
            Woken::Not | Woken::ByDaemon | Woken::ByAlarm => Ok(()),
            Woken::ByLink => self.shared.look(),
            Woken::ByHangUp => {
                self.shared.look()?;
                // The daemon says why before it closes anything: it has died.
                Err(self.shared.end(shared::of(DetachReason::DaemonGone)))
            }
        }
    }

    pub(super) fn sleep(&self, timeout: Nanos) -> Woken {
        let timespec = (timeout != Nanos::FAR_FUTURE).then(|| Timespec {
            tv_sec: i64::try_from(timeout.0 / 1_000_000_000).expect("2^64 ns are 584 years"),
            tv_nsec: (timeout.0 % 1_000_000_000) as _,
        });
        let [pipe, link] = [self.pipe.as_fd(), self.shared.link.as_fd()];
        let alarm = self.alarm.as_deref();
        let fds = [Some(pipe), Some(link), alarm.map(AsFd::as_fd), self.poller_fd()];
        // What is not there is the link once more, whose turn comes first.
        let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd.unwrap_or(link), PollFlags::IN));
        match rustix::event::poll(&mut fds, timespec.as_ref()) {
            Ok(0) | Err(_) => Woken::Not,
            Ok(_) if !fds[1].revents().is_empty() => Woken::ByLink,
            Ok(_) if fds[0].revents().contains(PollFlags::HUP) => Woken::ByHangUp,
            Ok(_) => {
                let is_called = alarm.is_some_and(|alarm| alarm.drain() > 0);
                let has_heard = !fds[3].revents().is_empty();
                if has_heard {
                    self.drain_poller();
                }
                if is_called || has_heard { Woken::ByAlarm } else { Woken::ByDaemon }
            }
        }
    }

    #[cfg(feature = "rt")]
    fn poller_fd(&self) -> Option<BorrowedFd<'_>> {
        self.reactor.as_ref().map(|reactor| reactor.fd())
    }

    #[cfg(not(feature = "rt"))]
    fn poller_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    #[cfg(feature = "rt")]
    fn drain_poller(&self) {
        if let Some(reactor) = &self.reactor {
            reactor.drain();
        }
    }

    #[cfg(not(feature = "rt"))]
    fn drain_poller(&self) {}

    pub(super) fn spin_for(&self, budget: Nanos) -> bool {
        if budget == Nanos::ZERO {
            return false;
        }
        let end = clock::now() + budget;
        loop {
            for _ in 0..LOOKS_PER_YIELD {
                if self.has_next() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if clock::now() >= end {
                return false;
            }
            // The thread that has work for us may share this CPU.
            thread::sched_yield();
        }
    }

    /// Sleeps for its whole group, whose doorbell is armed.
    pub(crate) fn sleep_for_all(&mut self, most: Nanos) -> Result<(), Detached> {
        self.counters.sleeps += 1;
        let woken = self.sleep(most);
        self.awake(woken)
    }

    /// Offers again what the ring had no room for, and shows the daemon what was given back.
    pub(crate) fn offer(&mut self) {
        self.retry_unsent();
        self.flush();
    }

    /// How long [`Self::wait`] looks at the ring before it sleeps, at most: as long as the gaps
    /// between packets say that it pays. Zero, the default, sleeps at once.
    pub fn set_spin(&mut self, most: Nanos) {
        self.spin = most;
        self.learned = SpinBudget::new(spinning(most));
    }

    /// For callers with a loop of their own: asks to be woken by [`Self::fd`]. True when there is
    /// something already: do not sleep. [`Self::disarm`] after every sleep; poll
    /// [`crate::App::closed_fd`] too.
    #[must_use]
    pub fn arm(&mut self) -> bool {
        self.flush();
        self.end.arm();
        self.has_next()
    }

    /// The thread is awake: takes back what [`Self::arm`] asked for and empties the pipe.
    pub fn disarm(&mut self) {
        self.end.disarm();
        let mut bytes = [0; 64];
        // More than 64 wake-ups, or none: both are as good as one.
        let _ = rustix::io::read(&self.pipe, &mut bytes);
    }

    /// Readable when the daemon has woken this worker, after [`Self::arm`]; hung up when the daemon
    /// is gone.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}
