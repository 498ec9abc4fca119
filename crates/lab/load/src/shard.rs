//! One thread's work: send what is due, receive what has come, account for it, wait.

use std::sync::Arc;

use base::Nanos;

use crate::closed_loop::ClosedLoop;
use crate::open_loop::{OpenLoop, SendCounts};
use crate::stats::Verdict;
use crate::{Pace, Plan, Schedule, ShardCount, Stats, Transport, Window};

/// A part of the load that one thread makes. Both halves on one thread, or one half each on two
/// threads that share the window.
pub struct Shard<T> {
    transport: T,
    window: Arc<Window>,
    sender: Sender,
    stats: Option<Stats>,
    start: Nanos,
}

/// The sending half.
enum Sender {
    Open(Box<OpenLoop>),
    Closed(Box<ClosedLoop>),
    /// Somebody else sends.
    None,
}

impl Sender {
    fn new(plan: &Plan, own: &Plan, shard: ShardCount, start: Nanos) -> Self {
        match own.pace {
            Pace::Open { .. } => {
                Self::Open(Box::new(OpenLoop::new(plan, Schedule::new(plan, shard), start)))
            }
            Pace::Closed { outstanding } => {
                Self::Closed(Box::new(ClosedLoop::new(own, shard, outstanding, start)))
            }
        }
    }
}

/// What a turn did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Whether anything was sent or received.
    pub moved: bool,
    /// When something is due although nothing arrives; [`Nanos::FAR_FUTURE`]: never again.
    pub next_due: Nanos,
}

impl<T: Transport> Shard<T> {
    /// Both halves. `plan` is that of the whole run, which starts at `start`.
    pub fn new(plan: &Plan, shard: ShardCount, transport: T, start: Nanos) -> Self {
        let own = plan.of_shard(shard);
        let window = Arc::new(Window::new(own.window_requests()));
        let stats = Some(Stats::new(&own, &window, start));
        let sender = Sender::new(plan, &own, shard, start);
        Self { transport, window, sender, stats, start }
    }

    /// Sets start and seed anew. Made beforehand, a shard has its memory when time counts.
    pub(crate) fn begin(&mut self, plan: &Plan, shard: ShardCount, start: Nanos) {
        let own = plan.of_shard(shard);
        self.transport.begin(shard.seed(plan.seed));
        self.sender = Sender::new(plan, &own, shard, start);
        if let Some(stats) = &mut self.stats {
            stats.begin(&own, start);
        }
        self.start = start;
    }

    /// Gives the receiving half to another thread, which receives by `transport`: another handle
    /// of the same sockets. A closed loop cannot be split: its receiver decides when to send.
    pub fn split_off_receiver<R: Transport>(&mut self, transport: R) -> Option<Shard<R>> {
        if matches!(self.sender, Sender::Closed(_)) {
            return None;
        }
        let stats = Some(self.stats.take()?);
        let window = Arc::clone(&self.window);
        Some(Shard { transport, window, sender: Sender::None, stats, start: self.start })
    }

    /// One turn: everything that is due, and what has come, up to a few batches of each.
    #[inline]
    pub fn turn(&mut self, clock: &impl Fn() -> Nanos) -> Turn {
        let Self { transport, window, sender, stats, start } = self;
        let mut moved = match (&mut *sender, &mut *stats) {
            _ if clock() < *start => return Turn { moved: false, next_due: *start },
            (Sender::Open(open), _) => open.turn(transport, window, clock),
            (Sender::Closed(closed), Some(stats)) => closed.turn(transport, window, stats, clock),
            _ => false,
        };
        if let Some(stats) = stats {
            let mut answers = 0_u64;
            // Replies that came together were not received one after the other, though they are
            // looked at so: the transport knows when it got them.
            moved |= transport.receive(|reply| {
                // A request that will not be answered makes room as an answer does.
                answers += u64::from(
                    stats.reply(window, reply, reply.at.unwrap_or_else(clock)) != Verdict::Other,
                );
            }) > 0;
            if let Sender::Closed(closed) = sender {
                (0..answers).for_each(|_| closed.answered());
            }
        }
        let next_due = match sender {
            Sender::Open(open) => open.next_due(),
            Sender::Closed(closed) => closed.next_due(),
            Sender::None => Nanos::FAR_FUTURE,
        };
        Turn { moved, next_due }
    }

    /// Sends nothing more; what is under way is still received.
    pub fn cancel(&mut self) {
        match &mut self.sender {
            Sender::Open(open) => open.cancel(),
            Sender::Closed(closed) => closed.cancel(),
            Sender::None => {}
        }
    }

    /// Sleeps until something comes or `timeout` has passed.
    pub fn wait(&mut self, timeout: Nanos) {
        self.transport.wait(timeout);
    }

    /// Requests sent and answered so far, warm-up included.
    pub fn progress(&self) -> (u64, u64) {
        let sent = self.send_counts().map_or(0, |counts| counts.sent_ever);
        let received = self.stats.as_ref().map_or(0, |stats| stats.counts().received_ever);
        (sent, received)
    }

    /// What was received, where this half receives.
    pub fn stats(&self) -> Option<&Stats> {
        self.stats.as_ref()
    }

    /// How it travels.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    pub(crate) fn send_counts(&self) -> Option<&SendCounts> {
        match &self.sender {
            Sender::Open(open) => Some(&open.counts),
            Sender::Closed(closed) => Some(&closed.counts),
            Sender::None => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn transport_mut(&mut self) -> &mut T {
        &mut self.transport
    }
}
