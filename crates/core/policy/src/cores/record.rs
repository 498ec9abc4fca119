//! Recordings of the core control: every input in order with its answer, written while it runs and
//! replayed later, where every answer must be the same.
//!
//! As in [`crate::record`]: the data loop only copies small values into memory that is there
//! already; another thread takes full buffers and writes them as lines of JSON. The first line is a
//! [`CoresSnapshot`], so that a recording can begin at any moment; the last one says that nothing
//! is missing.
//!
//! [`CoresSnapshot`]: crate::cores::record::CoresSnapshot
//!
//! ```text
//! {"calisto_cores_recording":1,"policy":{"queue_delay":[]},"table":{...}, ...}
//! {"tick":{"sample":{"now":5000,"cost":300,"waiting":[1]},"plan":{"grants":[{"worker":0,"core":1}]}}}
//! {"parked":{"worker":0,"now":81000,"held":true}}
//! {"idle":{"ticks":412,"last":2081000}}
//! {"end":{"lost":0}}
//! ```

mod again;
mod event;
mod line;

use std::io::BufRead;

use base::AppId;
use serde::{Deserialize, Serialize};

use super::app::AppTerms;
use super::asks::Asks;
use super::control::{CoresConfig, CoresControl};
use super::interval::Interval;
use super::plan::CoresPlan;
use super::sample::CoresSample;
use super::table::{SavedTable, Table};
use super::{Allocate, SavedAllocate};
use crate::number;
use crate::record::{Recorder, ReplayError, ReplayReport, replay_of};

pub use again::CoresCounts;
pub use event::CoresEvent;
pub(super) use event::What;

/// The version of the form that this crate writes and reads.
pub const VERSION: u32 = 1;

/// All that the core control remembers at one moment: where a replay begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoresSnapshot {
    calisto_cores_recording: u32,
    config: CoresConfig,
    policy: SavedAllocate,
    table: SavedTable,
    interval: Interval,
    tick: u64,
    #[serde(with = "number::apps")]
    unserved: Vec<AppId>,
}

/// Runs the core control again from the lines of its recording. It stops at the first answer that
/// differs, which is a report and no error, and where the recording ends.
///
/// # Errors
/// The first line that is not of a recording or says what is not possible, and why.
pub fn replay(lines: impl BufRead) -> Result<ReplayReport<CoresCounts>, ReplayError> {
    replay_of::<CoresSnapshot>(lines)
}

impl CoresControl {
    /// Everything from now on is noted, after the returned snapshot: `buffers` buffers of `events`
    /// events, 48 bytes each. A tick is an event, and one for each worker that holds a core. A
    /// recording that is under way is dropped. Not for the data loop: memory is made here.
    pub fn start_recording(&mut self, buffers: usize, events: usize) -> CoresSnapshot {
        let snapshot = CoresSnapshot {
            calisto_cores_recording: VERSION,
            config: self.config,
            policy: self.policy.save(),
            table: self.table.save(),
            interval: self.interval,
            tick: self.asks.tick,
            unserved: self.unserved.clone(),
        };
        self.recorder = Some(Box::new(Recorder::with_room((), buffers, events)));
        snapshot
    }

    /// The recorder in use, to take full buffers from and give empty ones to.
    pub fn recorder(&mut self) -> Option<&mut Recorder<CoresSnapshot>> {
        self.recorder.as_deref_mut()
    }

    /// Ends the recording; what is left in the recorder is for the writer.
    pub fn stop_recording(&mut self) -> Option<Box<Recorder<CoresSnapshot>>> {
        self.recorder.take()
    }

    /// The control as the snapshot has it; what is impossible in it comes back as a sentence.
    fn restore(snapshot: CoresSnapshot) -> Result<Self, String> {
        if snapshot.calisto_cores_recording != VERSION {
            return Err(format!(
                "version {} of a recording is not read here; this program reads {VERSION}",
                snapshot.calisto_cores_recording
            ));
        }
        let mut policy = snapshot.policy.restore()?;
        let table = Table::restore(snapshot.table)?;
        let (workers, apps) = table.limits();
        policy.make_room(workers, apps);
        let asks = Asks::after(snapshot.tick);
        let mut control = Self {
            config: snapshot.config,
            policy,
            table,
            asks,
            interval: snapshot.interval,
            unserved: snapshot.unserved,
            left: Vec::new(),
            recorder: None,
        };
        control.make_room();
        Ok(control)
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> What) {
        if let Some(recorder) = &mut self.recorder {
            recorder.push(CoresEvent(what()));
        }
    }

    pub(super) fn note_plan(&mut self, plan: &CoresPlan) {
        let Some(recorder) = &mut self.recorder else { return };
        let CoresPlan { grants, parks, revokes, takes, rests } = plan;
        let lists = [grants, parks, revokes, takes].into_iter().zip(event::Part::ALL);
        for (hold, part) in lists.flat_map(|(list, part)| list.iter().map(move |&h| (h, part))) {
            recorder.push(CoresEvent(What::Hold(part, hold)));
        }
        for &worker in rests {
            recorder.push(CoresEvent(What::Rest(worker)));
        }
    }

    /// A tick whose sample has nothing, in which nobody asks and nothing is asked for.
    pub(super) fn note_tick(&mut self, sample: &CoresSample, plan: &CoresPlan) {
        let is_quiet = self.asks.more.is_empty() && self.asks.fewer.is_empty();
        let Some(recorder) = &mut self.recorder else { return };
        if sample.busy.is_empty() && sample.waiting.is_empty() && plan.is_empty() && is_quiet {
            recorder.push_idle(sample.now);
            return;
        }
        for &busy in &sample.busy {
            recorder.push(CoresEvent(What::Busy(busy)));
        }
        for &app in &sample.waiting {
            recorder.push(CoresEvent(What::Waiting(app)));
        }
        self.note_plan(plan);
        self.note(|| What::Tick { now: sample.now, cost: sample.cost });
    }

    pub(super) fn note_app(&mut self, terms: AppTerms, workers: &[base::WorkerId]) {
        for &worker in workers {
            self.note(|| What::Named(worker));
        }
        self.note(|| What::AddApp(terms));
    }

    pub(super) fn note_policy(&mut self, policy: &dyn Allocate) {
        self.note(|| What::SetPolicy(Box::new(policy.save())));
    }
}
