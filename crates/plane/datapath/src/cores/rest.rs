//! Workers without a core give their groups to workers with one.
//!
//! It costs a hand-over there and one back, so it is done only when a worker has had no core for
//! long: it has been parked, or waits for a core that it cannot get because its application has all
//! that it may; or when the core control says so, as the policy `packing` does when fewer workers
//! are enough.

use base::Nanos;
use policy::cores::Class;
use port::Port;

use super::slot::{CoreSlot, Standing};
use super::{CoreAllocator, CoreEvent, cores_id};
use crate::dispatcher::Dispatcher;

impl CoreAllocator {
    /// From now on it is without a core, or waits for one: its time runs, if it does not yet.
    pub(super) fn watch_rest(&mut self, slot: CoreSlot, now: Nanos) {
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return };
        if of.class == Class::Latency && !of.rests && !of.is_timed {
            of.is_timed = true;
            self.resting.push_back((now + self.rest_after, slot));
        }
    }

    /// Workers that have long been without a core give their groups to running workers.
    pub(super) fn rest_parked<P: Port>(&mut self, now: Nanos, dispatcher: &mut Dispatcher<P>) {
        while let Some(&(due, slot)) = self.resting.front() {
            if due > now {
                return;
            }
            self.resting.pop_front();
            let Some(Some(of)) = self.slots.get_mut(slot.index()) else { continue };
            of.is_timed = false;
            let Standing::Parked { since } = of.standing else { continue };
            let waits = of.waits;
            if since + self.rest_after > now {
                // It has run and parked again since.
                of.is_timed = true;
                let due = since + self.rest_after;
                let latest = self.resting.back().map_or(due, |&(latest, _)| latest.max(due));
                self.resting.push_back((latest, slot));
            } else if self.rest(slot, dispatcher) {
                // Its doorbell has rung for what is in its ring, so nobody calls it for the
                // barriers.
                self.drain(slot, dispatcher);
            } else if waits {
                // Nobody runs to whom they could go. That may change while it waits.
                self.watch_rest(slot, now);
            }
        }
    }

    /// A worker without a core, whose groups are on their way to others, does what is in its ring
    /// all the same: nobody else can. Whether that is what it is told now.
    pub(super) fn drain<P: Port>(&mut self, slot: CoreSlot, dispatcher: &Dispatcher<P>) -> bool {
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return false };
        // When the others have left, its groups are its own again though it has not run since.
        of.rests &=
            dispatcher.steering_of(of.app).is_some_and(|of_app| of_app.is_resting(of.worker));
        let is_parked = matches!(of.standing, Standing::Parked { .. });
        if !of.rests || !is_parked || of.queued(dispatcher) == 0 {
            return false;
        }
        of.core_grant.drain();
        of.standing = Standing::Draining;
        (of.wake)();
        self.count(slot, CoreEvent::Drains);
        true
    }

    /// The worker's groups move, if another worker of its application runs. Whether they do.
    pub(super) fn rest<P: Port>(&mut self, slot: CoreSlot, dispatcher: &mut Dispatcher<P>) -> bool {
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return false };
        let active = self.control.table().app(cores_id(of.app)).map_or(&[][..], |app| app.active());
        let others = active.iter().any(|&worker| worker != slot.worker());
        if of.rests || !others {
            return of.rests;
        }
        if let Some(steering) = dispatcher.steering_of_mut(of.app) {
            of.rests = steering.rest(of.worker);
        }
        let rests = of.rests;
        if rests {
            self.count(slot, CoreEvent::Rests);
            self.control.rested(slot.worker());
        }
        rests
    }
}
