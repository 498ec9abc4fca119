//! The daemon's control loop over its two tables, carried out in virtual time.
//!
//! What the data path does with threads and rings is done here with barriers: a hand-over holds the
//! packets of its groups until the old owner has done everything that was in its ring when it
//! began. The contract is that of [`policy::Control`].

use base::{FlowGroup, FlowHash, Nanos, WorkerId};
use policy::sample::GROUPS_PER_STEP;
use policy::steer::{SteerConfig, by_name};
use policy::{Control, ControlConfig, CoreSample, Move, OwnerTable, Placement, Plan, WorkerSample};

use super::PlanError;
use super::loads::Loads;
use super::steering::{Begun, Route};
use super::waiting::Waiting;
use super::worker::Packet;

/// Fewer packets than this since the last look at the load, and the next one waits this long: the
/// daemon's.
const FEW_PACKETS: u32 = 256;
const QUIET: Nanos = Nanos::from_millis(64);

/// Policies that decide by what groups and workers have to do. To the others a look at the load
/// would only say which groups rest, and they leave those where they are; the dispatcher looks all
/// the same.
const LOOK_AT_LOAD: [&str; 3] = ["balanced", "hybrid", "least_loaded"];

pub(super) struct Tables {
    control: Control,
    live: OwnerTable,
    shadow: OwnerTable,
    plan: Plan,
    waiting: Waiting,
    /// Old owners of a published table that have not passed, by worker.
    transition: Option<Vec<Option<OldOwner>>>,
    loads: Option<Loads>,
    /// Packets since the last look at the load, and when that was.
    noted: u32,
    looked: Nanos,
    sample: CoreSample,
}

/// The owner of groups in the table before, as long as it has not passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OldOwner {
    /// This hand-over waits for it.
    Waits(u32),
    /// It did not pass in time and keeps its groups.
    Keeps,
}

impl Tables {
    pub(super) fn new(name: &str, groups: u32, seed: u64) -> Result<Self, PlanError> {
        let live = OwnerTable::new(groups, 0).map_err(PlanError::Groups)?;
        let config = SteerConfig { groups: live.len(), seed };
        let steer = by_name(name, config).map_err(PlanError::Policy)?;
        Ok(Self {
            control: Control::new(ControlConfig::default(), steer, live.len()),
            shadow: live.clone(),
            loads: LOOK_AT_LOAD.contains(&name).then(|| Loads::new(live.len())),
            live,
            plan: Plan::default(),
            waiting: Waiting::default(),
            transition: None,
            noted: 0,
            // Applications do not all begin at once: else the quiet ones would be looked at in one
            // go.
            looked: Nanos(seed % QUIET.0),
            sample: CoreSample::default(),
        })
    }

    pub(super) fn set_workers(&mut self, active: &[WorkerId]) {
        self.control.set_workers(active);
    }

    pub(super) fn is_settled(&self) -> bool {
        self.control.is_settled() && self.transition.is_none() && self.waiting.is_empty()
    }

    /// Whether the policy decides by the load.
    pub(super) fn wants_load(&self) -> bool {
        self.loads.is_some()
    }

    /// Whether there is enough to see, or enough time has passed.
    pub(super) fn is_load_due(&self, now: Nanos) -> bool {
        self.noted >= FEW_PACKETS || now.since(self.looked) >= QUIET
    }

    /// The dispatcher looks at the load now: at that many groups.
    pub(super) fn look(&mut self, now: Nanos) -> usize {
        (self.noted, self.looked) = (0, now);
        self.live.len().min(GROUPS_PER_STEP)
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.packets()
    }

    pub(super) fn hold(&mut self, handover: u32, packet: Packet) -> bool {
        self.waiting.hold(handover, packet)
    }

    #[inline]
    pub(super) fn route(&mut self, hash: u32, now: Nanos, begun: &mut Vec<Begun>) -> Route {
        let group = self.live.group_of(FlowHash(hash));
        self.noted += 1;
        if let Some(loads) = &mut self.loads {
            loads.note(group, now);
        }
        let entry = self.live.entry(group);
        if self.transition.is_none()
            && let Some(owner) = entry.plain()
            && !self.control.shares_queue()
        {
            return Route::To(owner.0);
        }
        self.route_slow(group, now, begun)
    }

    #[cold]
    fn route_slow(&mut self, group: FlowGroup, now: Nanos, begun: &mut Vec<Begun>) -> Route {
        if self.control.shares_queue() {
            return Route::Shortest;
        }
        let entry = self.live.entry(group);
        if let Some(transition) = &self.transition {
            let (was, is) = (self.shadow.entry(group).owner(), entry.owner());
            if let (Some(was), Some(is)) = (was, is)
                && was != is
                && let Some(Some(old)) = transition.get(was.index())
            {
                return match old {
                    OldOwner::Waits(handover) => Route::Held(*handover),
                    OldOwner::Keeps => Route::To(was.0),
                };
            }
        }
        if entry.is_moving()
            && let Some(handover) = self.waiting.find(|asked| asked.group == group)
        {
            return Route::Held(handover);
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

    /// The old owner has passed its barrier: what waited.
    pub(super) fn passed(&mut self, number: u32, now: Nanos) -> Vec<Packet> {
        let Some(handover) = self.waiting.take(number) else { return Vec::new() };
        if let Some(done) = handover.single {
            self.control.moved(done, &mut self.live);
        } else {
            self.leave(handover.from, None, now);
        }
        handover.packets
    }

    /// The old owner of a hand-over that is under way.
    pub(super) fn old_owner(&self, number: u32) -> Option<WorkerId> {
        self.waiting.from(number)
    }

    /// The old owner keeps its flows: what waited, as much as there is room for, and whether that
    /// was all. If not, the hand-over goes on holding what comes, so that no packet overtakes.
    pub(super) fn take_back(
        &mut self,
        number: u32,
        room: usize,
        now: Nanos,
    ) -> (Vec<Packet>, bool) {
        let (given, is_over) = self.waiting.give_back(number, room);
        if !is_over {
            return (given, false);
        }
        if let Some(handover) = self.waiting.take(number) {
            match handover.single {
                Some(undone) => self.control.aborted(undone, &mut self.live, now),
                None => self.leave(handover.from, Some(OldOwner::Keeps), now),
            }
        }
        (given, true)
    }

    /// A published table waits for this owner no more. After the last one what was kept is written
    /// back, and the transition is over.
    fn leave(&mut self, from: WorkerId, left: Option<OldOwner>, now: Nanos) {
        let Self { control, live, shadow, transition, .. } = self;
        let Some(olds) = transition else { return };
        olds[from.index()] = left;
        if olds.iter().flatten().any(|old| matches!(old, OldOwner::Waits(_))) {
            return;
        }
        let keeps = |worker: WorkerId| olds.get(worker.index()).is_some_and(Option::is_some);
        let mut next = olds.iter().any(Option::is_some).then_some(FlowGroup(0));
        while let Some(first) = next {
            next = control.revert(first, keeps, live, shadow, now);
        }
        *transition = None;
        control.epoch_finished();
    }

    pub(super) fn turn(
        &mut self,
        workers: impl Iterator<Item = WorkerSample>,
        with_load: bool,
        now: Nanos,
        begun: &mut Vec<Begun>,
    ) {
        self.sample.now = now;
        self.sample.workers.clear();
        self.sample.workers.extend(workers);
        self.step(with_load, begun);
    }

    fn step(&mut self, with_load: bool, begun: &mut Vec<Begun>) {
        let Self { control, live, shadow, plan, sample, loads, .. } = self;
        let loads = if with_load { loads.as_mut() } else { None };
        let load = loads.map(|loads| loads.sample(sample.now));
        control.tick(sample, load, live, shadow, plan);
        let moves = std::mem::take(&mut plan.moves);
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

    /// The shadow becomes the table in force; each worker that owned a group before gets a barrier.
    fn publish(&mut self, begun: &mut Vec<Begun>) {
        self.plan.publish = false;
        std::mem::swap(&mut self.live, &mut self.shadow);
        let owners = (0..self.shadow.len() as u32).filter_map(|group| {
            let group = FlowGroup(group);
            let was = self.shadow.entry(group).owner()?;
            (self.live.entry(group).owner() != Some(was)).then_some(was)
        });
        let mut transition: Vec<Option<OldOwner>> = Vec::new();
        for was in owners {
            if transition.len() <= was.index() {
                transition.resize(was.index() + 1, None);
            }
            if transition[was.index()].is_none() {
                let handover = self.waiting.begin(was, None);
                transition[was.index()] = Some(OldOwner::Waits(handover));
                begun.push(Begun { handover, from: was.0 });
            }
        }
        if transition.is_empty() {
            self.control.epoch_finished();
        } else {
            self.transition = Some(transition);
        }
    }
}

#[cfg(test)]
impl Tables {
    pub(super) fn start_recording(&mut self) -> policy::record::Snapshot {
        let recorder = Box::new(policy::record::Recorder::new(self.live.len(), 2, 1 << 20));
        let begun = self.control.start_recording(recorder, &self.live, &self.shadow);
        begun.expect("every policy can be recorded")
    }

    pub(super) fn stop_recording(&mut self) -> Option<Box<policy::record::Recorder>> {
        self.control.stop_recording()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_applications_are_looked_at_one_after_the_other() {
        let first_look = |seed: u64| {
            let tables = Tables::new("sticky", 128, seed).expect("there is such a policy");
            (0..=200).map(Nanos::from_millis).find(|&at| tables.is_load_due(at))
        };
        let mut seeds = load::Random::new(1);
        let mut looks: Vec<_> = (0..50).map(|_| first_look(seeds.bits())).collect();
        assert!(
            looks.iter().all(|at| at.is_some_and(|at| at >= QUIET && at <= Nanos(2 * QUIET.0)))
        );
        looks.sort_unstable();
        looks.dedup();
        assert!(looks.len() > 20, "{looks:?}");
    }

    #[test]
    fn an_old_owner_that_does_not_pass_in_time_keeps_its_groups_and_what_waited() {
        let mut tables = Tables::new("sticky", 128, 1).expect("there is such a policy");
        let (now, mut begun) = (Nanos::from_millis(1), Vec::new());
        let hashes = || (0..128).map(|group: u32| group.wrapping_mul(0x9e37_79b9));
        tables.set_workers(&[WorkerId(0)]);
        tables.turn(std::iter::empty(), false, now, &mut begun);
        for hash in hashes() {
            assert_eq!(tables.route(hash, now, &mut begun), Route::To(0));
        }
        tables.set_workers(&[WorkerId(0), WorkerId(1)]);
        let turns = (0..100).take_while(|_| {
            tables.turn(std::iter::empty(), false, now, &mut begun);
            begun.is_empty()
        });
        assert!(turns.count() < 100, "nothing is to move");
        let Begun { handover, from } = begun[0];
        assert_eq!(from, 0);
        let waits = |tables: &mut Tables| {
            let all = hashes()
                .filter(|&hash| tables.route(hash, now, &mut Vec::new()) == Route::Held(handover));
            all.count()
        };
        assert!(waits(&mut tables) > 30, "half of all groups wait for the old owner");
        let packet = |flow| Packet { arrived: now, work: now, flow, life: 0, is_begun: false };
        assert!((0..3).all(|flow| tables.hold(handover, packet(flow))));
        let mut back = |room| {
            let (given, is_over) = tables.take_back(handover, room, now);
            let flows: Vec<u32> = given.iter().map(|packet| packet.flow).collect();
            (flows, is_over, waits(&mut tables) > 0)
        };
        assert_eq!(back(2), (vec![0, 1], false, true), "the third would be overtaken");
        assert_eq!(back(2), (vec![2], true, false));
        for hash in hashes() {
            assert_eq!(tables.route(hash, now, &mut begun), Route::To(0), "{hash}");
        }
        assert_eq!((tables.waiting(), tables.old_owner(handover)), (0, None));
    }

    #[test]
    fn a_turn_rewrites_no_more_groups_than_a_tick_of_the_daemon() {
        let groups = 16 * GROUPS_PER_STEP as u32;
        let mut tables = Tables::new("prefilled", groups, 1).expect("there is such a policy");
        let mut begun = Vec::new();
        tables.set_workers(&[WorkerId(0), WorkerId(1)]);
        let mut turns = 0;
        while tables.live.entry(FlowGroup(groups - 1)).owner().is_none() {
            tables.turn(std::iter::empty(), false, Nanos::ZERO, &mut begun);
            turns += 1;
            assert!(turns < 1000, "it is never filled");
        }
        assert!(turns >= 16, "{turns} turns for 16 slices");
    }
}
