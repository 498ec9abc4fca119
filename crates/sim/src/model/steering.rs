//! Which worker gets a packet: the daemon's control loop over its tables, or one of the historic rules.

use std::collections::VecDeque;

use base::{FlowGroup, FlowHash, Nanos, WorkerId};
use policy::steer::{SteerConfig, by_name};
use policy::{
    Control, ControlConfig, CoreSample, GroupLoad, LoadSample, Move, OwnerTable, Placement, Plan,
    UnknownPolicy, WorkerSample, sample::GROUPS_PER_STEP,
};

use super::worker::Packet;

/// Steps of the control loop that a turn may take where nothing but the decision matters.
const TURNS_AT_ONCE: usize = 4;

/// Whose rules are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum System {
    /// Shenango: the hash modulo the number of active workers, of any packet at any time.
    Shenango,
    /// The public code of Calisto: Shenango's rule, and for each packet a look into a table of 500 flows
    /// that decides nothing while a worker is active.
    PublicCode,
    /// One of this project's policies, by name, over so many groups.
    Policy {
        /// As `calisto steer` knows it; the paper's Listing 3 is `listing3`.
        name: String,
        /// A power of two.
        groups: u32,
    },
}

impl System {
    /// A policy over 65,536 groups, the daemon's own number.
    pub fn policy(name: &str) -> Self {
        Self::Policy { name: name.to_owned(), groups: 1 << 16 }
    }

    /// Its name in a legend.
    pub fn name(&self) -> &str {
        match self {
            Self::Shenango => "shenango",
            Self::PublicCode => "public_code",
            Self::Policy { name, .. } => name,
        }
    }

    /// Whether each packet pays for an exact table of flows, and of how many.
    pub(super) fn flow_table(&self) -> Option<u32> {
        match self {
            Self::PublicCode => Some(500),
            // The paper's "up to 700 thousand records".
            Self::Policy { name, .. } if name == "listing3" => Some(700_000),
            _ => None,
        }
    }

    /// Whether the workers that are parked lose their flows at once.
    pub(super) fn follows_cores(&self) -> bool {
        matches!(self, Self::Shenango | Self::PublicCode)
    }
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// To the worker of this number.
    To(u16),
    /// Its group is on its way: it waits with this hand-over.
    Held(u32),
    /// To whoever has the shortest ring.
    Shortest,
    /// Nobody is active.
    Nobody,
}

/// A hand-over that has begun: the old owner passes its mark when it has done all that came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) handover: u32,
    pub(super) from: u16,
}

/// Packets that wait, by hand-over; numbers are never used again within a run.
#[derive(Debug, Default)]
struct Waiting {
    first: u32,
    lists: VecDeque<Option<Handover>>,
}

#[derive(Debug)]
struct Handover {
    from: WorkerId,
    /// `None`: a published table.
    single: Option<Move>,
    packets: Vec<Packet>,
}

impl Waiting {
    fn begin(&mut self, from: WorkerId, single: Option<Move>) -> u32 {
        self.lists.push_back(Some(Handover { from, single, packets: Vec::new() }));
        self.first + self.lists.len() as u32 - 1
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Handover> {
        self.lists.get_mut(number.checked_sub(self.first)? as usize)?.as_mut()
    }

    fn take(&mut self, number: u32) -> Option<Handover> {
        let taken = self.lists.get_mut(number.checked_sub(self.first)? as usize)?.take();
        while matches!(self.lists.front(), Some(None)) {
            self.lists.pop_front();
            self.first += 1;
        }
        taken
    }

    fn numbered(&self) -> impl Iterator<Item = (u32, &Handover)> {
        (self.first..).zip(&self.lists).filter_map(|(number, list)| Some((number, list.as_ref()?)))
    }
}

/// The steering of one application.
pub(super) struct Steering {
    /// `None` for Shenango's rule.
    ours: Option<Box<Ours>>,
    active: Vec<WorkerId>,
}

struct Ours {
    control: Control,
    live: OwnerTable,
    shadow: OwnerTable,
    plan: Plan,
    waiting: Waiting,
    /// Old owners of a published table that have not passed: the hand-over of each, by worker.
    transition: Option<Vec<Option<u32>>>,
    loads: Option<Vec<(u32, Nanos)>>,
    next_load: usize,
    sample: CoreSample,
}

impl Steering {
    pub(super) fn new(system: &System, seed: u64) -> Result<Self, UnknownPolicy> {
        let System::Policy { name, groups } = system else {
            return Ok(Self { ours: None, active: Vec::new() });
        };
        let live = OwnerTable::new(*groups, 0).unwrap_or_else(|_| {
            OwnerTable::new(1 << 16, 0).expect("a number of groups that is possible")
        });
        let steer = by_name(name, SteerConfig { groups: live.len(), seed })?;
        let wants_load = matches!(name.as_str(), "balanced" | "least_loaded");
        let loads = wants_load.then(|| vec![(0, Nanos::FAR_FUTURE); live.len()]);
        let control = Control::new(ControlConfig::default(), steer, live.len());
        Ok(Self {
            ours: Some(Box::new(Ours {
                control,
                shadow: live.clone(),
                live,
                plan: Plan::default(),
                waiting: Waiting::default(),
                transition: None,
                loads,
                next_load: 0,
                sample: CoreSample::default(),
            })),
            active: Vec::new(),
        })
    }

    /// The workers that get packets from now on.
    pub(super) fn set_active(&mut self, active: Vec<WorkerId>) {
        self.active = active;
        if let Some(ours) = &mut self.ours {
            ours.control.set_workers(&self.active);
        }
    }

    pub(super) fn active(&self) -> &[WorkerId] {
        &self.active
    }

    /// Whether the control loop has nothing to do and nothing moves.
    pub(super) fn is_settled(&self) -> bool {
        self.ours.as_ref().is_none_or(|ours| {
            ours.control.is_settled() && ours.transition.is_none() && ours.waiting.lists.is_empty()
        })
    }

    /// Whether the loop wants to see the load of groups.
    pub(super) fn wants_load(&self) -> bool {
        self.ours.as_ref().is_some_and(|ours| ours.loads.is_some())
    }

    /// Where a packet of this hash goes. Hand-overs that this begins are put into `begun`.
    #[inline]
    pub(super) fn route(&mut self, hash: u32, now: Nanos, begun: &mut Vec<Begun>) -> Route {
        if self.active.is_empty() {
            return Route::Nobody;
        }
        match &mut self.ours {
            None => Route::To(self.active[hash as usize % self.active.len()].0),
            Some(ours) => ours.route(hash, now, begun),
        }
    }

    /// The packet waits with this hand-over.
    pub(super) fn hold(&mut self, handover: u32, packet: Packet) {
        if let Some(list) = self.ours.as_mut().and_then(|ours| ours.waiting.get_mut(handover)) {
            list.packets.push(packet);
        }
    }

    /// The old owner has passed its mark: what waited.
    pub(super) fn passed(&mut self, handover: u32) -> Vec<Packet> {
        self.ours.as_mut().map(|ours| ours.passed(handover)).unwrap_or_default()
    }

    /// A turn of the control loop.
    pub(super) fn turn(
        &mut self,
        workers: impl Iterator<Item = WorkerSample>,
        with_load: bool,
        now: Nanos,
        begun: &mut Vec<Begun>,
    ) {
        if let Some(ours) = &mut self.ours {
            ours.sample.now = now;
            ours.sample.workers.clear();
            ours.sample.workers.extend(workers);
            for _ in 0..TURNS_AT_ONCE {
                ours.turn(with_load, begun);
            }
        }
    }
}

impl Ours {
    fn route(&mut self, hash: u32, now: Nanos, begun: &mut Vec<Begun>) -> Route {
        if self.control.shares_queue() {
            return Route::Shortest;
        }
        let group = self.live.group_of(FlowHash(hash));
        if let Some(loads) = &mut self.loads {
            let (packets, last) = &mut loads[group.index()];
            (*packets, *last) = (*packets + 1, now);
        }
        let entry = self.live.entry(group);
        if let Some(transition) = &self.transition {
            let (was, is) = (self.shadow.entry(group).owner(), entry.owner());
            if let (Some(was), Some(is)) = (was, is)
                && was != is
                && let Some(Some(handover)) = transition.get(was.index())
            {
                return Route::Held(*handover);
            }
        } else if entry.is_moving() {
            let of_it = |handover: &Handover| handover.single.is_some_and(|one| one.group == group);
            let found = self.waiting.numbered().find(|(_, handover)| of_it(handover));
            if let Some((number, _)) = found {
                return Route::Held(number);
            }
        }
        if let Some(owner) = entry.plain() {
            return Route::To(owner.0);
        }
        match self.control.place(group, &mut self.live, &mut self.shadow, now) {
            None => Route::Nobody,
            Some(Placement::Now(worker)) => Route::To(worker.0),
            Some(Placement::Move(asked)) => Route::Held(self.begin_single(asked, begun)),
        }
    }

    fn begin_single(&mut self, asked: Move, begun: &mut Vec<Begun>) -> u32 {
        let entry = self.live.entry(asked.group).with_moving(true);
        self.control.write(asked.group, entry, &mut self.live);
        let handover = self.waiting.begin(asked.from, Some(asked));
        begun.push(Begun { handover, from: asked.from.0 });
        handover
    }

    fn passed(&mut self, number: u32) -> Vec<Packet> {
        let Some(handover) = self.waiting.take(number) else { return Vec::new() };
        match handover.single {
            Some(done) => self.control.moved(done, &mut self.live),
            None => {
                if let Some(transition) = &mut self.transition {
                    transition[handover.from.index()] = None;
                    if transition.iter().all(Option::is_none) {
                        self.transition = None;
                        self.control.epoch_finished();
                    }
                }
            }
        }
        handover.packets
    }

    fn turn(&mut self, with_load: bool, begun: &mut Vec<Begun>) {
        let load = with_load.then(|| self.load_sample()).flatten();
        let Self { control, live, shadow, plan, sample, .. } = self;
        control.tick(sample, load.as_ref(), live, shadow, plan);
        let moves = std::mem::take(&mut self.plan.moves);
        for &asked in &moves {
            let entry = self.live.entry(asked.group);
            if entry.owner() == Some(asked.from) && !entry.is_moving() {
                self.begin_single(asked, begun);
            } else {
                self.control.refused(asked, &mut self.live);
            }
        }
        self.plan.moves = moves;
        if self.plan.publish {
            self.publish(begun);
        }
    }

    /// The shadow becomes the table in force; everybody who owned a group before gets a mark.
    fn publish(&mut self, begun: &mut Vec<Begun>) {
        self.plan.publish = false;
        std::mem::swap(&mut self.live, &mut self.shadow);
        let owners = (0..self.shadow.len() as u32).filter_map(|group| {
            let group = FlowGroup(group);
            let was = self.shadow.entry(group).owner()?;
            (self.live.entry(group).owner() != Some(was)).then_some(was)
        });
        let mut transition: Vec<Option<u32>> = Vec::new();
        for was in owners {
            if transition.len() <= was.index() {
                transition.resize(was.index() + 1, None);
            }
            if transition[was.index()].is_none() {
                let handover = self.waiting.begin(was, None);
                transition[was.index()] = Some(handover);
                begun.push(Begun { handover, from: was.0 });
            }
        }
        if transition.is_empty() {
            self.control.epoch_finished();
        } else {
            self.transition = Some(transition);
        }
    }

    /// The next slice of groups.
    fn load_sample(&mut self) -> Option<LoadSample> {
        let now = self.sample.now;
        let loads = self.loads.as_mut()?;
        let first = self.next_load;
        let end = (first + GROUPS_PER_STEP).min(loads.len());
        self.next_load = if end == loads.len() { 0 } else { end };
        let groups = loads[first..end].iter_mut().map(|(packets, last)| GroupLoad {
            packets: std::mem::take(packets),
            idle: if *last == Nanos::FAR_FUTURE { Nanos::FAR_FUTURE } else { now.since(*last) },
        });
        Some(LoadSample { now, first: FlowGroup(first as u32), groups: groups.collect() })
    }
}
