//! Runs the control loop again from a recording and compares every answer.

use std::fmt::Debug;
use std::io::{BufRead, Read};

use base::{FlowGroup, Nanos};

use super::LINE_BYTES_MAX;
use super::event::Placed;
use super::line::{Line, PlacedLine};
use super::report::{Difference, Ending, ReplayError, ReplayReport};
use super::snapshot::Snapshot;
use crate::control::Control;
use crate::plan::Plan;
use crate::sample::{CoreSample, LoadSample};
use crate::table::{Entry, OwnerTable};

/// Characters of a sentence about a line, at most.
const SENTENCE_CHARS_MAX: usize = 300;

/// Runs the recording of these lines again. It stops at the first answer that differs, which is a
/// report and no error, and where the recording ends.
///
/// # Errors
/// The first line that is not of a recording or says what is not possible, and why.
pub fn replay(mut lines: impl BufRead) -> Result<ReplayReport, ReplayError> {
    let mut line = Vec::new();
    let mut number = 1;
    // What is wrong quotes the line, which is a stranger's.
    let damaged = |line, what: String| {
        let what = base::printable(&what, SENTENCE_CHARS_MAX);
        ReplayError { line, what }
    };
    if !next_line(&mut lines, &mut line).map_err(|what| damaged(number, what))? {
        return Err(damaged(number, "the snapshot that a recording begins with is missing".into()));
    }
    let snapshot: Snapshot =
        serde_json::from_slice(&line).map_err(|error| damaged(number, error.to_string()))?;
    let mut state = ReplayState::new(snapshot).map_err(|what| damaged(number, what))?;
    loop {
        number += 1;
        if !next_line(&mut lines, &mut line).map_err(|what| damaged(number, what))? {
            return Ok(state.report);
        }
        let call = serde_json::from_slice(&line);
        let call = call.map_err(|error| damaged(number, error.to_string()))?;
        match state.run(call).map_err(|what| damaged(number, what))? {
            Step::Same => {}
            Step::Other(expected, got) => {
                state.report.difference = Some(Difference { line: number, expected, got });
                state.report.ending = Ending::NotReached;
                return Ok(state.report);
            }
            Step::End(lost) => {
                state.report.ending = if lost == 0 { Ending::Complete } else { Ending::Lost(lost) };
                if next_line(&mut lines, &mut line).map_err(|what| damaged(number + 1, what))? {
                    return Err(damaged(number + 1, "something follows the last line".to_owned()));
                }
                return Ok(state.report);
            }
        }
    }
}

/// False at the end, and at a last line without an end of its own: it was cut off.
pub(crate) fn next_line(lines: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool, String> {
    line.clear();
    let mut bounded = lines.take(LINE_BYTES_MAX as u64);
    bounded.read_until(b'\n', line).map_err(|error| format!("it cannot be read: {error}"))?;
    if line.len() == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
        return Err(format!("it has more than {LINE_BYTES_MAX} bytes"));
    }
    Ok(line.last() == Some(&b'\n'))
}

/// What a call has come to.
enum Step {
    Same,
    /// Expected and got.
    Other(String, String),
    End(u64),
}

impl Step {
    fn compare<T: PartialEq + Debug>(expected: &T, got: &T) -> Self {
        if expected == got {
            return Self::Same;
        }
        Self::Other(format!("{expected:?}"), format!("{got:?}"))
    }
}

/// The loop and its tables.
struct ReplayState {
    control: Control,
    live: OwnerTable,
    shadow: OwnerTable,
    core: CoreSample,
    plan: Plan,
    report: ReplayReport,
}

impl ReplayState {
    fn new(snapshot: Snapshot) -> Result<Self, String> {
        let (control, live, shadow) = Control::restore(snapshot)?;
        let report = ReplayReport::default();
        let (core, plan) = (CoreSample::default(), Plan::default());
        Ok(Self { control, live, shadow, core, plan, report })
    }

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
        .inspect(|_| self.report.other_events += 1)
    }

    fn tick(&mut self, load: Option<&LoadSample>, expected: &Plan) -> Result<Step, String> {
        if let Some(load) = load
            && load.first.index() + load.groups.len() > self.live.len()
        {
            return Err("a load sample reaches beyond the table".to_owned());
        }
        let Self { control, live, shadow, core, plan, report } = self;
        control.tick(core, load, live, shadow, plan);
        let step = Step::compare(expected, plan);
        if matches!(step, Step::Same) {
            report.ticks += 1;
            report.plans += u64::from(*plan != Plan::default());
            report.moves += plan.moves.len() as u64;
            report.tables += u64::from(plan.publish);
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
        self.report.ticks += u64::from(ticks - 1);
        Ok(step)
    }

    fn place(&mut self, group: u32, found: Entry, placed: PlacedLine, now: Nanos) -> Step {
        let group = FlowGroup(group);
        let here = self.live.entry(group);
        if here != found {
            return Step::compare(&found, &here);
        }
        let Self { control, live, shadow, report, .. } = self;
        let got = Placed::from(control.place(group, live, shadow, now)).into();
        report.placements += u64::from(placed == got);
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
