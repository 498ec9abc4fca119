//! The first half of a step: who was called, who has parked, and how the holders' queues stand.

use base::Nanos;
use policy::cores::{BusyWorker, Class, CoreId, Progress};
use port::Port;
use shm::CoreReply;

use super::slot::{CoreSlot, Standing};
use super::{CoreAllocator, CoreEvent, Hands, cores_id};
use crate::dispatcher::Dispatcher;

/// Ready bits that one step takes: the rest is for the next one.
const CALLS_MAX: u32 = 64;

impl CoreAllocator {
    /// Workers that slept when something came for them, and workers of this process that have said
    /// something.
    pub(super) fn hear_calls<P: Port>(
        &mut self,
        now: Nanos,
        dispatcher: &mut Dispatcher<P>,
        hands: &mut impl Hands,
    ) {
        if self.wanted.is_quiet() {
            return;
        }
        let mut called = [None; CALLS_MAX as usize];
        let mut count = 0;
        let wanted = std::sync::Arc::clone(&self.wanted);
        wanted.claim(&mut self.wanted_cursor, CALLS_MAX, |ready| {
            let slot = CoreSlot(ready.queue() as u16);
            // Armed again before it is looked at, so a call that comes now is heard in the next
            // step.
            if let Err(ready) = wanted.rearm(ready) {
                wanted.put_back(ready);
            }
            if let Some(place) = called.get_mut(count) {
                *place = Some(slot);
                count += 1;
            }
        });
        for slot in called.into_iter().flatten() {
            self.called(slot, now, dispatcher, hands);
        }
    }

    fn called<P: Port>(
        &mut self,
        slot: CoreSlot,
        now: Nanos,
        dispatcher: &mut Dispatcher<P>,
        hands: &mut impl Hands,
    ) {
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return };
        let said = of.core_grant.said();
        let is_parked = matches!(said, CoreReply::Parked | CoreReply::Wants);
        match of.standing {
            _ if is_parked && of.standing.holds() => {
                return self.parked(slot, said, now, dispatcher, hands);
            }
            // Between its last look and its park, or in a wait of its own: it has its core.
            Standing::Held | Standing::Revoked { .. } => return (of.wake)(),
            Standing::Taken | Standing::Draining if is_parked => {
                of.standing = Standing::Parked { since: now };
                self.watch_rest(slot, now);
            }
            // It is awake, or will be: what it was told stands.
            Standing::Draining => return (of.wake)(),
            Standing::Taken | Standing::Parked { .. } => {}
        }
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return };
        if of.queued(dispatcher) == 0 && said != CoreReply::Wants || self.drain(slot, dispatcher) {
            return;
        }
        self.wait_for_core(slot, now);
    }

    /// Workers that have said something at their core grants.
    pub(super) fn hear_core_grants<P: Port>(
        &mut self,
        now: Nanos,
        dispatcher: &mut Dispatcher<P>,
        hands: &mut impl Hands,
    ) {
        for at in 0..self.kept.len() {
            let Some(bits) = &self.kept[at].bits else { continue };
            if !self.kept[at].is_heard(now) {
                continue;
            }
            let mut spoken = bits.take();
            let mut is_vain = true;
            while spoken != 0 {
                let worker = spoken.trailing_zeros() as usize;
                spoken &= spoken - 1;
                if let Some(&slot) = self.kept[at].slots.get(worker) {
                    is_vain &= !self.spoke(slot, now, dispatcher, hands);
                }
            }
            if is_vain {
                self.kept[at].vain.take(now);
            }
        }
    }

    /// Whether that was news.
    fn spoke<P: Port>(
        &mut self,
        slot: CoreSlot,
        now: Nanos,
        dispatcher: &mut Dispatcher<P>,
        hands: &mut impl Hands,
    ) -> bool {
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return false };
        let said = of.core_grant.said();
        let mut is_news = std::mem::take(&mut of.owes_bit);
        // It has looked, so it knows what it had at that moment, which may have changed again.
        if of.class == Class::Batch && of.told.take().is_some() && of.standing.holds() {
            of.told = of.core_grant.core().map(CoreId);
            (of.wake)();
        }
        match of.standing {
            Standing::Held | Standing::Revoked { .. } => {
                if matches!(said, CoreReply::Parked | CoreReply::Wants) {
                    self.parked(slot, said, now, dispatcher, hands);
                    return true;
                }
                return is_news;
            }
            Standing::Taken | Standing::Draining
                if matches!(said, CoreReply::Parked | CoreReply::Wants) =>
            {
                of.standing = Standing::Parked { since: now };
                self.watch_rest(slot, now);
                is_news = true;
            }
            Standing::Taken | Standing::Draining | Standing::Parked { .. } => {}
        }
        // An answer to an earlier word, from a worker without a core, can only mean that it wants
        // one.
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return is_news };
        let of_late = said == CoreReply::Nothing && !of.rests;
        if self.drain(slot, dispatcher) {
            return true;
        }
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return is_news };
        if said == CoreReply::Wants || of_late || of.queued(dispatcher) > 0 {
            is_news |= self.wait_for_core(slot, now);
        }
        is_news
    }

    /// Fills the sample: who waits, and, when this is a tick, the holders and how far their queues
    /// have come.
    pub(super) fn gather<P: Port>(
        &mut self,
        is_tick: bool,
        now: Nanos,
        dispatcher: &mut Dispatcher<P>,
        hands: &mut impl Hands,
    ) {
        self.sample.now = now;
        self.sample.cost = self.cost;
        self.sample.busy.clear();
        self.sample.waiting.clear();
        self.warm(dispatcher);
        let nudge_after = Nanos(self.control.yield_bound().0 / 2);
        let mut at = 0;
        while at < self.held.len() {
            let slot = self.held[at];
            let Some(Some(of)) = self.slots.get_mut(slot.index()) else {
                self.held.swap_remove(at);
                continue;
            };
            let said = of.core_grant.said();
            if matches!(said, CoreReply::Parked | CoreReply::Wants) {
                // Takes it off the list, and may put others on it.
                self.parked(slot, said, now, dispatcher, hands);
                continue;
            }
            at += 1;
            if let Standing::Revoked { told, nudged: false } = of.standing
                && now.since(told) >= nudge_after
            {
                of.standing = Standing::Revoked { told, nudged: true };
                let nudged = hands.nudge(slot, of.core_grant.thread());
                self.count(slot, CoreEvent::Nudges);
                self.note_stray(slot, nudged);
                continue;
            }
            if of.class == Class::Batch {
                continue;
            }
            if !of.placed && of.core_grant.thread() != 0 {
                self.place(slot, hands);
            }
            if is_tick {
                self.look(slot, now, dispatcher);
            }
        }
        self.gather_waiting(dispatcher);
        self.is_unsettled = false;
    }

    /// Reads once what the loop over the holders is going to read. Each holder's core grant and
    /// ring are in its own CPU's cache; here nothing depends on what is read, so that the machine
    /// fetches many of these lines at a time, and the loop proper finds them.
    fn warm<P: Port>(&self, dispatcher: &Dispatcher<P>) {
        let mut sum = 0;
        for slot in &self.held {
            let Some(Some(of)) = self.slots.get(slot.index()) else { continue };
            let steering = dispatcher.steering_of(of.app);
            let taken = steering.map_or(0, |of_app| of_app.progress_of(of.worker).taken);
            sum ^= u64::from(taken) ^ of.core_grant.tasks().idle_ns;
        }
        std::hint::black_box(sum);
    }

    #[inline]
    fn look<P: Port>(&mut self, slot: CoreSlot, now: Nanos, dispatcher: &Dispatcher<P>) {
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return };
        let steering = dispatcher.steering_of(of.app);
        let packets = steering.map(|of_app| of_app.progress_of(of.worker)).unwrap_or_default();
        let tasks = of.core_grant.tasks();
        of.oldest = of.age(packets, now).max(Nanos(tasks.oldest_ns));
        self.sample.busy.push(BusyWorker {
            id: slot.worker(),
            packets,
            tasks: Progress { put: tasks.put, taken: tasks.taken },
            oldest: of.oldest,
            idle: Nanos(tasks.idle_ns),
        });
    }

    /// Waiting workers ask once more; a worker that has nothing left to do is let go.
    fn gather_waiting<P: Port>(&mut self, dispatcher: &Dispatcher<P>) {
        for at in (0..self.waiting.len()).rev() {
            let slot = self.waiting[at];
            let Some(Some(of)) = self.slots.get_mut(slot.index()) else {
                self.waiting.swap_remove(at);
                continue;
            };
            let still = of.class == Class::Batch
                || matches!(of.core_grant.said(), CoreReply::Wants | CoreReply::Nothing)
                || of.queued(dispatcher) > 0;
            if !still {
                of.waits = false;
                self.waiting.swap_remove(at);
                continue;
            }
            let app = cores_id(of.app);
            self.control.prefer(slot.worker());
            self.sample.waiting.push(app);
        }
    }
}
