//! Sending when replies come: that many requests are in flight, each reply releases the next.

use base::{BURST, Nanos};

use crate::open_loop::SendCounts;
use crate::schedule::Content;
use crate::window::Known;
use crate::{Plan, Request, ShardCount, Stats, Transport, Window};

/// The sending half of a closed-loop shard.
#[derive(Clone, Debug)]
pub(crate) struct ClosedLoop {
    content: Content,
    outstanding: u64,
    in_flight: u64,
    next_index: u64,
    /// Every request before this one was answered or given up.
    oldest: u64,
    measure_from: Nanos,
    end: Nanos,
    /// After this long a request is given up and another takes its place.
    timeout: Nanos,
    /// Made and not yet taken by the transport.
    waiting: Vec<Request>,
    /// When the oldest unanswered request is given up.
    give_up_at: Nanos,
    is_over: bool,
    pub(crate) counts: SendCounts,
}

impl ClosedLoop {
    /// `plan` is that of the shard, `outstanding` its part; the loop starts at `start`.
    pub(crate) fn new(plan: &Plan, shard: ShardCount, outstanding: u32, start: Nanos) -> Self {
        Self {
            content: Content::new(plan, shard),
            outstanding: u64::from(outstanding),
            in_flight: 0,
            next_index: 0,
            oldest: 0,
            measure_from: start + plan.warmup,
            end: start + plan.warmup + plan.length,
            timeout: plan.grace,
            waiting: Vec::with_capacity(BURST),
            give_up_at: Nanos::FAR_FUTURE,
            is_over: false,
            counts: SendCounts::default(),
        }
    }

    /// A request was answered.
    #[inline]
    pub(crate) fn answered(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Sends as many as were answered, at most a batch; whether anything left.
    #[inline]
    pub(crate) fn turn<T: Transport>(
        &mut self,
        transport: &mut T,
        window: &Window,
        stats: &mut Stats,
        clock: &impl Fn() -> Nanos,
    ) -> bool {
        let mut now = clock();
        if now >= self.end {
            self.is_over = true;
        }
        self.give_up_old(window, stats, now);
        if self.is_over {
            return false;
        }
        // Requests of an unanswered tail may not push one another out of the window.
        let room = (window.capacity() as u64).saturating_sub(self.next_index - self.oldest);
        let wanted = (self.outstanding - self.in_flight.min(self.outstanding)).min(room);
        for _ in self.waiting.len()..(wanted.min(BURST as u64) as usize) {
            let request = self.content.request(self.next_index, now);
            self.next_index += 1;
            self.waiting.push(request);
        }
        let mut taken_all = 0;
        while let Some(waiting) = self.waiting.get(taken_all..).filter(|rest| !rest.is_empty()) {
            let group = transport.group(waiting).clamp(1, waiting.len());
            let group = &mut self.waiting[taken_all..taken_all + group];
            for request in group.iter_mut() {
                // What decides when it leaves is the reply before it: there is no other intention.
                request.intended = now;
                window.note(request, now);
            }
            let taken = transport.send(group).min(group.len());
            self.counts.sent_ever += taken as u64;
            if now >= self.measure_from {
                self.counts.sent += taken as u64;
            }
            self.in_flight += taken as u64;
            taken_all += taken;
            if taken == 0 {
                break;
            }
            now = clock();
        }
        self.waiting.drain(..taken_all);
        taken_all > 0
    }

    /// Gives up requests that were not answered for too long.
    #[inline]
    fn give_up_old(&mut self, window: &Window, stats: &mut Stats, now: Nanos) {
        self.give_up_at = Nanos::FAR_FUTURE;
        let first_waiting = self.next_index - self.waiting.len() as u64;
        while self.oldest < first_waiting {
            if stats.is_done(self.oldest) {
                self.oldest += 1;
                continue;
            }
            match window.find(self.oldest) {
                Known::Sent { at, .. } if now.since(at) < self.timeout => {
                    self.give_up_at = at + self.timeout;
                    return;
                }
                _ => {
                    stats.give_up(self.oldest);
                    self.in_flight = self.in_flight.saturating_sub(1);
                    self.oldest += 1;
                }
            }
        }
    }

    /// When there is something to do next although nothing arrives.
    #[inline]
    pub(crate) fn next_due(&self) -> Nanos {
        if self.is_over {
            Nanos::FAR_FUTURE
        } else if self.waiting.is_empty() {
            self.end.min(self.give_up_at)
        } else {
            Nanos::ZERO
        }
    }

    /// Sends nothing more.
    pub(crate) fn cancel(&mut self) {
        self.is_over = true;
        self.waiting.clear();
    }
}
