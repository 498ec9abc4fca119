//! The samples of requests that a worker has under way.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrayvec::ArrayVec;
use base::{AppId, BURST, Nanos};
use shm::sockets::SlotWords;
use wire::FlowKey;

use crate::trace::{Sample, Tracing};

/// Samples under way at once.
const OPEN_MAX: usize = 64;

/// Those of one application.
const OPEN_OF_APP_MAX: usize = 32;

/// A request that was shown to its program.
#[derive(Debug)]
struct Open {
    number: u32,
    app: AppId,
    received: Nanos,
    taken: Nanos,
    /// The end of the turn that showed it; none: it is still that turn.
    shown: Option<Nanos>,
}

/// Samples under way, and what is needed to begin one.
#[derive(Debug)]
pub(crate) struct Traces {
    tracing: Arc<Tracing>,
    is_on: bool,
    /// Requests since the last one that was sampled.
    passed_by: u32,
    number: u32,
    /// When the segments of this turn were taken from a port.
    arrivals: ArrayVec<(FlowKey, Nanos), BURST>,
    open: ArrayVec<Open, OPEN_MAX>,
    /// Answered in a turn that began when they were heard: what is missing is when that has left.
    leaving: ArrayVec<Sample, OPEN_MAX>,
}

impl Traces {
    pub(super) fn new(tracing: Arc<Tracing>) -> Self {
        Self {
            tracing,
            is_on: false,
            passed_by: 0,
            number: 0,
            arrivals: ArrayVec::new(),
            open: ArrayVec::new(),
            leaving: ArrayVec::new(),
        }
    }

    /// Whether the end of the turn before is to be noted.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// A turn that has something to do begins.
    #[inline]
    pub(super) fn begin(&mut self) {
        let is_on = self.tracing.is_on.load(Ordering::Relaxed);
        if is_on != self.is_on {
            self.switch(is_on);
        }
    }

    #[cold]
    fn switch(&mut self, is_on: bool) {
        self.is_on = is_on;
        self.arrivals.clear();
        self.tracing.give_up(self.open.len() + self.leaving.len());
        self.open.clear();
        self.leaving.clear();
    }

    /// A socket is over.
    #[inline]
    pub(super) fn ended(&mut self, number: u32) {
        if number != 0
            && let Some(at) = self.open.iter().position(|open| open.number == number)
        {
            self.open.remove(at);
            self.tracing.give_up(1);
        }
    }

    /// The turn before is over by `now`; what was answered in it has left.
    pub(super) fn turn_ended(&mut self, now: Nanos, mut done: impl FnMut(Sample)) {
        self.arrivals.clear();
        self.open.iter_mut().for_each(|open| _ = open.shown.get_or_insert(now));
        let Self { leaving, tracing, .. } = self;
        leaving.retain(|sample| {
            // The clock is not read for each turn: this one says nothing of when that one ended.
            if sample.heard == now {
                return true;
            }
            tracing.finish();
            // A program may write while the turn that hears it goes on, but not after it.
            match sample.written > now {
                true => tracing.wonder(),
                false => {
                    done(Sample { heard: sample.heard.max(sample.written), sent: now, ..*sample });
                }
            }
            false
        });
    }

    /// A segment of this turn.
    pub(crate) fn arrived(&mut self, key: FlowKey, received: Nanos) {
        let _ = self.arrivals.try_push((key, received));
    }

    /// First bytes of a request are about to be shown. The number of the sample that it becomes, if
    /// it becomes one; `before` is the socket's last one.
    pub(super) fn request(
        &mut self,
        (app, before): (AppId, u32),
        one_in: u32,
        words: &SlotWords,
        key: Option<FlowKey>,
        now: Nanos,
    ) -> Option<u32> {
        self.passed_by += 1;
        if self.passed_by < one_in || self.open.iter().any(|open| open.number == before) {
            return None;
        }
        // The last packet is what completes it.
        let mut arrivals = self.arrivals.iter().rev();
        let received = arrivals.find(|(of, _)| Some(*of) == key).map(|(_, received)| *received)?;
        self.passed_by = 0;
        if self.open.iter().filter(|open| open.app == app).count() >= OPEN_OF_APP_MAX
            || self.open.is_full()
        {
            // Whoever waits longest gives way: what answers at all answers before others that do
            // not.
            let oldest = self.oldest_of_the_most()?;
            self.open.remove(oldest);
            self.tracing.give_up(1);
        }
        let number = self.number.wrapping_add(1).max(1);
        let open = Open { number, app, received: received.min(now), taken: now, shown: None };
        self.open.try_push(open).ok()?;
        self.tracing.begin();
        self.number = number;
        words.trace.store(number, Ordering::Relaxed);
        Some(number)
    }

    /// The oldest sample of the application that has most of them under way.
    fn oldest_of_the_most(&self) -> Option<usize> {
        let count = |app| self.open.iter().filter(|open| open.app == app).count();
        let most = self.open.iter().map(|open| open.app).max_by_key(|app| count(*app))?;
        self.open.iter().position(|open| open.app == most)
    }

    /// The program of a socket with a sample has written. False: before it had read.
    pub(super) fn answered(&mut self, number: u32, words: &SlotWords, now: Nanos) -> bool {
        let at = self.open.iter().position(|open| open.number == number);
        if at.is_some() && words.trace_written.load(Ordering::Acquire) != number {
            return false;
        }
        words.trace.store(0, Ordering::Relaxed);
        let Some(open) = at.map(|at| self.open.remove(at)) else { return true };
        let moment = |of: &std::sync::atomic::AtomicU64| Nanos(of.load(Ordering::Relaxed));
        let (read, written) = (moment(&words.trace_read_nanos), moment(&words.trace_written_nanos));
        if read < open.taken || written < read {
            self.tracing.finish();
            self.tracing.wonder();
            return true;
        }
        let sample = Sample {
            app: open.app,
            received: open.received,
            taken: open.taken,
            // Who looks all the time reads before the turn is over.
            shown: open.shown.unwrap_or(read).min(read),
            read,
            written,
            heard: now,
            sent: now,
        };
        if self.leaving.try_push(sample).is_err() {
            self.tracing.finish();
            self.tracing.lose();
        }
        true
    }
}
