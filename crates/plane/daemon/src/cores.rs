//! Core grants in the event loop: places worker threads and detects strays.

mod hands;
mod strays;

use base::{Nanos, WorkerId};
use config::{Arrangement, Config};
use datapath::cores::{Call, CoreAllocator, CoreSlot, CoreTerms, GrantedWorker};
use datapath::{AttachmentId, DetachReason, Dispatcher};
use policy::cores::{
    Class, CoreId, CoresConfig, CoresControl, CoresRefused, gives_only_guaranteed,
};
use port::AnyPort;
use shm::packets::CoreGrantBits;
use sys::pidfd::PidFd;

use crate::event_loop::EventLoop;
use crate::failure::Failure;
use hands::{CoreHands, Verdict};
use strays::Strays;

/// Between two looks at a thread that could be somewhere else than its worker says: 3 us each.
const LOOK_EVERY: Nanos = Nanos::from_millis(10);

/// What an application needs to be kept.
pub(crate) struct Keeping {
    pub(crate) terms: CoreTerms,
    pub(crate) workers: Vec<GrantedWorker>,
    pub(crate) bits: CoreGrantBits,
    pub(crate) process: PidFd,
}

/// The allocator of the configured cores, and its hands.
pub(crate) struct Cores {
    pub(crate) allocator: CoreAllocator,
    hands: CoreHands,
    own: CoreTerms,
    cursor: usize,
    next_look: Nanos,
    strays: Strays<AttachmentId>,
    /// A slot of each application, by which its process is known.
    slots: Vec<(AttachmentId, CoreSlot)>,
}

impl Cores {
    /// `None`: no core is to be managed.
    pub(crate) fn new(config: &Config) -> Result<Option<Self>, Failure> {
        let cores = &config.cores;
        if cores.set.is_empty() {
            return Ok(None);
        }
        let rest = Nanos::from_millis(u64::from(cores.rest_ms));
        let allocator = CoreAllocator::new(control(config)?, rest);
        let own = CoreTerms {
            guaranteed: cores.guaranteed,
            burst: cores.set.len().min(usize::from(u16::MAX)) as u16,
            class: Class::Latency,
            queue_delay: Nanos::from_micros(u64::from(cores.queue_delay_us)),
        };
        let hands = CoreHands::new(&cores.set)?;
        Ok(Some(Self {
            allocator,
            hands,
            own,
            cursor: 0,
            next_look: Nanos::ZERO,
            strays: Strays::new(),
            slots: Vec::new(),
        }))
    }

    /// A handle to make others from, for workers to come.
    pub(crate) fn call(&self) -> Call {
        self.allocator.call()
    }

    /// An application's workers are kept from now on.
    pub(crate) fn add(
        &mut self,
        app: AttachmentId,
        keeping: Keeping,
        now: Nanos,
        dispatcher: &mut Dispatcher<AnyPort>,
    ) -> Result<(), CoresRefused> {
        let Keeping { terms, workers, bits, process } = keeping;
        if terms.guaranteed == 0 && gives_only_guaranteed(self.allocator.control().policy()) {
            return Err(CoresRefused::NothingGuaranteed);
        }
        let slots = self.allocator.add(app, terms, workers, Some(bits), now, dispatcher)?;
        self.hands.employ(&slots, Some(process));
        self.slots.extend(slots.first().map(|slot| (app, *slot)));
        Ok(())
    }

    /// Those to whom no core is guaranteed.
    pub(crate) fn without_guarantee(&self) -> impl Iterator<Item = AttachmentId> {
        let kept = self.allocator.kept();
        kept.filter(|(_, app, _)| app.terms.guaranteed == 0).map(|(id, ..)| id)
    }

    pub(crate) fn remove(
        &mut self,
        app: AttachmentId,
        now: Nanos,
        dispatcher: &mut Dispatcher<AnyPort>,
    ) -> Vec<GrantedWorker> {
        self.strays.forget(app);
        self.slots.retain(|(of, _)| *of != app);
        self.allocator.remove(app, now, dispatcher, &mut self.hands)
    }

    /// The own workers have changed: these have come, and those that are not `present` have gone.
    pub(crate) fn renew_own(
        &mut self,
        new: Vec<GrantedWorker>,
        present: impl Fn(WorkerId) -> bool,
        now: Nanos,
        dispatcher: &mut Dispatcher<AnyPort>,
    ) -> Result<(), CoresRefused> {
        let mut workers = self.remove(AttachmentId::OWN, now, dispatcher);
        workers.extend(new);
        workers.retain(|granted| present(granted.worker));
        if workers.is_empty() {
            return Ok(());
        }
        // With more workers than before there may be no more cores to guarantee. They do with less
        // then: without terms they would never run again.
        let promised = self.allocator.kept().map(|(_, app, _)| usize::from(app.terms.guaranteed));
        let left = self.allocator.table().cores().len().saturating_sub(promised.sum());
        let guaranteed = self.own.guaranteed.min(workers.len().min(left) as u16);
        let terms = CoreTerms { guaranteed, ..self.own };
        let slots: Vec<CoreSlot> =
            self.allocator.add(AttachmentId::OWN, terms, workers, None, now, dispatcher)?;
        self.hands.employ(&slots, None);
        Ok(())
    }

    /// One step of the allocator, when there is something to do.
    #[inline]
    fn step(&mut self, now: Nanos, dispatcher: &mut Dispatcher<AnyPort>) -> bool {
        if !self.allocator.is_due(now) {
            return false;
        }
        let began = sys::clock::now();
        let stepped = self.allocator.step(began, dispatcher, &mut self.hands);
        self.allocator.note_cost(sys::clock::now().since(began));
        stepped
    }

    /// One whose worker has strayed, and that has to go now.
    fn next_stray(&mut self, now: Nanos) -> Option<(AttachmentId, DetachReason)> {
        while let Some(app) = self.allocator.next_stray() {
            if app != AttachmentId::OWN {
                self.strays.note(app, now);
            }
        }
        let (slots, hands) = (&self.slots, &self.hands);
        self.strays
            .judge(now, |app| slots.iter().any(|(of, slot)| *of == app && hands.is_ending(*slot)))
    }

    /// Looks at one thread now and then: a parked worker that uses CPU time is moved to where it
    /// disturbs nobody, and a dead one's application has to go.
    fn look(&mut self, now: Nanos) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_EVERY;
        let Some(suspect) = self.allocator.next_suspect(&mut self.cursor) else { return };
        match self.hands.examine(suspect, now) {
            Verdict::Honest => {}
            Verdict::RunsParked => self.allocator.report_running(suspect.slot, &mut self.hands),
            Verdict::Dead => self.allocator.report_dead(suspect.slot),
        }
    }
}

/// The policy over the configured cores, before anybody has one.
pub(crate) fn control(config: &Config) -> Result<CoresControl, Failure> {
    let cores = &config.cores;
    let policy = policy::cores::by_name(config.cores_policy())?;
    if cores.guaranteed == 0 && keeps_own(config) && gives_only_guaranteed(policy.name()) {
        return Err(Failure::Said(format!(
            "cores.guaranteed is 0, and the policy {} gives nothing else: the daemon's own workers \
             would never run; guarantee them at least one",
            policy.name()
        )));
    }
    let settings = CoresConfig {
        interval: Nanos::from_micros(u64::from(cores.interval_us)),
        yield_bound: Nanos::from_micros(u64::from(cores.yield_bound_us)),
    };
    let set: Vec<CoreId> = cores.set.iter().copied().map(CoreId).collect();
    CoresControl::new(settings, policy, &set)
        .map_err(|refused| Failure::Said(format!("cores.set: {refused}")))
}

/// Whether the own workers are threads that can be given cores.
pub(crate) fn keeps_own(config: &Config) -> bool {
    !config.cores.set.is_empty() && config.workers.arrangement == Arrangement::Threads
}

impl EventLoop {
    /// Cores are granted and taken, when that is due.
    #[inline]
    pub(crate) fn keep_cores(&mut self, now: Nanos) -> bool {
        let Some(cores) = &mut self.cores else { return false };
        let stepped = cores.step(now, &mut self.dispatcher);
        cores.look(now);
        while let Some((app, why)) = self.cores.as_mut().and_then(|cores| cores.next_stray(now)) {
            self.detach(app, why, now);
        }
        stepped
    }
}
