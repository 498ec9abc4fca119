//! A worker has ended without being asked to: what it left undone is finished by others, in order.
//!
//! The ring of a dead worker holds exactly what it had not completed, older than anything held.
//! Packets of a group under hand-over go to the front of that hand-over's list; all others go to
//! the front of the *evacuation*, one list for all deaths, so that a second death (whose leavings
//! are older still) can be put before the first one's.

use base::{FlowGroup, WorkerId};
use shm::Frame;
use sys::trace;

use super::Steering;
use crate::counters::DispatchEvent;
use crate::dispatch_context::DispatchContext;
use crate::message::ToWorker;
use crate::migrate::Phase;
use crate::worker::Remains;

impl Steering {
    /// Takes over from a dead worker. Its own messages must have been drained before.
    pub(crate) fn worker_died(
        &mut self,
        worker: WorkerId,
        remains: Remains,
        context: &mut DispatchContext<'_>,
    ) {
        let Some(worker_queue) = self.worker_queues.get_mut(worker.index()).and_then(Option::take)
        else {
            return;
        };
        // What was staged and not published is dropped with the worker queue's end unless shown
        // now.
        let undone = worker_queue.into_undone(remains.inbox);
        context.counters.add(DispatchEvent::WorkersDied, 1);
        trace::worker_died(worker.0);
        self.control.worker_gone(worker);
        self.workers_changed();
        for slot in self.migrate.slots_in_use() {
            if self.migrate.slot(slot).asked.from == worker {
                self.reap(slot);
            }
        }
        for message in undone.into_iter().rev() {
            let ToWorker::Packet(mut frame) = message else { continue };
            if frame.is_empty() {
                context.pool.give(frame);
                continue;
            }
            self.group_anew(&mut frame);
            context.counters.add(DispatchEvent::Redispatched, 1);
            self.put_first(frame, worker, context);
        }
        self.progress(context);
    }

    /// The dead cannot answer: its hand-overs count as passed.
    fn reap(&mut self, slot: usize) {
        match self.migrate.slot(slot).phase {
            Phase::Closed | Phase::Releasing => {}
            Phase::Unsent | Phase::Open(_) | Phase::Returning | Phase::Kept => {
                self.migrate.slot_mut(slot).phase = Phase::Releasing;
                self.announce(slot);
            }
        }
    }

    /// All packets of a flow that are to be done again must queue as one group's, though the flow
    /// may have been pinned or unpinned between two of them.
    fn group_anew(&self, frame: &mut Frame) {
        let flow = (self.flow_id)(frame);
        let hash = frame.meta().flow_hash;
        frame.meta_mut().group = match flow {
            Some(flow) => self.group_of(hash, || flow),
            None => self.live.group_of(hash),
        };
    }

    /// Before everything that is held of its group.
    fn put_first(&mut self, frame: Frame, dead: WorkerId, context: &mut DispatchContext<'_>) {
        let group = frame.meta().group;
        let slot = self.migrate.single_of(group).or_else(|| self.leaving_slot(group, dead));
        let refused = match slot {
            Some(slot) => {
                let (hold, list) = self.migrate.held(slot);
                hold.push_front(list, frame)
            }
            None => {
                let entry = self.live.entry(group);
                self.control.write(group, entry.with_moving(true), &mut self.live);
                self.migrate.hold.push_front(&mut self.evacuation, frame)
            }
        };
        if let Err(frame) = refused {
            context.drop(frame, DispatchEvent::HoldOverflow);
        }
    }

    /// The barrier of the dead worker, when this table change takes the group from it.
    fn leaving_slot(&self, group: FlowGroup, dead: WorkerId) -> Option<usize> {
        self.migrate.transition.as_ref()?;
        let (was, is) = (self.shadow.entry(group).owner()?, self.live.entry(group).owner()?);
        (was == dead && is != dead).then(|| self.migrate.epoch_slot(dead))
    }

    /// Queues a packet behind what dead workers left of its group.
    pub(super) fn evacuate(&mut self, frame: Frame, context: &mut DispatchContext<'_>) {
        match self.migrate.hold.push_back(&mut self.evacuation, frame) {
            Ok(()) => context.counters.add(DispatchEvent::Held, 1),
            Err(frame) => context.drop(frame, DispatchEvent::HoldOverflow),
        }
    }

    /// Gives what dead workers left to others, as far as their rings have room.
    pub(super) fn release_evacuation(&mut self, context: &mut DispatchContext<'_>) {
        while let Some(group) = self.migrate.hold.front(&self.evacuation).map(|f| f.meta().group) {
            if !self.migrate.may_release() || !self.has_room_for(group, context) {
                return;
            }
            let Some(frame) = self.migrate.hold.pop_front(&mut self.evacuation) else {
                return;
            };
            match self.live.entry(group).owner() {
                Some(owner) if self.worker_queues[owner.index()].is_some() => {
                    self.send_or_drop(frame, owner, context);
                }
                _ => context.drop(frame, DispatchEvent::NoWorker),
            }
        }
        self.publish(context.now);
    }

    /// Whether the owner of `group`, found anew if it is gone, can take one more packet.
    pub(super) fn has_room_for(
        &mut self,
        group: FlowGroup,
        context: &mut DispatchContext<'_>,
    ) -> bool {
        let there = |this: &Self, owner: WorkerId| this.worker_queues[owner.index()].is_some();
        let mut entry = self.live.entry(group);
        if !entry.owner().is_some_and(|owner| there(self, owner)) {
            let moving = entry.is_moving();
            self.control.write(group, entry.with_moving(false).with_idle(false), &mut self.live);
            if self.control.place(group, &mut self.live, &mut self.shadow, context.now).is_none() {
                // Nobody is there: the packet is dropped, and counted, by the caller.
                return true;
            }
            entry = self.live.entry(group).with_moving(moving);
            self.control.write(group, entry, &mut self.live);
        }
        let worker_queue =
            entry.owner().and_then(|owner| self.worker_queues[owner.index()].as_ref());
        worker_queue.is_none_or(|worker_queue| worker_queue.has_room(&self.side))
    }
}
