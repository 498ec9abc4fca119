//! Cores on demand, carried out: gathers what the core control wants to know, and does what it
//! plans.
//!
//! Each kept worker has a slot with its core grant. Most of the time nothing here costs anything: a
//! look at one word says that no sleeper is wanted, one at a clock value that no tick is due. A
//! tick looks at the slots that hold a core and at no others. What must hold: a core is granted to
//! the next worker only after its holder has parked, or was moved off it; a parked worker that has
//! something to do is in `waiting` until it is granted a core.
//!
//! `docs` of [`shm::core_grant`] tell the protocol with the worker, [`policy::cores`] who gets
//! what. Read [`CoreAllocator::step`] first.

mod carry;
mod counts;
mod due;
mod gather;
mod hands;
mod rest;
mod slot;
mod suspect;

use std::collections::VecDeque;
use std::sync::Arc;

use base::{AppId, Nanos, WorkerId};
use policy::cores::{AppTerms, Class, CoresControl, CoresPlan, CoresRefused, CoresSample, Table};
use port::Port;
use shm::ReadySet;
use shm::packets::CoreGrantBits;

use crate::app::AttachmentId;
use crate::dispatcher::Dispatcher;
use crate::rate_limit::RateLimit;

pub use counts::{CoreCounts, CoreEvent};
pub use hands::{Hands, Strayed};
use slot::Slot;
pub use slot::{Call, CoreSlot, GrantedWorker};
pub use suspect::Suspect;

/// Workers that are kept at once, at most: all applications together.
pub const SLOTS_MAX: u16 = 4096;

/// Empty looks at an application's core grants, a second: honest ones cause next to none.
const VAIN_PER_SECOND: u32 = 1000;
/// The same, at once.
const VAIN_AT_ONCE: u32 = 64;

/// What an application asks of the core control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreTerms {
    /// Cores that it gets whenever it asks.
    pub guaranteed: u16,
    /// Cores that it may have while no application with a better right asks.
    pub burst: u16,
    /// Whom it gives way to.
    pub class: Class,
    /// It is congested when an item waits for longer; zero: for longer than a tick.
    pub queue_delay: Nanos,
}

/// Grants cores to workers and takes them back, as the core control says.
pub struct CoreAllocator {
    control: CoresControl,
    /// By the worker's number in the core control.
    slots: Vec<Option<Slot>>,
    kept: Vec<Kept>,
    /// A ready bit for each slot whose sleeping worker was to be woken.
    wanted: Arc<ReadySet>,
    wanted_cursor: u32,
    /// Slots that hold a core.
    held: Vec<CoreSlot>,
    /// Slots without a core that have something to do.
    waiting: Vec<CoreSlot>,
    /// Slots whose groups move when they have been without a core for long enough, the earliest
    /// first, each once.
    resting: VecDeque<(Nanos, CoreSlot)>,
    rest_after: Nanos,
    /// Batch jobs that lost their core and have not been told, the earliest first.
    losses: VecDeque<(Nanos, CoreSlot)>,
    /// Workers of batch jobs.
    jobs: usize,
    /// Of applications that named a thread that is not theirs, or whose thread has ended.
    strays: Vec<AttachmentId>,
    sample: CoresSample,
    plan: CoresPlan,
    /// What came of a core that somebody gave back.
    freed: CoresPlan,
    next_tick: Nanos,
    /// Cores or waiting slots have changed since waiting workers were looked at.
    is_unsettled: bool,
    cost: Nanos,
    counts: CoreCounts,
}

/// An application whose workers are kept.
struct Kept {
    app: AttachmentId,
    slots: Vec<CoreSlot>,
    bits: Option<CoreGrantBits>,
    /// Looks at its core grants that found nothing new.
    vain: RateLimit,
    counts: CoreCounts,
}

impl Kept {
    fn has_spoken(&self) -> bool {
        self.bits.as_ref().is_some_and(|bits| !bits.is_quiet())
    }

    /// The same, and it is to be heard now.
    fn is_heard(&self, now: Nanos) -> bool {
        self.has_spoken() && self.vain.allows(now)
    }
}

/// An application's number in the core control: its place in the dispatcher's table.
pub(crate) fn cores_id(attachment: AttachmentId) -> AppId {
    attachment.app
}

impl CoreAllocator {
    /// Keeps nobody yet. The groups of a worker that has been parked for `rest_after` move to its
    /// application's other workers, if one of these runs.
    pub fn new(control: CoresControl, rest_after: Nanos) -> Self {
        let cores = control.table().cores().len();
        Self {
            control,
            slots: Vec::new(),
            kept: Vec::new(),
            wanted: Arc::new(ReadySet::new(u32::from(SLOTS_MAX))),
            wanted_cursor: 0,
            held: Vec::with_capacity(cores),
            waiting: Vec::new(),
            resting: VecDeque::new(),
            rest_after,
            losses: VecDeque::new(),
            jobs: 0,
            strays: Vec::new(),
            sample: CoresSample::default(),
            plan: CoresPlan::with_room(cores),
            freed: CoresPlan::with_room(cores),
            next_tick: Nanos::ZERO,
            is_unsettled: false,
            cost: Nanos::ZERO,
            counts: CoreCounts::default(),
        }
    }

    /// A handle by which a worker that is going to be kept is called: see [`Call`].
    pub fn call(&self) -> Call {
        Call::new(Arc::clone(&self.wanted))
    }

    /// Keeps an application's workers, all of which are parked; what is in their rings already is
    /// waited for. Their slots, in their order.
    ///
    /// # Errors
    /// The terms cannot be kept.
    pub fn add<P: Port>(
        &mut self,
        app: AttachmentId,
        terms: CoreTerms,
        workers: Vec<GrantedWorker>,
        bits: Option<CoreGrantBits>,
        now: Nanos,
        dispatcher: &mut Dispatcher<P>,
    ) -> Result<Vec<CoreSlot>, CoresRefused> {
        let free = |slot: &usize| self.slots.get(*slot).is_none_or(Option::is_none);
        let slots = (0..usize::from(SLOTS_MAX)).filter(free).take(workers.len());
        let slots: Vec<CoreSlot> = slots.map(|slot| CoreSlot(slot as u16)).collect();
        if slots.len() < workers.len() {
            return Err(CoresRefused::Worker(WorkerId(SLOTS_MAX)));
        }
        let CoreTerms { guaranteed, burst, class, queue_delay } = terms;
        let terms = AppTerms { id: cores_id(app), guaranteed, burst, class, queue_delay };
        let ids: Vec<WorkerId> = slots.iter().map(|slot| slot.worker()).collect();
        self.control.add_app(terms, &ids)?;
        for (granted, &slot) in workers.into_iter().zip(&slots) {
            self.slots.resize_with(self.slots.len().max(slot.index() + 1), || None);
            granted.call.direct(slot);
            if let Some(steering) = dispatcher.steering_of_mut(app) {
                steering.excuse(granted.worker, true, now);
            }
            self.slots[slot.index()] = Some(Slot::new(app, class, granted));
        }
        self.make_room();
        for &slot in &slots {
            // A batch job always has something to do.
            if class == Class::Batch {
                self.jobs += 1;
                self.wait_for_core(slot, now);
            }
            self.waits_if_queued(slot, now, dispatcher);
        }
        let vain = RateLimit::new(VAIN_PER_SECOND, VAIN_AT_ONCE);
        let counts = CoreCounts::default();
        self.kept.push(Kept { app, slots: slots.clone(), bits, vain, counts });
        self.next_tick = Nanos::ZERO;
        Ok(slots)
    }

    /// So that no step allocates.
    fn make_room(&mut self) {
        let slots = self.slots.len();
        for list in [&mut self.waiting, &mut self.held] {
            list.reserve(slots.saturating_sub(list.len()));
        }
        self.resting.reserve(slots.saturating_sub(self.resting.len()));
        self.losses.reserve(slots.saturating_sub(self.losses.len()));
        self.sample.busy.reserve(slots);
        self.sample.waiting.reserve(slots);
    }

    /// The application is gone: its cores go to others. Its core grants, for workers that come
    /// again.
    pub fn remove<P: Port>(
        &mut self,
        app: AttachmentId,
        now: Nanos,
        dispatcher: &mut Dispatcher<P>,
        hands: &mut impl Hands,
    ) -> Vec<GrantedWorker> {
        let Some(at) = self.kept.iter().position(|kept| kept.app == app) else { return Vec::new() };
        let Kept { slots, .. } = self.kept.swap_remove(at);
        let is_gone = |slot: &CoreSlot| slots.contains(slot);
        self.held.retain(|slot| !is_gone(slot));
        self.waiting.retain(|slot| !is_gone(slot));
        self.resting.retain(|(_, slot)| !is_gone(slot));
        self.losses.retain(|(_, slot)| !is_gone(slot));
        let mut core_grants = Vec::with_capacity(slots.len());
        for slot in &slots {
            if let Some(mut gone) = self.slots[slot.index()].take() {
                gone.call.undirect();
                gone.core_grant.withdraw();
                self.jobs -= usize::from(gone.class == Class::Batch);
                hands.release(*slot);
                let Slot { worker, core_grant, wake, call, .. } = gone;
                if let Some(steering) = dispatcher.steering_of_mut(app) {
                    steering.excuse(worker, false, now);
                    steering.rouse(worker);
                }
                core_grants.push(GrantedWorker { worker, core_grant, wake, call });
            }
        }
        self.control.remove_app(cores_id(app), now, &mut self.freed);
        self.carry_out_freed(now, dispatcher, hands);
        core_grants
    }

    /// Hears who is wanted and who has parked, and ticks when a tick is due. Whether it did
    /// anything; then [`Self::note_cost`] is told what that took.
    pub fn step<P: Port>(
        &mut self,
        now: Nanos,
        dispatcher: &mut Dispatcher<P>,
        hands: &mut impl Hands,
    ) -> bool {
        if !self.is_due(now) {
            return false;
        }
        // A step that a call brings about between two ticks serves waiting workers. How far the
        // queues of holders have come is for the policy to compare from tick to tick.
        let is_tick = now >= self.next_tick;
        self.hear_calls(now, dispatcher, hands);
        if is_tick {
            self.hear_core_grants(now, dispatcher, hands);
        }
        self.gather(is_tick, now, dispatcher, hands);
        self.control.tick(&self.sample, &mut self.plan);
        if is_tick {
            self.next_tick = now + self.control.interval();
        }
        self.counts.add(CoreEvent::Ticks);
        self.note_asks();
        self.carry_out(now, dispatcher, hands);
        self.rest_parked(now, dispatcher);
        self.tell_losses(now);
        true
    }

    /// What the last step took.
    pub fn note_cost(&mut self, cost: Nanos) {
        self.cost = cost;
    }

    /// An application that has to go because its threads are not what it says.
    pub fn next_stray(&mut self) -> Option<AttachmentId> {
        self.strays.pop()
    }

    /// Who holds which core.
    pub fn table(&self) -> &Table {
        self.control.table()
    }

    /// The core control, to be instructed and asked.
    pub fn control(&mut self) -> &mut CoresControl {
        // What it is told may free a core for a worker that has waited without success.
        self.is_unsettled = true;
        &mut self.control
    }

    /// The policy in force, the time from tick to tick, and what the last one took.
    pub fn pace(&self) -> (&'static str, Nanos, Nanos) {
        (self.control.policy(), self.control.interval(), self.cost)
    }

    /// How long a worker may keep a core that is asked back.
    pub fn yield_bound(&self) -> Nanos {
        self.control.yield_bound()
    }

    /// What has happened, to all and to one application.
    pub fn counts(&self, app: Option<AttachmentId>) -> CoreCounts {
        match app {
            None => self.counts,
            Some(app) => {
                let kept = self.kept.iter().find(|kept| kept.app == app);
                kept.map_or_else(CoreCounts::default, |kept| kept.counts)
            }
        }
    }

    /// The applications that are kept, with what each may have, how many cores it has, and how long
    /// its oldest item had waited at the last look.
    pub fn kept(&self) -> impl Iterator<Item = (AttachmentId, &policy::cores::App, Nanos)> {
        self.kept.iter().filter_map(|kept| {
            let slots = kept.slots.iter().filter_map(|slot| self.slots[slot.index()].as_ref());
            let oldest = slots.filter(|of| of.standing.holds()).map(|of| of.oldest).max();
            let app = self.control.table().app(cores_id(kept.app))?;
            Some((kept.app, app, oldest.unwrap_or(Nanos::ZERO)))
        })
    }

    /// Whose worker it is that the core control knows by this number, and which.
    pub fn owner(&self, worker: WorkerId) -> Option<(AttachmentId, WorkerId)> {
        let slot = self.slots.get(worker.index())?.as_ref()?;
        Some((slot.app, slot.worker))
    }

    fn count(&mut self, slot: CoreSlot, event: CoreEvent) {
        self.counts.add(event);
        let Some(Some(of)) = self.slots.get(slot.index()) else { return };
        if let Some(kept) = self.kept.iter_mut().find(|kept| kept.app == of.app) {
            kept.counts.add(event);
        }
    }

    fn note_asks(&mut self) {
        for &asked in self.control.asked() {
            self.counts.add(CoreEvent::Asks);
            if let Some(kept) = self.kept.iter_mut().find(|kept| cores_id(kept.app) == asked) {
                kept.counts.add(CoreEvent::Asks);
            }
        }
    }

    /// Whether that is news.
    fn wait_for_core(&mut self, slot: CoreSlot, now: Nanos) -> bool {
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return false };
        if of.waits || of.standing.holds() {
            return false;
        }
        of.waits = true;
        of.owes_bit = true;
        self.waiting.push(slot);
        self.is_unsettled = true;
        self.watch_rest(slot, now);
        true
    }
}
