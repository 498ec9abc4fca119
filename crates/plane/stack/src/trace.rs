//! Samples of requests: where the time of one goes, from the port and back to it.
//!
//! The worker numbers a sample when it shows the first bytes of a request, and leaves the number in
//! the socket's words; the program's library writes down when it read and when it answered; the
//! worker adds the rest. While nobody traces a program, that costs one load where bytes are shown.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::{AppId, Nanos};

/// A request whose answer is on its way: the moments that it passed, in CLOCK_MONOTONIC, each at or
/// after the one before. What the program's library wrote down was held against them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Whose.
    pub app: AppId,
    /// Its last packet was taken from a port.
    pub received: Nanos,
    /// The worker that serves the connection took it up.
    pub taken: Nanos,
    /// The engine was done with it, and its program was told.
    pub shown: Nanos,
    /// The program began to read it.
    pub read: Nanos,
    /// The program's first answer was in the ring.
    pub written: Nanos,
    /// The worker saw that.
    pub heard: Nanos,
    /// The answer's first segments were given to the port.
    pub sent: Nanos,
}

/// What tracing has cost in samples, since the daemon began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceLosses {
    /// They found no room on their way here.
    pub lost: u64,
    /// Nothing was written before the connection or the tracing ended, or before others took its
    /// place.
    pub unanswered: u64,
    /// Moments in an order that cannot be: the program's clock is another one, or it does not say
    /// the truth.
    pub strange: u64,
}

/// What all workers and the slow side have in common about tracing.
#[derive(Debug, Default)]
pub(crate) struct Tracing {
    /// Some application is traced.
    pub(crate) is_on: AtomicBool,
    /// Samples whose answer is not there yet.
    under_way: AtomicU64,
    lost: AtomicU64,
    unanswered: AtomicU64,
    strange: AtomicU64,
}

impl Tracing {
    pub(crate) fn losses(&self) -> TraceLosses {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        TraceLosses {
            lost: count(&self.lost),
            unanswered: count(&self.unanswered) + count(&self.under_way),
            strange: count(&self.strange),
        }
    }

    pub(crate) fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn finish(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn give_up(&self, samples: usize) {
        self.under_way.fetch_sub(samples as u64, Ordering::Relaxed);
        self.unanswered.fetch_add(samples as u64, Ordering::Relaxed);
    }

    pub(crate) fn wonder(&self) {
        self.strange.fetch_add(1, Ordering::Relaxed);
    }
}
