//! The second half of a step: grants, revocations and takings are carried out.

use base::Nanos;
use policy::cores::{Class, Hold};
use port::Port;
use shm::CoreReply;

use super::slot::{CoreSlot, Standing};
use super::{CoreAllocator, CoreEvent, Hands, Strayed};
use crate::dispatcher::Dispatcher;

/// A job whose core is taken for less than this is not told: it stays where it is and is preempted,
/// and a server that works for some microseconds at a time does not pay for waking the job's runner
/// twice each time.
pub(super) const TELL_AFTER: Nanos = Nanos::from_micros(500);

impl CoreAllocator {
    /// What the tick has planned. Grants first: somebody waits for them.
    pub(super) fn carry_out<P: Port>(
        &mut self,
        now: Nanos,
        dispatcher: &mut Dispatcher<P>,
        hands: &mut impl Hands,
    ) {
        for at in 0..self.plan.grants.len() {
            self.grant(self.plan.grants[at], now, dispatcher, hands);
        }
        for at in 0..self.plan.revokes.len() {
            self.revoke(self.plan.revokes[at], now, dispatcher, hands);
        }
        for at in 0..self.plan.parks.len() {
            self.revoke(self.plan.parks[at], now, dispatcher, hands);
        }
        for at in 0..self.plan.takes.len() {
            self.take(self.plan.takes[at], now, dispatcher, hands);
        }
        for at in 0..self.plan.rests.len() {
            let slot = CoreSlot::of(self.plan.rests[at]);
            if self.rest(slot, dispatcher) {
                self.drain(slot, dispatcher);
            }
        }
    }

    /// What came of a core that was given back: grants, and nothing else.
    pub(super) fn carry_out_freed<P: Port>(
        &mut self,
        now: Nanos,
        dispatcher: &mut Dispatcher<P>,
        hands: &mut impl Hands,
    ) {
        for at in 0..self.freed.grants.len() {
            self.grant(self.freed.grants[at], now, dispatcher, hands);
        }
    }

    fn grant<P: Port>(
        &mut self,
        hold: Hold,
        now: Nanos,
        dispatcher: &mut Dispatcher<P>,
        hands: &mut impl Hands,
    ) {
        let slot = CoreSlot::of(hold.worker);
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return };
        of.core_grant.grant(hold.core.0);
        of.standing = Standing::Held;
        of.placed = false;
        of.waits = false;
        if of.class == Class::Latency && of.core_grant.thread() != 0 {
            self.place(slot, hands);
        }
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return };
        // A job that was not told yet of its core's loss is still there.
        if of.class == Class::Latency || of.told != Some(hold.core) {
            of.told = Some(hold.core);
            (of.wake)();
        }
        let rested = std::mem::take(&mut of.rests);
        if let Some(steering) = dispatcher.steering_of_mut(of.app) {
            steering.excuse(of.worker, false, now);
            if rested {
                steering.rouse(of.worker);
            }
        }
        self.held.push(slot);
        self.waiting.retain(|&waiting| waiting != slot);
        self.count(slot, CoreEvent::Grants);
    }

    /// Puts the worker's thread on the core that it holds.
    pub(super) fn place(&mut self, slot: CoreSlot, hands: &mut impl Hands) {
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return };
        let Some(core) = of.core_grant.core() else { return };
        of.placed = true;
        let placed = hands.place(slot, of.core_grant.thread(), core);
        self.note_stray(slot, placed);
    }

    pub(super) fn note_stray(&mut self, slot: CoreSlot, done: Result<(), Strayed>) {
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return };
        // Until its application is detached it may be found at fault by several looks.
        if std::mem::replace(&mut of.strayed, done.is_err()) || done.is_ok() {
            return;
        }
        let app = of.app;
        if !self.strays.contains(&app) {
            self.strays.push(app);
        }
        self.count(slot, CoreEvent::StrayThreads);
    }

    fn revoke<P: Port>(
        &mut self,
        hold: Hold,
        now: Nanos,
        dispatcher: &mut Dispatcher<P>,
        hands: &mut impl Hands,
    ) {
        let slot = CoreSlot::of(hold.worker);
        self.count(slot, CoreEvent::Revokes);
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return };
        if of.class == Class::Batch {
            // Whoever gets the core runs before it at once, because it is of the idle class: there
            // is nothing to wait for.
            of.core_grant.withdraw();
            if !std::mem::replace(&mut of.is_to_be_told, true) {
                self.losses.push_back((now + TELL_AFTER, slot));
            }
            return self.give_back(slot, CoreReply::Wants, now, dispatcher, hands);
        }
        of.core_grant.revoke();
        of.standing = Standing::Revoked { told: now, nudged: false };
        (of.wake)();
        self.rest(slot, dispatcher);
    }

    /// The worker was told long ago and runs on.
    fn take<P: Port>(
        &mut self,
        hold: Hold,
        now: Nanos,
        dispatcher: &mut Dispatcher<P>,
        hands: &mut impl Hands,
    ) {
        let slot = CoreSlot::of(hold.worker);
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return };
        of.core_grant.withdraw();
        let thread = of.core_grant.thread();
        if thread != 0 {
            let evicted = hands.evict(slot, thread);
            self.note_stray(slot, evicted);
        }
        self.count(slot, CoreEvent::Takes);
        self.give_back(slot, CoreReply::Nothing, now, dispatcher, hands);
        if let Some(Some(of)) = self.slots.get_mut(slot.index()) {
            of.standing = Standing::Taken;
        }
        self.waits_if_queued(slot, now, dispatcher);
    }

    /// The worker says that it has parked.
    pub(super) fn parked<P: Port>(
        &mut self,
        slot: CoreSlot,
        said: CoreReply,
        now: Nanos,
        dispatcher: &mut Dispatcher<P>,
        hands: &mut impl Hands,
    ) {
        if let Some(Some(of)) = self.slots.get_mut(slot.index()) {
            of.core_grant.accept_park();
            of.owes_bit = true;
        }
        self.count(slot, CoreEvent::Parks);
        self.give_back(slot, said, now, dispatcher, hands);
        self.waits_if_queued(slot, now, dispatcher);
    }

    /// The worker's core goes to whoever is next.
    fn give_back<P: Port>(
        &mut self,
        slot: CoreSlot,
        said: CoreReply,
        now: Nanos,
        dispatcher: &mut Dispatcher<P>,
        hands: &mut impl Hands,
    ) {
        self.held.retain(|&held| held != slot);
        if let Some(Some(of)) = self.slots.get_mut(slot.index()) {
            of.standing = Standing::Parked { since: now };
            if let Some(steering) = dispatcher.steering_of_mut(of.app) {
                steering.excuse(of.worker, true, now);
            }
        }
        self.is_unsettled = true;
        self.watch_rest(slot, now);
        if said == CoreReply::Wants {
            self.wait_for_core(slot, now);
        }
        self.control.parked(slot.worker(), now, &mut self.freed);
        self.carry_out_freed(now, dispatcher, hands);
    }

    /// A packet may have crossed the park.
    pub(super) fn waits_if_queued<P: Port>(
        &mut self,
        slot: CoreSlot,
        now: Nanos,
        dispatcher: &Dispatcher<P>,
    ) {
        let of = self.slots.get(slot.index()).and_then(Option::as_ref);
        if of.is_some_and(|of| of.queued(dispatcher) > 0) {
            self.wait_for_core(slot, now);
        }
    }

    /// Jobs that have not got their cores back soon are told.
    pub(super) fn tell_losses(&mut self, now: Nanos) {
        while let Some((_, slot)) = self.losses.pop_front_if(|&mut (due, _)| due <= now) {
            let Some(Some(of)) = self.slots.get_mut(slot.index()) else { continue };
            of.is_to_be_told = false;
            if !of.standing.holds() && of.told.take().is_some() {
                (of.wake)();
            }
        }
    }
}
