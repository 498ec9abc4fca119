//! One look at the daemon: its answers to the questions whose differences `calisto top` shows.

use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use admin::{AppStatus, CoresStatus, Status, ThreadCounters};
use base::Nanos;

use crate::daemon::Daemon;
use crate::failure::Failure;

/// What the daemon says at one time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Look {
    /// When, by a clock of ours that only its differences are taken of.
    pub(super) at: Nanos,
    pub(super) status: Status,
    pub(super) threads: Vec<ThreadCounters>,
    pub(super) apps: Vec<AppStatus>,
    pub(super) cores: CoresStatus,
}

/// Asks the daemon; `began` is when `at` is zero.
pub(super) fn look(daemon: &Daemon, began: Instant) -> Result<Look, Failure> {
    let at = Nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    Ok(Look {
        at,
        status: daemon.status()?,
        threads: daemon.counters()?,
        apps: daemon.apps()?,
        cores: daemon.cores()?,
    })
}

/// Looks again and again, on a thread of its own: a daemon that is stuck keeps its asker waiting,
/// and a key must be answered all the same. The thread ends with the process.
pub(super) fn looks(daemon: Daemon, began: Instant, every: Duration) -> Receiver<Answer> {
    // One look is enough to wait for its reader.
    let (sender, looks) = sync_channel(1);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(every);
            if sender.send(look(&daemon, began)).is_err() {
                return;
            }
        }
    });
    looks
}

/// A look, or why there is none.
pub(super) type Answer = Result<Look, Failure>;
