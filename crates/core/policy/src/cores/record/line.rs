//! A line of a recording: one call of the core control, with its lists and its answer.

use base::{AppId, WorkerId};
use serde::{Deserialize, Serialize};

use super::event::{CoresEvent, Part, What};
use crate::cores::{AppTerms, CoresPlan, CoresSample, SavedAllocate};
use crate::number;

/// One call. The names are those of [`crate::cores::CoresControl`]'s methods.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Line {
    Tick {
        sample: CoresSample,
        #[serde(default, skip_serializing_if = "CoresPlan::is_empty")]
        plan: CoresPlan,
    },
    Idle {
        ticks: u32,
        last: u64,
    },
    AddApp {
        terms: AppTerms,
        #[serde(with = "number::workers")]
        workers: Vec<WorkerId>,
    },
    RemoveApp {
        #[serde(with = "number::app")]
        app: AppId,
        now: u64,
        #[serde(default, skip_serializing_if = "CoresPlan::is_empty")]
        plan: CoresPlan,
    },
    Parked {
        #[serde(with = "number::worker")]
        worker: WorkerId,
        now: u64,
        held: bool,
        #[serde(default, skip_serializing_if = "CoresPlan::is_empty")]
        plan: CoresPlan,
    },
    WorkerGone {
        #[serde(with = "number::worker")]
        worker: WorkerId,
        now: u64,
        #[serde(default, skip_serializing_if = "CoresPlan::is_empty")]
        plan: CoresPlan,
    },
    Prefer {
        #[serde(with = "number::worker")]
        worker: WorkerId,
    },
    Rested {
        #[serde(with = "number::worker")]
        worker: WorkerId,
    },
    SetPolicy(SavedAllocate),
    /// The last line: how many events found no room after the line before.
    End {
        lost: u64,
    },
}

/// Puts items and calls together.
#[derive(Debug, Default)]
pub struct Assembly {
    sample: CoresSample,
    plan: CoresPlan,
    named: Vec<WorkerId>,
    held: bool,
}

impl Assembly {
    /// The line that this event completes.
    pub(super) fn add(&mut self, event: &CoresEvent) -> Option<Line> {
        use std::mem::take;
        let Self { sample, plan, named, held } = self;
        Some(match &event.0 {
            &What::Busy(busy) => {
                sample.busy.push(busy);
                return None;
            }
            &What::Waiting(app) => {
                sample.waiting.push(app);
                return None;
            }
            &What::Named(worker) => {
                named.push(worker);
                return None;
            }
            &What::Hold(part, hold) => {
                let list = match part {
                    Part::Grants => &mut plan.grants,
                    Part::Parks => &mut plan.parks,
                    Part::Revokes => &mut plan.revokes,
                    Part::Takes => &mut plan.takes,
                };
                list.push(hold);
                return None;
            }
            &What::Rest(worker) => {
                plan.rests.push(worker);
                return None;
            }
            What::Parked => {
                *held = true;
                return None;
            }
            &What::Tick { now, cost } => {
                Line::Tick { sample: CoresSample { now, cost, ..take(sample) }, plan: take(plan) }
            }
            &What::Idle { ticks, last } => Line::Idle { ticks, last: last.0 },
            &What::AddApp(terms) => Line::AddApp { terms, workers: take(named) },
            &What::RemoveApp(app, now) => Line::RemoveApp { app, now: now.0, plan: take(plan) },
            &What::WorkerParked(worker, now) => {
                Line::Parked { worker, now: now.0, held: take(held), plan: take(plan) }
            }
            &What::WorkerGone(worker, now) => {
                Line::WorkerGone { worker, now: now.0, plan: take(plan) }
            }
            &What::Prefer(worker) => Line::Prefer { worker },
            &What::Rested(worker) => Line::Rested { worker },
            What::SetPolicy(saved) => Line::SetPolicy(SavedAllocate::clone(saved)),
        })
    }
}
