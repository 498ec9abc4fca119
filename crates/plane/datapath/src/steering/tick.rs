//! The control rate: workers and groups are looked at, the policy is asked, its plan carried out.

use base::Nanos;
use policy::{Entry, Move};
use sys::trace;

use super::Steering;
use crate::counters::DispatchEvent;
use crate::dispatch_context::DispatchContext;
use crate::worker_queue::{WorkerQueue, WorkerQueueState};

/// Fewer packets than this since the last look at the groups' load, and the next look waits ...
const FEW_PACKETS: u32 = 256;
/// ... for this many intervals more.
const QUIET_INTERVALS: u64 = 63;

impl Steering {
    /// One turn at control rate: hand-overs go on, the policy is asked, its plan carried out.
    pub(crate) fn tick(&mut self, context: &mut DispatchContext<'_>) {
        self.progress(context);
        self.pay_wakes(context);
        self.pay_frames(context);
        let is_early = context.now < self.next_tick;
        if is_early || (context.now < self.next_quiet_tick && self.is_idle()) {
            return;
        }
        self.next_tick = context.now + self.config.tick;
        self.next_quiet_tick = context.now + Nanos(self.config.tick.0 * QUIET_INTERVALS);
        self.core.now = context.now;
        self.core.workers.clear();
        for worker_queue in self
            .worker_queues
            .iter_mut()
            .flatten()
            .filter(|worker_queue| worker_queue.state == WorkerQueueState::Active)
        {
            self.core.workers.push(worker_queue.sample(&mut self.side, context.now));
        }
        self.has_undone = self.core.workers.iter().any(|worker| worker.queued > 0);
        let due = self.is_load_due(context.now);
        if due {
            self.next_load = context.now + self.config.load_interval;
            self.loads.sample(context.now, &mut self.load);
            self.loads_taken += 1;
        }
        let load = due.then_some(&self.load);
        self.control.tick(&self.core, load, &mut self.live, &mut self.shadow, &mut self.plan);
        self.carry_out(context);
        self.finish_unpinning();
        self.retire_drained(context.now);
        self.ready.look_at_all(&self.worker_queues, context.now);
    }

    /// Whether a look at the workers would show what the last one has shown: nothing in any ring.
    /// Who has a thousand workers does not look at them for nothing.
    fn is_idle(&self) -> bool {
        !self.has_undone && self.is_settled()
    }

    /// A look at a slice of groups costs 10 to 30 us: with few packets there is little to see, and
    /// it is done less often.
    fn is_load_due(&self, now: Nanos) -> bool {
        let quiet = Nanos(self.config.load_interval.0 * QUIET_INTERVALS);
        now >= self.next_load
            && (self.loads.noted() >= FEW_PACKETS || now.since(self.next_load) >= quiet)
    }

    fn carry_out(&mut self, context: &mut DispatchContext<'_>) {
        for index in 0..self.plan.moves.len() {
            self.begin_move(self.plan.moves[index], context);
        }
        if self.plan.publish {
            std::mem::swap(&mut self.live, &mut self.shadow);
            context.counters.add(DispatchEvent::EpochsPublished, 1);
            // A retiring worker owns nothing, and nothing may follow its last message.
            let worker_queues = self.worker_queues.iter().flatten();
            let owners = worker_queues
                .filter(|worker_queue| worker_queue.state != WorkerQueueState::Retiring)
                .map(WorkerQueue::id);
            self.migrate.begin_epoch(owners, self.plan.fence, context.now);
            if let Some(mirror) = &mut self.owners {
                mirror.begin();
            }
            trace::epoch_published(self.migrate.epoch().0);
            self.progress(context);
        }
    }

    pub(super) fn begin_move(&mut self, asked: Move, context: &mut DispatchContext<'_>) -> bool {
        let entry = self.live.entry(asked.group);
        let valid =
            entry.owner() == Some(asked.from) && !entry.is_moving() && self.evacuation.is_empty();
        if valid && self.migrate.begin_single(asked, context.now).is_some() {
            self.control.write(
                asked.group,
                Entry::owned_by(asked.from).with_moving(true),
                &mut self.live,
            );
            context.counters.add(DispatchEvent::MovesStarted, 1);
            trace::move_started(asked.group.0, asked.from.0, asked.to.0);
            return true;
        }
        context.counters.add(DispatchEvent::MovesRefused, 1);
        self.control.refused(asked, &mut self.live);
        false
    }
}
