//! The control loop's recording: what is noted of it, and its calls made again.

use base::{FlowGroup, Nanos};
use serde::Serialize;

use super::event::{Event, Placed, What};
use super::line::{Assembly, Line, PlacedLine};
use super::recorded::{Recorded, Step};
use super::snapshot::Snapshot;
use crate::control::Control;
use crate::plan::Plan;
use crate::sample::{CoreSample, LoadSample};
use crate::table::{Entry, OwnerTable};

/// What a replay of the control loop has found to be the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Ticks with the same plan, those that asked for nothing included.
    pub ticks: u64,
    /// Of these: ticks whose plan asked for something.
    pub plans: u64,
    /// Moves in these plans.
    pub moves: u64,
    /// Whole tables in these plans.
    pub tables: u64,
    /// Groups that were placed the same.
    pub placements: u64,
    /// Everything else that happened: answers of the shell, requests, proposals.
    pub other_events: u64,
}

impl Recorded for Snapshot {
    type Room = Self;
    type Event = Event;
    type Assembly = Assembly;
    type Line = Line;
    type Again = Again;
    type Counts = Counts;

    fn idle(ticks: u32, last: Nanos) -> Event {
        Event(What::Idle { ticks, last })
    }

    fn as_idle(event: &mut Event) -> Option<(&mut u32, &mut Nanos)> {
        match &mut event.0 {
            What::Idle { ticks, last } => Some((ticks, last)),
            _ => None,
        }
    }

    fn add(assembly: &mut Assembly, event: &Event) -> Option<Line> {
        assembly.add(event)
    }

    fn end(lost: u64) -> Line {
        Line::End { lost }
    }

    fn restore(self) -> Result<Again, String> {
        let (control, live, shadow) = Control::restore(self)?;
        let (core, plan) = (CoreSample::default(), Plan::default());
        Ok(Again { control, live, shadow, core, plan, counts: Counts::default() })
    }

    fn run(again: &mut Again, line: Line) -> Result<Step, String> {
        again.run(line)
    }

    fn counts(again: Again) -> Counts {
        again.counts
    }
}

/// The loop and its tables.
pub struct Again {
    control: Control,
    live: OwnerTable,
    shadow: OwnerTable,
    core: CoreSample,
    plan: Plan,
    counts: Counts,
}

impl Again {
    fn run(&mut self, call: Line) -> Result<Step, String> {
        match call {
            Line::Tick { now, sampled, load, plan } => {
                self.core.now = Nanos(now);
                self.core.workers = sampled;
                return self.tick(load.as_ref(), &plan);
            }
            Line::Idle { ticks, last } => return self.idle(ticks, Nanos(last)),
            Line::Place { group, found, now, placed } => {
                return Ok(self.place(group, Entry::from_bits(found), placed, Nanos(now)));
            }
            Line::End { lost } => return Ok(Step::End(lost)),
            other => self.tell(other),
        }
        .inspect(|_| self.counts.other_events += 1)
    }

    fn tick(&mut self, load: Option<&LoadSample>, expected: &Plan) -> Result<Step, String> {
        if let Some(load) = load
            && load.first.index() + load.groups.len() > self.live.len()
        {
            return Err("a load sample reaches beyond the table".to_owned());
        }
        let Self { control, live, shadow, core, plan, counts } = self;
        control.tick(core, load, live, shadow, plan);
        let step = Step::compare(expected, plan);
        if matches!(step, Step::Same) {
            counts.ticks += 1;
            counts.plans += u64::from(*plan != Plan::default());
            counts.moves += plan.moves.len() as u64;
            counts.tables += u64::from(plan.publish);
        }
        if plan.publish {
            std::mem::swap(live, shadow);
        }
        Ok(step)
    }

    /// Ticks that change nothing are all alike: one stands for all of them.
    fn idle(&mut self, ticks: u32, last: Nanos) -> Result<Step, String> {
        if !self.control.rests() {
            let (expected, got) = ("a loop at rest", "one that has something to do");
            return Ok(Step::Other(expected.to_owned(), got.to_owned()));
        }
        if ticks == 0 {
            return Err("no tick is no event".to_owned());
        }
        self.core.now = last;
        self.core.workers.clear();
        let step = self.tick(None, &Plan::default())?;
        self.counts.ticks += u64::from(ticks - 1);
        Ok(step)
    }

    fn place(&mut self, group: u32, found: Entry, placed: PlacedLine, now: Nanos) -> Step {
        let group = FlowGroup(group);
        let here = self.live.entry(group);
        if here != found {
            return Step::compare(&found, &here);
        }
        let Self { control, live, shadow, counts, .. } = self;
        let got = Placed::from(control.place(group, live, shadow, now)).into();
        counts.placements += u64::from(placed == got);
        Step::compare(&placed, &got)
    }

    /// Calls whose answer, if they have one, is known from the table.
    fn tell(&mut self, call: Line) -> Result<Step, String> {
        let Self { control, live, shadow, .. } = self;
        match call {
            Line::Tick { .. } | Line::Idle { .. } | Line::Place { .. } | Line::End { .. } => {}
            Line::Assign { group, owner } => control.assign(FlowGroup(group), owner, live),
            Line::Disown { group } => control.disown(FlowGroup(group), live),
            Line::Write { group, entry } => {
                control.write(FlowGroup(group), Entry::from_bits(entry), live);
            }
            Line::Moved(done) => {
                if done.group.index() >= live.len() {
                    return Err(format!("there is no group {}", done.group));
                }
                control.moved(done, live);
            }
            Line::Aborted { undone, now } => control.aborted(undone, live, Nanos(now)),
            Line::Refused(undone) => control.refused(undone, live),
            Line::EpochFinished => control.epoch_finished(),
            Line::Revert { first, now, kept, next } => {
                let kept = |worker| kept.contains(&worker);
                let got = control.revert(FlowGroup(first), kept, live, shadow, Nanos(now));
                return Ok(Step::compare(&next.map(FlowGroup), &got));
            }
            Line::SetWorkers { active } => control.set_workers(&active),
            Line::WorkerGone { worker } => control.worker_gone(worker),
            Line::SetPolicy(saved) => control.set_policy(saved.restore(live.len())?),
            Line::Load { owners } => {
                let loaded = control.load(owners, live);
                return Ok(Step::compare(&Ok(()), &loaded));
            }
            Line::Pin { group, worker } => {
                let pinned = control.pin(FlowGroup(group), worker, live);
                return Ok(Step::compare(&Ok(()), &pinned));
            }
            Line::Unpin { group, found } => {
                return Ok(Step::compare(&found, &control.unpin(FlowGroup(group))));
            }
            Line::Propose { moves, places } => {
                let proposed = control.propose(&moves, &places, live);
                return Ok(Step::compare(&Ok(()), &proposed));
            }
            Line::Lease { until } => control.lease(Nanos(until)),
            Line::LeaseEnded => control.lease_ended(),
        }
        Ok(Step::Same)
    }
}
