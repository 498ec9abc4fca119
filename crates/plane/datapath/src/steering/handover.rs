//! Hand-overs going on: barriers sent, answers taken, held packets released or returned.

use base::{FlowGroup, Nanos, WorkerId};
use shm::{Frame, Ticket};
use sys::trace;

use super::Steering;
use crate::counters::DispatchEvent;
use crate::dispatch_context::DispatchContext;
use crate::message::{Moving, ToWorker};
use crate::migrate::{Migrate, Phase};

/// Held packets that one turn releases, at most: some 30 us of work. The rest waits for the next
/// turn, and behind it what comes meanwhile, so the order stays.
const RELEASE_PER_TURN: usize = 256;

impl Steering {
    /// An old owner has detached what the ticket's hand-over moves.
    pub(super) fn passed(&mut self, ticket: Ticket, context: &mut DispatchContext<'_>) {
        let Some(slot) = self.migrate.passed(ticket) else {
            context.counters.add(DispatchEvent::StaleMessages, 1);
            if let Some(side) = &mut self.side {
                side.offended(context.now);
            }
            return;
        };
        self.announce(slot);
        self.release(slot, context);
    }

    /// Whoever gains groups by this slot is to be told before their first packet.
    pub(super) fn announce(&mut self, slot: usize) {
        if let Moving::Epoch(epoch) = self.migrate.moving_of(slot) {
            let old_owner = self.migrate.slot(slot).asked.from;
            for worker_queue in self
                .worker_queues
                .iter_mut()
                .flatten()
                .filter(|worker_queue| worker_queue.id() != old_owner)
            {
                worker_queue.owe_attach(epoch);
            }
        }
    }

    /// Everything that is under way goes on as far as rings have room.
    pub(super) fn progress(&mut self, context: &mut DispatchContext<'_>) {
        self.migrate.release_left = RELEASE_PER_TURN;
        if !self.evacuation.is_empty() {
            self.release_evacuation(context);
        }
        if self.migrate.is_quiet() {
            return;
        }
        // Who is told of a new table must be able to read it.
        if let Some(mirror) = &mut self.owners
            && !mirror.copy_step(&self.live)
        {
            return;
        }
        for slot in self.migrate.slots_in_use() {
            match self.migrate.slot(slot).phase {
                Phase::Closed | Phase::Kept => continue,
                Phase::Unsent => self.send_barrier(slot, context.now),
                Phase::Open(_) => {}
                Phase::Releasing => self.release(slot, context),
                Phase::Returning => self.take_back(slot, context),
            }
            if context.now >= self.migrate.slot(slot).deadline && self.migrate.abort(slot) {
                let event = if self.migrate.is_single(slot) {
                    DispatchEvent::MovesAborted
                } else {
                    DispatchEvent::BarriersAborted
                };
                context.counters.add(event, 1);
                trace::handover_aborted(self.migrate.slot(slot).asked.from.0);
                self.take_back(slot, context);
            } else if let (Some(side), Phase::Open(_)) =
                (&mut self.side, self.migrate.slot(slot).phase)
            {
                // An application that says "detached" and then nothing more holds its packets up.
                side.waited(context.now.since(self.migrate.slot(slot).deadline));
            }
        }
        self.finish_epoch(context);
        self.publish(context.now);
    }

    fn send_barrier(&mut self, slot: usize, now: Nanos) {
        let from = self.migrate.slot(slot).asked.from;
        let Some(worker_queue) = &mut self.worker_queues[from.index()] else {
            // It died with the barrier unsent: `death` has put what it left before what is held.
            self.migrate.slot_mut(slot).phase = Phase::Releasing;
            self.announce(slot);
            return;
        };
        let ticket = self.migrate.ticket(slot);
        let moving = self.migrate.moving_of(slot);
        if worker_queue.control(ToWorker::Barrier { ticket, moving }, &mut self.side) {
            worker_queue.publish(&mut self.side, now);
            self.migrate.slot_mut(slot).phase = Phase::Open(ticket);
        }
    }

    /// The old owner is through: held packets go to the new owners, in order.
    pub(super) fn release(&mut self, slot: usize, context: &mut DispatchContext<'_>) {
        if self.migrate.is_single(slot) {
            return self.release_single(slot, context);
        }
        loop {
            let (hold, list) = self.migrate.held(slot);
            let Some(group) = hold.front(list).map(|frame| frame.meta().group) else { break };
            if !self.migrate.may_release() || !self.has_room_for(group, context) {
                return;
            }
            let (hold, list) = self.migrate.held(slot);
            let Some(frame) = hold.pop_front(list) else { break };
            self.deliver(frame, group, context);
        }
        self.migrate.close(slot);
    }

    fn release_single(&mut self, slot: usize, context: &mut DispatchContext<'_>) {
        let mut asked = self.migrate.slot(slot).asked;
        if self.worker_queues[asked.to.index()].is_none() {
            // The new owner died meanwhile: any other will do.
            let active = self.control.workers().active();
            let Some(&other) = active.get(asked.group.index() % active.len().max(1)) else {
                return;
            };
            asked.to = other;
            let slot = self.migrate.slot_mut(slot);
            slot.asked = asked;
            slot.attached = false;
        }
        let Some(worker_queue) = &mut self.worker_queues[asked.to.index()] else { return };
        if !self.migrate.slot(slot).attached {
            if !worker_queue.control(ToWorker::Attach(Moving::Group(asked.group)), &mut self.side) {
                return;
            }
            self.migrate.slot_mut(slot).attached = true;
        }
        if self.send_held(slot, asked.to, context) {
            self.migrate.close(slot);
            self.control.moved(asked, &mut self.live);
            context.counters.add(DispatchEvent::MovesReleased, 1);
            trace::move_released(asked.group.0, asked.from.0, asked.to.0);
        }
    }

    /// Sends what a slot holds to one worker, as far as its ring has room; true when nothing is
    /// left.
    fn send_held(
        &mut self,
        slot: usize,
        worker: WorkerId,
        context: &mut DispatchContext<'_>,
    ) -> bool {
        let Some(worker_queue) = &mut self.worker_queues[worker.index()] else { return false };
        while !self.migrate.slot(slot).list.is_empty() {
            if !worker_queue.has_room(&self.side) || !self.migrate.may_release() {
                worker_queue.publish(&mut self.side, context.now);
                return false;
            }
            let (hold, list) = self.migrate.held(slot);
            let Some(frame) = hold.pop_front(list) else { break };
            match worker_queue.send(frame, &mut self.side, context) {
                Ok(()) => context.counters.add(DispatchEvent::Dispatched, 1),
                Err((frame, why)) => context.drop(frame, why),
            }
        }
        worker_queue.publish(&mut self.side, context.now);
        true
    }

    /// Aborted: held packets go to the old owner, in order.
    fn take_back(&mut self, slot: usize, context: &mut DispatchContext<'_>) {
        if self.migrate.slot(slot).phase != Phase::Returning {
            return;
        }
        let asked = self.migrate.slot(slot).asked;
        if self.worker_queues[asked.from.index()].is_none() {
            self.migrate.slot_mut(slot).phase = Phase::Releasing;
            return;
        }
        if !self.send_held(slot, asked.from, context) {
            return;
        }
        if self.migrate.is_single(slot) {
            self.migrate.close(slot);
            self.control.aborted(asked, &mut self.live, context.now);
        } else {
            self.migrate.slot_mut(slot).phase = Phase::Kept;
        }
    }

    /// All barriers through: what was kept is written back, a few groups at a time, and then the
    /// transition is over.
    fn finish_epoch(&mut self, context: &mut DispatchContext<'_>) {
        if self.migrate.transition.is_none() || !self.migrate.barriers_ended() {
            return;
        }
        if !self.open_fence(context) {
            return;
        }
        let Some(transition) = &self.migrate.transition else { return };
        if !transition.repaired {
            let first = transition.repair.unwrap_or(FlowGroup(0));
            let migrate = &self.migrate;
            let any_kept =
                (0..self.worker_queues.len()).any(|id| migrate.is_kept(WorkerId(id as u16)));
            let next = if any_kept {
                let kept = |worker| migrate.is_kept(worker);
                self.control.revert(first, kept, &mut self.live, &self.shadow, context.now)
            } else {
                None
            };
            let Some(transition) = &mut self.migrate.transition else {
                return;
            };
            transition.repair = next;
            transition.repaired = next.is_none();
        }
        let repaired =
            self.migrate.transition.as_ref().is_some_and(|transition| transition.repaired);
        if !repaired || !self.attaches_paid() {
            return;
        }
        self.migrate.end_epoch();
        self.control.epoch_finished();
        context.counters.add(DispatchEvent::EpochsFinished, 1);
        trace::epoch_finished(self.migrate.epoch().0);
    }

    /// Queues a packet until every old owner has passed.
    pub(super) fn fence(&mut self, frame: Frame, context: &mut DispatchContext<'_>) {
        if !self.may_hold(context) {
            return context.drop(frame, DispatchEvent::HoldOverflow);
        }
        let Migrate { hold, transition, .. } = &mut self.migrate;
        let list = transition.as_mut().and_then(|transition| transition.fence.as_mut());
        let Some(list) = list else { return context.drop(frame, DispatchEvent::HoldOverflow) };
        match hold.push_back(list, frame) {
            Ok(()) => context.counters.add(DispatchEvent::Held, 1),
            Err(frame) => context.drop(frame, DispatchEvent::HoldOverflow),
        }
    }

    /// Every old owner is through: what waited goes to the owners, in order. True when none is
    /// left. A worker that kept its groups keeps them here too; what it had of others' while
    /// nobody obeyed the table was never promised an order.
    fn open_fence(&mut self, context: &mut DispatchContext<'_>) -> bool {
        loop {
            let Migrate { hold, transition, .. } = &mut self.migrate;
            let Some(transition) = transition else { return true };
            let Some(list) = &mut transition.fence else { return true };
            let Some(group) = hold.front(list).map(|frame| frame.meta().group) else {
                transition.fence = None;
                return true;
            };
            if !self.migrate.may_release() || !self.has_room_for(group, context) {
                return false;
            }
            let Migrate { hold, transition, .. } = &mut self.migrate;
            let list = transition.as_mut().and_then(|transition| transition.fence.as_mut());
            let Some(frame) = list.and_then(|list| hold.pop_front(list)) else { return true };
            let is_kept = |worker: &WorkerId| self.migrate.is_kept(*worker);
            match self.shadow.entry(group).owner().filter(is_kept) {
                Some(allocator) => self.send_or_drop(frame, allocator, context),
                None => self.deliver(frame, group, context),
            }
        }
    }
}
