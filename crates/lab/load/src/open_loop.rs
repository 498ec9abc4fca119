//! Sending on schedule: what is due leaves, whatever has or has not come back.

use base::{BURST, Nanos};

use crate::parts::Parts;
use crate::{Latencies, Plan, Request, Schedule, Transport, Window};

/// A request that leaves later than this is counted as late: the bound of Shenango's `synthetic`,
/// which skips it then; ours sends it, because its latency counts from the intended time.
pub(crate) const LATE_AFTER: Nanos = Nanos::from_micros(5);

/// A request may leave so long after the run's last intended time before it is never sent: the
/// last few are due when time is over, and that alone says nothing about the generator.
const LAST_MOMENT: Nanos = Nanos::from_millis(1);

/// The sending half of an open-loop shard.
#[derive(Clone, Debug)]
pub(crate) struct OpenLoop {
    schedule: Schedule,
    start: Nanos,
    measure_from: Nanos,
    end: Nanos,
    parts: Parts,
    /// The next request that is not due yet; `None`: there is none any more.
    next: Option<Request>,
    /// Due and not yet taken by the transport, from `taken` on.
    due: Vec<Request>,
    taken: usize,
    pub(crate) counts: SendCounts,
}

/// What a sender counts, those of the warm-up left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendCounts {
    /// Requests handed to the transport.
    pub(crate) sent: u64,
    /// The same with those of the warm-up.
    pub(crate) sent_ever: u64,
    /// Of these, how many left more than [`LATE_AFTER`] after their intended time.
    pub(crate) late: u64,
    /// Requests that were still waiting when time was over.
    pub(crate) never_sent: u64,
    /// How long after its intended time each left: the generator's own error.
    pub(crate) delay: Latencies,
    /// The same counts by part of the run.
    pub(crate) parts: Vec<PartSent>,
}

/// What a sender counts of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartSent {
    pub(crate) sent: u64,
    pub(crate) late: u64,
    pub(crate) never_sent: u64,
}

impl PartSent {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            late: self.late + other.late,
            never_sent: self.never_sent + other.never_sent,
        }
    }
}

impl OpenLoop {
    /// For `schedule`, whose times count from `start`; `plan` is the whole run's.
    pub(crate) fn new(plan: &Plan, mut schedule: Schedule, start: Nanos) -> Self {
        let next = schedule.next().map(|request| shifted(request, start));
        let parts = Parts::new(plan, start);
        let counts =
            SendCounts { parts: vec![PartSent::default(); parts.len()], ..SendCounts::default() };
        Self {
            schedule,
            start,
            measure_from: start + plan.warmup,
            end: start + plan.warmup + plan.length + LAST_MOMENT,
            parts,
            next,
            due: Vec::with_capacity(BURST),
            taken: 0,
            counts,
        }
    }

    /// Sends what is due, at most a batch; whether anything left.
    #[inline]
    pub(crate) fn turn<T: Transport>(
        &mut self,
        transport: &mut T,
        window: &Window,
        clock: &impl Fn() -> Nanos,
    ) -> bool {
        let mut now = clock();
        if now >= self.end {
            self.give_up();
            return false;
        }
        if self.taken == self.due.len() {
            self.due.clear();
            self.taken = 0;
        }
        while self.due.len() < BURST
            && let Some(request) = self.next
            && request.intended <= now
        {
            self.due.push(request);
            self.next = self.schedule.next().map(|request| shifted(request, self.start));
        }
        if !self.due.is_empty() {
            // Finding out what is due has taken time when it is much.
            now = clock();
        }
        let mut any = false;
        while let Some(waiting) = self.due.get(self.taken..).filter(|waiting| !waiting.is_empty()) {
            let group = &waiting[..transport.group(waiting).clamp(1, waiting.len())];
            // Noted before the call: a reply may be back before it returns.
            group.iter().for_each(|request| window.note(request, now));
            let taken = transport.send(group).min(group.len());
            let sent_at = transport.sent_at().filter(|_| taken > 0);
            for request in &group[..taken] {
                if let Some(at) = sent_at {
                    window.note(request, at);
                }
                self.counts.sent_ever += 1;
                if request.intended >= self.measure_from {
                    let delay = sent_at.unwrap_or(now).since(request.intended);
                    let late = u64::from(delay > LATE_AFTER);
                    self.counts.sent += 1;
                    self.counts.late += late;
                    self.counts.delay.record(delay);
                    if let Some(part) = self.parts.of(request.intended) {
                        self.counts.parts[part].sent += 1;
                        self.counts.parts[part].late += late;
                    }
                }
            }
            self.taken += taken;
            if taken == 0 {
                break;
            }
            any = true;
            now = clock();
        }
        any
    }

    /// When there is something to do next; `FAR_FUTURE`: never again.
    #[inline]
    pub(crate) fn next_due(&self) -> Nanos {
        if self.taken < self.due.len() {
            return Nanos::ZERO;
        }
        self.next.map_or(Nanos::FAR_FUTURE, |request| request.intended)
    }

    /// Counts what waits still as never sent.
    #[cold]
    fn give_up(&mut self) {
        let waiting = self.due[self.taken..].iter().copied().chain(self.next);
        let start = self.start;
        let rest = self.schedule.by_ref().map(|request| shifted(request, start));
        for request in waiting.chain(rest) {
            if request.intended >= self.measure_from {
                self.counts.never_sent += 1;
                if let Some(part) = self.parts.of(request.intended) {
                    self.counts.parts[part].never_sent += 1;
                }
            }
        }
        self.cancel();
    }

    /// Sends nothing more.
    pub(crate) fn cancel(&mut self) {
        self.next = None;
        self.due.clear();
        self.taken = 0;
    }
}

#[inline]
fn shifted(request: Request, start: Nanos) -> Request {
    Request { intended: request.intended + start, ..request }
}
