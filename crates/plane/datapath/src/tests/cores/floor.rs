//! A loop with a core allocator, and workers that play by the protocol of the core grants, in
//! virtual time.
//!
//! One call of [`Floor::turn`] is what the daemon's loop does, its sleep included: while it sleeps
//! it does nothing unless a packet comes, a worker rings, or what it has to do falls due. A worker
//! does one small step a call, so that whatever can come between two of them does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::Nanos;
use policy::cores::{Class, CoreId, CoresConfig, CoresControl, by_name};
use shm::CoreCommand;
use shm::packets::{Next, PacketEnd};

use crate::app::AttachmentId;
use crate::cores::{
    CoreAllocator, CoreCounts, CoreEvent, CoreSlot, CoreTerms, GrantedWorker, Hands, Strayed,
};
use crate::tests::attached_apps::{Harness, Premises, STALL, turn_around};
use crate::{AppLimits, DetachReason};

/// What was done to threads, and those that no worker has.
#[derive(Default)]
pub(super) struct FakeThreads {
    pub(super) placed: Vec<(CoreSlot, u16)>,
    /// Where each thread was put last.
    at: BTreeMap<CoreSlot, u16>,
    pub(super) evicted: Vec<CoreSlot>,
    pub(super) nudged: Vec<CoreSlot>,
    pub(super) released: Vec<CoreSlot>,
    /// Threads that are not the application's.
    pub(super) strange: Vec<u32>,
}

impl FakeThreads {
    fn check(&self, thread: u32) -> Result<(), Strayed> {
        if self.strange.contains(&thread) { Err(Strayed) } else { Ok(()) }
    }
}

impl Hands for FakeThreads {
    fn place(&mut self, slot: CoreSlot, thread: u32, core: u16) -> Result<(), Strayed> {
        self.check(thread)?;
        self.evicted.retain(|&evicted| evicted != slot);
        self.placed.push((slot, core));
        self.at.insert(slot, core);
        Ok(())
    }

    fn evict(&mut self, slot: CoreSlot, thread: u32) -> Result<(), Strayed> {
        self.check(thread)?;
        self.evicted.push(slot);
        Ok(())
    }

    fn nudge(&mut self, slot: CoreSlot, thread: u32) -> Result<(), Strayed> {
        self.check(thread)?;
        self.nudged.push(slot);
        Ok(())
    }

    fn release(&mut self, slot: CoreSlot) {
        self.evicted.retain(|&evicted| evicted != slot);
        self.released.push(slot);
    }
}

/// Where a worker is in its wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Awake,
    /// Its doorbell is armed.
    Armed,
    /// It has looked once more, and found something or not.
    Looked(bool),
    Asleep,
}

/// A worker of an application, as the client library plays it.
pub(super) struct Player {
    pub(super) end: PacketEnd,
    pub(super) slot: CoreSlot,
    class: Class,
    woken: Arc<AtomicBool>,
    step: Step,
    /// The core that it believes to hold, from its last look to its park.
    pub(super) core: Option<u16>,
    pub(super) served: Vec<Vec<u8>>,
}

impl Player {
    pub(super) fn is_asleep(&self) -> bool {
        self.step == Step::Asleep
    }

    /// A wake-up lies in its pipe.
    pub(super) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Relaxed)
    }

    /// One step of `receive` and `wait`; whether it rang the daemon.
    pub(super) fn act(&mut self) -> bool {
        match self.step {
            Step::Asleep => {
                if self.woken.swap(false, Ordering::Relaxed) {
                    self.end.disarm();
                    self.step = Step::Awake;
                }
                false
            }
            // A batch job is somewhere else: its runner answers, and waits for the next change.
            Step::Awake if self.class == Class::Batch => {
                self.step = Step::Asleep;
                matches!(self.look(), CoreCommand::Park(_) | CoreCommand::Nothing)
                    && self.say(false)
            }
            Step::Awake => match self.look() {
                CoreCommand::Run(_) | CoreCommand::Drain => self.serve(4),
                CoreCommand::Park(_) | CoreCommand::Nothing => self.arm(),
            },
            Step::Armed => {
                self.step = Step::Looked(self.end.has_next());
                false
            }
            Step::Looked(has_next) => {
                if has_next && matches!(self.look(), CoreCommand::Run(_) | CoreCommand::Drain) {
                    self.end.disarm();
                    self.step = Step::Awake;
                    return false;
                }
                self.step = Step::Asleep;
                self.say(has_next)
            }
        }
    }

    pub(super) fn look(&mut self) -> CoreCommand {
        let told = self.end.core_grant().look();
        match told {
            CoreCommand::Run(core) => {
                self.end.core_grant().run();
                self.core = Some(core);
            }
            CoreCommand::Park(core) => self.core = Some(core),
            CoreCommand::Nothing | CoreCommand::Drain => self.core = None,
        }
        told
    }

    fn arm(&mut self) -> bool {
        self.end.arm();
        self.step = Step::Armed;
        false
    }

    /// It parks, once, and says whether it has something to do.
    pub(super) fn say(&mut self, wants: bool) -> bool {
        let mut rang = false;
        if !self.end.core_grant().has_left() {
            self.end.core_grant().park();
            rang = self.end.core_grant_spoke();
        }
        self.core = None;
        if wants {
            self.end.core_grant().want();
            rang |= self.end.core_grant_spoke();
        }
        rang
    }

    /// Some of its packets, or the first step of a wait when there are none.
    pub(super) fn serve(&mut self, most: usize) -> bool {
        for _ in 0..most {
            match self.end.receive().expect("an honest daemon") {
                Next::Packet(mut frame) => {
                    self.served.push(frame.bytes()[42..].to_vec());
                    assert!(turn_around(&mut frame));
                    self.end.send(frame).expect("there is room");
                }
                Next::Detach(_) | Next::Attach(_) => {}
                Next::FramesOut | Next::Empty | Next::Retired => {
                    self.arm();
                    break;
                }
            }
        }
        self.end.publish()
    }
}

/// An application whose workers run on granted cores.
pub(super) struct Troupe {
    pub(super) id: AttachmentId,
    pub(super) to: String,
    pub(super) class: Class,
    pub(super) players: Vec<Player>,
}

/// The loop, its allocator, and everybody on it.
pub(super) struct Floor {
    pub(super) harness: Harness,
    pub(super) allocator: CoreAllocator,
    pub(super) fake_threads: FakeThreads,
    pub(super) troupes: Vec<Troupe>,
    pub(super) sent: BTreeMap<u16, u16>,
    /// Why applications had to go.
    pub(super) faults: Vec<(AttachmentId, DetachReason)>,
    asleep_until: Option<Nanos>,
    is_rung: bool,
    pub(super) steps: u64,
}

pub(super) const REST: Nanos = Nanos::from_millis(1);
pub(super) const INTERVAL: Nanos = Nanos::from_micros(5);
pub(super) const BOUND: Nanos = Nanos::from_micros(100);

pub(super) fn terms(guaranteed: u16, burst: u16) -> CoreTerms {
    CoreTerms { guaranteed, burst, class: Class::Latency, queue_delay: Nanos::ZERO }
}

pub(super) fn batch(burst: u16) -> CoreTerms {
    CoreTerms { class: Class::Batch, ..terms(0, burst) }
}

impl Floor {
    pub(super) fn new(cores: u16) -> Self {
        let cores: Vec<CoreId> = (1..=cores).map(CoreId).collect();
        let config = CoresConfig { interval: INTERVAL, yield_bound: BOUND };
        let control = CoresControl::new(config, by_name("queue_delay").expect("a policy"), &cores);
        Self {
            harness: Harness::new(),
            allocator: CoreAllocator::new(control.expect("each core once"), REST),
            fake_threads: FakeThreads::default(),
            troupes: Vec::new(),
            sent: BTreeMap::new(),
            faults: Vec::new(),
            asleep_until: None,
            is_rung: false,
            steps: 0,
        }
    }

    /// An application on port `8000 + index`; its index.
    pub(super) fn spawn(&mut self, workers: usize, terms: CoreTerms) -> usize {
        let index = self.troupes.len();
        let port = 8000 + index;
        let limits = AppLimits { packets_per_s: 0, wakes_per_s: 0, stall: STALL };
        let woken: Vec<Arc<AtomicBool>> = (0..workers).map(|_| Arc::default()).collect();
        let wakes: Vec<crate::Wake> = woken
            .iter()
            .map(|woken| {
                let woken = Arc::clone(woken);
                Arc::new(move || woken.store(true, Ordering::Relaxed)) as crate::Wake
            })
            .collect();
        let calls: Vec<_> = wakes.iter().map(|_| self.allocator.call()).collect();
        let called = calls.iter().zip(&wakes).map(|(call, wake)| call.over(wake)).collect();
        let listen = [format!("udp:10.0.0.2:{port}")];
        let listen: &[&str] = if terms.class == Class::Batch { &[] } else { &[&listen[0]] };
        let Premises { id, ends, core_grants, bits, .. } =
            self.harness.admit(listen, limits, called).expect("nobody listens there");
        let granted = core_grants.into_iter().zip(wakes).zip(calls).zip(0..);
        let granted = granted.map(|(((core_grant, wake), call), worker)| GrantedWorker {
            worker: base::WorkerId(worker),
            core_grant,
            wake,
            call,
        });
        let Harness { dispatcher, now, .. } = &mut self.harness;
        let slots = self.allocator.add(id, terms, granted.collect(), Some(bits), *now, dispatcher);
        let slots = slots.expect("the terms can be kept");
        let players = ends.into_iter().zip(slots).zip(woken).map(|((mut end, slot), woken)| {
            end.core_grant().note_thread(1000 + slot.index() as u32);
            let step = Step::Awake;
            Player { end, slot, class: terms.class, woken, step, core: None, served: Vec::new() }
        });
        let (players, to) = (players.collect(), format!("10.0.0.2:{port}"));
        self.troupes.push(Troupe { id, to, class: terms.class, players });
        self.is_rung = true;
        index
    }

    /// A packet with its number, of a flow, for an application.
    pub(super) fn send(&mut self, troupe: usize, flow: u16) {
        let flow = flow + 100 * troupe as u16;
        let number = self.sent.entry(flow).or_default();
        let payload = [flow.to_be_bytes(), number.to_be_bytes()].concat();
        *number += 1;
        self.harness.send(flow, &self.troupes[troupe].to, &payload);
        self.is_rung = true;
    }

    /// A worker does its next step.
    pub(super) fn act(&mut self, troupe: usize, player: usize) {
        self.is_rung |= self.troupes[troupe].players[player].act();
    }

    pub(super) fn ring(&mut self) {
        self.is_rung = true;
    }

    /// Time passes and the daemon's loop turns, unless it sleeps and nothing wakes it.
    pub(super) fn turn(&mut self, passes: Nanos) {
        self.harness.now += passes;
        let now = self.harness.now;
        if self.asleep_until.is_some_and(|due| now < due) && !self.is_rung {
            return;
        }
        self.asleep_until = None;
        self.is_rung = false;
        self.harness.dispatcher.disarm_apps();
        let mut busy = !self.harness.dispatcher.step(now).is_idle();
        if self.allocator.is_due(now) {
            busy |= self.allocator.step(now, &mut self.harness.dispatcher, &mut self.fake_threads);
            self.steps += 1;
        }
        while let Some(id) = self.allocator.next_stray() {
            self.detach(id, DetachReason::StrayThread);
        }
        while let Some((id, why)) = self.harness.dispatcher.next_fault() {
            self.detach(id, why);
        }
        self.harness.replies();
        if busy {
            return;
        }
        self.harness.dispatcher.arm_apps();
        let is_idle = self.harness.dispatcher.step(now).is_idle();
        if is_idle && !self.allocator.has_work() && !self.harness.dispatcher.has_work() {
            let due = self.allocator.next_deadline(&self.harness.dispatcher);
            self.asleep_until = Some(due.min(self.harness.dispatcher.next_deadline()));
        }
    }

    pub(super) fn sleeps(&self) -> bool {
        self.asleep_until.is_some() && !self.is_rung
    }

    /// The application goes, with its memory as it is.
    pub(super) fn detach(&mut self, id: AttachmentId, why: DetachReason) {
        let now = self.harness.now;
        self.allocator.remove(id, now, &mut self.harness.dispatcher, &mut self.fake_threads);
        self.harness.dispatcher.detach(id, why, now);
        self.faults.push((id, why));
        self.is_rung = true;
    }

    pub(super) fn is_there(&self, troupe: usize) -> bool {
        self.harness.dispatcher.steering_of(self.troupes[troupe].id).is_some()
    }

    /// Everybody honest does what there is to do for that long, in small steps.
    pub(super) fn run(&mut self, for_long: Nanos) {
        let end = self.harness.now + for_long;
        while self.harness.now < end {
            for troupe in 0..self.troupes.len() {
                for player in 0..self.troupes[troupe].players.len() {
                    self.act(troupe, player);
                }
            }
            // A tick's time, or straight to what is due when nobody has anything to do.
            let is_still = self.sleeps() && self.troupes.iter().all(Troupe::is_still);
            let due = self.asleep_until.map_or(end, |due| due.min(end));
            let passes = if is_still { due.since(self.harness.now) } else { Nanos::from_micros(1) };
            self.turn(passes.max(Nanos(1)));
        }
    }

    pub(super) fn served(&self, troupe: usize) -> usize {
        self.troupes[troupe].players.iter().map(|player| player.served.len()).sum()
    }

    pub(super) fn holder(&self, core: u16) -> Option<CoreSlot> {
        let cores = self.allocator.table().cores();
        let core = cores.iter().find(|of| of.id == CoreId(core)).expect("it is managed");
        core.holder.map(|worker| CoreSlot(worker.0))
    }

    pub(super) fn count(&self, event: CoreEvent) -> u64 {
        self.allocator.counts(None).get(event)
    }

    pub(super) fn counts_of(&self, troupe: usize) -> CoreCounts {
        self.allocator.counts(Some(self.troupes[troupe].id))
    }

    /// No two workers believe that they hold the same core, but for those that were moved off it.
    pub(super) fn check_cores(&self) {
        let mut holders = BTreeMap::new();
        let all = self.troupes.iter().enumerate().filter(|(at, _)| self.is_there(*at));
        for (_, troupe) in all.filter(|(_, troupe)| troupe.class == Class::Latency) {
            for player in &troupe.players {
                let Some(core) = player.core else { continue };
                let is_there = self.fake_threads.at.get(&player.slot) == Some(&core);
                if !is_there || self.fake_threads.evicted.contains(&player.slot) {
                    continue;
                }
                let other = holders.insert(core, player.slot);
                assert!(other.is_none(), "core {core}: {other:?} and {:?}", player.slot);
            }
        }
        // What each has got is with it, or was given back, asked back or taken.
        for (at, troupe) in self.troupes.iter().enumerate().filter(|(at, _)| self.is_there(*at)) {
            let counts = self.counts_of(at);
            let cores = self.allocator.table().cores().iter();
            let held = cores.filter_map(|core| self.allocator.owner(core.holder?));
            let held = held.filter(|(app, _)| *app == troupe.id).count() as u64;
            let mut returned = counts.get(CoreEvent::Parks) + counts.get(CoreEvent::Takes);
            if troupe.class == Class::Batch {
                returned += counts.get(CoreEvent::Revokes);
            }
            assert_eq!(counts.get(CoreEvent::Grants), returned + held, "of application {at}");
        }
    }
}

impl Troupe {
    /// Nobody has anything to do before somebody wakes them.
    fn is_still(&self) -> bool {
        self.players.iter().all(|player| player.is_asleep() && !player.is_woken())
    }
}
