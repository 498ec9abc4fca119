//! The core control's recording: what is noted of it, and its calls made again.

use base::Nanos;
use serde::Serialize;

use super::CoresSnapshot;
use super::event::{CoresEvent, What};
use super::line::{Assembly, Line};
use crate::cores::{CoresControl, CoresPlan, CoresSample};
use crate::record::{Recorded, Step};

/// What a replay of the core control has found to be the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CoresCounts {
    /// Ticks with the same plan, those that asked for nothing included.
    pub ticks: u64,
    /// Cores granted in all plans that were the same.
    pub grants: u64,
    /// Revocations in them.
    pub revokes: u64,
    /// Everything that happened between ticks.
    pub other_events: u64,
}

impl Recorded for CoresSnapshot {
    type Room = ();
    type Event = CoresEvent;
    type Assembly = Assembly;
    type Line = Line;
    type Again = Again;
    type Counts = CoresCounts;

    fn idle(ticks: u32, last: Nanos) -> CoresEvent {
        CoresEvent(What::Idle { ticks, last })
    }

    fn as_idle(event: &mut CoresEvent) -> Option<(&mut u32, &mut Nanos)> {
        match &mut event.0 {
            What::Idle { ticks, last } => Some((ticks, last)),
            _ => None,
        }
    }

    fn add(assembly: &mut Assembly, event: &CoresEvent) -> Option<Line> {
        assembly.add(event)
    }

    fn end(lost: u64) -> Line {
        Line::End { lost }
    }

    fn restore(self) -> Result<Again, String> {
        let control = CoresControl::restore(self)?;
        Ok(Again { control, plan: CoresPlan::default(), counts: CoresCounts::default() })
    }

    fn run(again: &mut Again, line: Line) -> Result<Step, String> {
        again.run(line)
    }

    fn counts(again: Again) -> CoresCounts {
        again.counts
    }
}

/// The core control.
pub struct Again {
    control: CoresControl,
    plan: CoresPlan,
    counts: CoresCounts,
}

impl Again {
    fn run(&mut self, call: Line) -> Result<Step, String> {
        let Self { control, plan, counts } = self;
        let is_tick = matches!(call, Line::Tick { .. } | Line::Idle { .. } | Line::End { .. });
        counts.other_events += u64::from(!is_tick);
        let expected = match call {
            Line::Tick { sample, plan: expected } => {
                control.tick(&sample, plan);
                counts.ticks += 1;
                expected
            }
            // Ticks that change nothing are all alike: one stands for all of them.
            Line::Idle { ticks, last } => {
                let sample = CoresSample { now: Nanos(last), ..CoresSample::default() };
                control.tick(&sample, plan);
                counts.ticks += u64::from(ticks);
                CoresPlan::default()
            }
            Line::RemoveApp { app, now, plan: expected } => {
                control.remove_app(app, Nanos(now), plan);
                expected
            }
            Line::Parked { worker, now, held: expected_held, plan: expected } => {
                let held = control.parked(worker, Nanos(now), plan);
                if held != expected_held {
                    let core = |held| if held { "a core" } else { "no core" }.to_owned();
                    return Ok(Step::Other(core(expected_held), core(held)));
                }
                expected
            }
            Line::WorkerGone { worker, now, plan: expected } => {
                control.worker_gone(worker, Nanos(now), plan);
                expected
            }
            Line::AddApp { terms, workers } => {
                control.add_app(terms, &workers).map_err(|refused| refused.to_string())?;
                return Ok(Step::Same);
            }
            Line::Prefer { worker } => {
                control.prefer(worker);
                return Ok(Step::Same);
            }
            Line::Rested { worker } => {
                control.rested(worker);
                return Ok(Step::Same);
            }
            Line::SetPolicy(saved) => {
                control.set_policy(saved.restore()?);
                return Ok(Step::Same);
            }
            Line::End { lost } => return Ok(Step::End(lost)),
        };
        let step = Step::compare(&expected, plan);
        if matches!(step, Step::Same) {
            counts.grants += plan.grants.len() as u64;
            counts.revokes += plan.revokes.len() as u64;
        }
        Ok(step)
    }
}
