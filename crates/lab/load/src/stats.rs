//! What becomes of the requests: the receiving half of a shard, and all of its accounting.

use base::Nanos;

use crate::parts::Parts;
use crate::request::read_reply;
use crate::window::Known;
use crate::{Answer, Latencies, Plan, Reply, Window};

/// Counts replies, and how long they took.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Requests intended earlier belong to the warm-up.
    measure_from: Nanos,
    payload_bytes: usize,
    /// By slot of the window: twice the index plus one of the request that was answered last, and
    /// one more when it was given up instead.
    answered: Vec<u64>,
    /// By flow: index plus one of the youngest request answered.
    youngest: Vec<u64>,
    counts: Counts,
    from_intended: Latencies,
    from_sent: Latencies,
    parts: Parts,
    /// By part, from the intended time.
    of_parts: Vec<Latencies>,
}

/// What a [`Stats`] counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were answered, those of the warm-up left out.
    pub received: u64,
    /// Requests that were answered, all of them.
    pub received_ever: u64,
    /// Second and further replies to a request.
    pub duplicates: u64,
    /// Replies that came after one to a younger request of the same flow.
    pub reordered: u64,
    /// Replies that are not what was sent, or not to what was sent, or on another flow.
    pub corrupted: u64,
    /// Replies to requests that had been given up.
    pub expired: u64,
    /// Of the answers (those of the warm-up left out), those that are errors of the server.
    pub errors: u64,
}

/// What a reply was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The first to its request.
    Answer,
    /// Its request will never be answered: another may take its place.
    Gone,
    /// Anything else; it is counted.
    Other,
}

impl Stats {
    /// For a shard with this plan and window, which starts at `start`. All of its memory is there
    /// when this returns: nothing is faulted in while time counts.
    pub fn new(plan: &Plan, window: &Window, start: Nanos) -> Self {
        Self {
            measure_from: start + plan.warmup,
            payload_bytes: plan.payload_bytes,
            answered: present(window.capacity()),
            youngest: present(plan.flows as usize),
            counts: Counts::default(),
            from_intended: Latencies::default(),
            from_sent: Latencies::default(),
            of_parts: vec![Latencies::default(); Parts::new(plan, start).len()],
            parts: Parts::new(plan, start),
        }
    }

    /// Sets the start anew, before anything was received, and keeps the memory.
    pub(crate) fn begin(&mut self, plan: &Plan, start: Nanos) {
        debug_assert_eq!(self.counts, Counts::default(), "it has not begun");
        self.measure_from = start + plan.warmup;
        self.parts = Parts::new(plan, start);
    }

    /// Accounts for a reply that came at `now`.
    #[inline]
    pub(crate) fn reply(&mut self, window: &Window, reply: &Reply<'_>, now: Nanos) -> Verdict {
        let (iterations, index, is_error) = match reply.answer {
            Answer::Copy(payload) => match read_reply(payload, self.payload_bytes) {
                Some((iterations, index)) => (Some(iterations), index, false),
                None => {
                    self.counts.corrupted += 1;
                    return Verdict::Other;
                }
            },
            Answer::To(index) => (None, index, false),
            Answer::ErrorTo(index) => (None, index, true),
            Answer::NoneTo(index) => {
                let is_open = matches!(window.find(index), Known::Sent { .. });
                if !is_open || self.is_done(index) {
                    return Verdict::Other;
                }
                self.give_up(index);
                return Verdict::Gone;
            }
        };
        let (request, sent) = match window.find(index) {
            Known::Sent { request, at } => (request, at),
            Known::Expired => {
                self.counts.expired += 1;
                return Verdict::Other;
            }
            Known::Never => {
                self.counts.corrupted += 1;
                return Verdict::Other;
            }
        };
        let on_its_flow = reply.flow.is_none_or(|flow| flow == request.flow);
        if iterations.is_some_and(|iterations| iterations != request.iterations) || !on_its_flow {
            self.counts.corrupted += 1;
            return Verdict::Other;
        }
        let slot = index as usize & (self.answered.len() - 1);
        let tag = index.wrapping_add(1) << 1;
        match self.answered[slot] {
            answered if answered == tag => {
                self.counts.duplicates += 1;
                return Verdict::Other;
            }
            answered if answered == tag | 1 => {
                self.counts.expired += 1;
                return Verdict::Other;
            }
            _ => self.answered[slot] = tag,
        }
        if let Some(youngest) = self.youngest.get_mut(request.flow as usize) {
            if index < *youngest {
                self.counts.reordered += 1;
            }
            *youngest = (*youngest).max(index + 1);
        }
        self.counts.received_ever += 1;
        if request.intended >= self.measure_from {
            let latency = now.since(request.intended);
            self.counts.received += 1;
            self.counts.errors += u64::from(is_error);
            self.from_intended.record(latency);
            self.from_sent.record(now.since(sent));
            if let Some(part) = self.parts.of(request.intended) {
                self.of_parts[part].record(latency);
            }
        }
        Verdict::Answer
    }

    /// Whether `index`, which is in the window, has been answered or given up.
    #[inline]
    pub(crate) fn is_done(&self, index: u64) -> bool {
        self.answered[index as usize & (self.answered.len() - 1)] >> 1 == index.wrapping_add(1)
    }

    /// A reply to `index` will not be waited for any longer.
    pub(crate) fn give_up(&mut self, index: u64) {
        let slot = index as usize & (self.answered.len() - 1);
        self.answered[slot] = (index.wrapping_add(1) << 1) | 1;
    }

    /// What was counted so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Latencies from the intended time of each request.
    pub fn from_intended(&self) -> &Latencies {
        &self.from_intended
    }

    /// The same by part of the run, where it is measured by parts.
    pub(crate) fn of_parts(&self) -> &[Latencies] {
        &self.of_parts
    }

    /// Latencies from the time at which each request left.
    pub fn from_sent(&self) -> &Latencies {
        &self.from_sent
    }

    /// Where its largest table is.
    #[cfg(test)]
    pub(crate) fn address(&self) -> *const u64 {
        self.answered.as_ptr()
    }
}

/// A number of zeros in resident memory: fresh zeros would be mapped at the first write.
fn present(count: usize) -> Vec<u64> {
    let mut zeros = vec![0; count];
    // Unseen by the compiler, which knows that they are zero already.
    std::hint::black_box(&mut zeros).fill(0);
    zeros
}

#[cfg(test)]
mod tests;
