//! Runs the core control again from a recording and compares every answer.

use std::fmt;
use std::io::BufRead;

use base::Nanos;
use serde::Serialize;

use super::CoresSnapshot;
use super::line::Line;
use crate::cores::{CoresControl, CoresPlan, CoresSample};
use crate::record::{Difference, Ending, ReplayError, next_line};

/// How much of a recording was run again, and whether every answer was the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CoresReplay {
    /// Ticks with the same plan, those that asked for nothing included.
    pub ticks: u64,
    /// Cores granted in all plans that were the same.
    pub grants: u64,
    /// Revocations in them.
    pub revokes: u64,
    /// Everything that happened between ticks.
    pub other_events: u64,
    /// The first answer that was not the same; nothing after it was run.
    pub difference: Option<Difference>,
    /// How the recording ends.
    pub ending: Ending,
}

impl CoresReplay {
    /// Whether all of a complete recording gave the same answers.
    pub fn is_same(&self) -> bool {
        self.difference.is_none() && self.ending == Ending::Complete
    }
}

impl fmt::Display for CoresReplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ticks, grants, revokes, other_events, difference, ending } = self;
        write!(
            f,
            "{ticks} ticks and {other_events} other events with {grants} grants and {revokes} \
             revocations are the same"
        )?;
        match (difference, ending) {
            (Some(Difference { line, expected, got }), _) => {
                write!(f, "; in line {line} {expected} was recorded, the replay gives {got}")
            }
            (None, Ending::Complete) => Ok(()),
            (None, Ending::Lost(lost)) => write!(
                f,
                "; {lost} events after that found no room in the recorder: record with larger \
                 buffers, or for a shorter time"
            ),
            (None, Ending::CutOff | Ending::NotReached) => f.write_str(
                "; the recording has no end: it was cut off while it was written or copied",
            ),
        }
    }
}

/// Runs the recording of these lines again. It stops at the first answer that differs, which is a
/// report and no error, and where the recording ends.
///
/// # Errors
/// The first line that is not of a recording or says what is not possible, and why.
pub fn replay(mut lines: impl BufRead) -> Result<CoresReplay, ReplayError> {
    let mut line = Vec::new();
    let mut number = 1;
    let damaged = |line, what: String| ReplayError { line, what };
    if !next_line(&mut lines, &mut line).map_err(|what| damaged(1, what))? {
        return Err(damaged(1, "the snapshot that a recording begins with is missing".into()));
    }
    let snapshot: CoresSnapshot =
        serde_json::from_slice(&line).map_err(|error| damaged(1, error.to_string()))?;
    let control = CoresControl::restore(snapshot).map_err(|what| damaged(1, what))?;
    let mut state =
        ReplayState { control, plan: CoresPlan::default(), report: CoresReplay::default() };
    loop {
        number += 1;
        if !next_line(&mut lines, &mut line).map_err(|what| damaged(number, what))? {
            return Ok(state.report);
        }
        let call = serde_json::from_slice(&line);
        let call = call.map_err(|error| damaged(number, error.to_string()))?;
        if let Line::End { lost } = call {
            state.report.ending = if lost == 0 { Ending::Complete } else { Ending::Lost(lost) };
            if next_line(&mut lines, &mut line).map_err(|what| damaged(number + 1, what))? {
                return Err(damaged(number + 1, "something follows the last line".to_owned()));
            }
            return Ok(state.report);
        }
        if let Err((expected, got)) = state.run(call).map_err(|what| damaged(number, what))? {
            state.report.difference = Some(Difference { line: number, expected, got });
            state.report.ending = Ending::NotReached;
            return Ok(state.report);
        }
    }
}

/// The same answer, or what was expected and what came.
type Compared = Result<(), (String, String)>;

struct ReplayState {
    control: CoresControl,
    plan: CoresPlan,
    report: CoresReplay,
}

impl ReplayState {
    fn run(&mut self, call: Line) -> Result<Compared, String> {
        let Self { control, plan, report } = self;
        report.other_events += u64::from(!matches!(call, Line::Tick { .. } | Line::Idle { .. }));
        let expected = match call {
            Line::Tick { sample, plan: expected } => {
                control.tick(&sample, plan);
                report.ticks += 1;
                expected
            }
            // Ticks that change nothing are all alike: one stands for all of them.
            Line::Idle { ticks, last } => {
                let sample = CoresSample { now: Nanos(last), ..CoresSample::default() };
                control.tick(&sample, plan);
                report.ticks += u64::from(ticks);
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
                    return Ok(Err((core(expected_held), core(held))));
                }
                expected
            }
            Line::WorkerGone { worker, now, plan: expected } => {
                control.worker_gone(worker, Nanos(now), plan);
                expected
            }
            Line::AddApp { terms, workers } => {
                control.add_app(terms, &workers).map_err(|refused| refused.to_string())?;
                return Ok(Ok(()));
            }
            Line::Prefer { worker } => {
                control.prefer(worker);
                return Ok(Ok(()));
            }
            Line::Rested { worker } => {
                control.rested(worker);
                return Ok(Ok(()));
            }
            Line::SetPolicy(saved) => {
                control.set_policy(saved.restore()?);
                return Ok(Ok(()));
            }
            Line::End { .. } => return Ok(Ok(())),
        };
        if expected != *plan {
            return Ok(Err((format!("{expected:?}"), format!("{plan:?}"))));
        }
        report.grants += plan.grants.len() as u64;
        report.revokes += plan.revokes.len() as u64;
        Ok(Ok(()))
    }
}
