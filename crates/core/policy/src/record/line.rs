//! A line of a recording: one call of the control loop, with its lists and its answer.

use base::{FlowGroup, Nanos, WorkerId};
use serde::{Deserialize, Serialize};

use super::event::{Event, Placed, What};
use super::runs;
use crate::control::Place;
use crate::number;
use crate::plan::{Move, Plan};
use crate::sample::{LoadSample, WorkerSample};
use crate::steer::SavedSteer;
use crate::table::Entry;

/// One call. The names are those of [`crate::Control`]'s methods.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Line {
    Tick {
        now: u64,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sampled: Vec<WorkerSample>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        load: Option<LoadSample>,
        #[serde(default, skip_serializing_if = "is_empty")]
        plan: Plan,
    },
    Idle {
        ticks: u32,
        last: u64,
    },
    Place {
        group: u32,
        found: u16,
        now: u64,
        placed: PlacedLine,
    },
    Assign {
        group: u32,
        #[serde(with = "number::worker")]
        owner: WorkerId,
    },
    Disown {
        group: u32,
    },
    Write {
        group: u32,
        entry: u16,
    },
    Moved(Move),
    Aborted {
        undone: Move,
        now: u64,
    },
    Refused(Move),
    EpochFinished,
    Revert {
        first: u32,
        now: u64,
        #[serde(default, skip_serializing_if = "Vec::is_empty", with = "number::workers")]
        kept: Vec<WorkerId>,
        next: Option<u32>,
    },
    SetWorkers {
        #[serde(with = "number::workers")]
        active: Vec<WorkerId>,
    },
    WorkerGone {
        #[serde(with = "number::worker")]
        worker: WorkerId,
    },
    SetPolicy(SavedSteer),
    Load {
        #[serde(with = "runs")]
        owners: Vec<Entry>,
    },
    Pin {
        group: u32,
        #[serde(with = "number::worker")]
        worker: WorkerId,
    },
    Unpin {
        group: u32,
        found: bool,
    },
    Propose {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        moves: Vec<Move>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        places: Vec<Place>,
    },
    Lease {
        until: u64,
    },
    LeaseEnded,
    /// The last line: how many events found no room after the line before.
    End {
        lost: u64,
    },
}

fn is_empty(plan: &Plan) -> bool {
    *plan == Plan::default()
}

/// Where a packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlacedLine {
    Nowhere,
    Now(u16),
    Move(u16, u16),
}

impl From<Placed> for PlacedLine {
    fn from(placed: Placed) -> Self {
        match placed {
            Placed::Nowhere => Self::Nowhere,
            Placed::Now(worker) => Self::Now(worker.0),
            Placed::Move { from, to } => Self::Move(from.0, to.0),
        }
    }
}

/// Puts items and calls together.
#[derive(Debug, Default)]
pub struct Assembly {
    sampled: Vec<WorkerSample>,
    load: Option<LoadSample>,
    moves: Vec<Move>,
    places: Vec<Place>,
    named: Vec<WorkerId>,
}

impl Assembly {
    /// The line that this event completes.
    pub(super) fn add(&mut self, event: &Event) -> Option<Line> {
        use std::mem::take;
        Some(match &event.0 {
            &What::Sampled(sample) => {
                self.sampled.push(sample);
                return None;
            }
            &What::Load0 { now, first } => {
                self.load = Some(LoadSample { now, first, groups: Vec::new() });
                return None;
            }
            &What::Loads { count, load } => {
                if let Some(sample) = &mut self.load {
                    sample.groups.resize(sample.groups.len() + count as usize, load);
                }
                return None;
            }
            &What::Asked(asked) => {
                self.moves.push(asked);
                return None;
            }
            &What::Put(place) => {
                self.places.push(place);
                return None;
            }
            &What::Named(worker) => {
                self.named.push(worker);
                return None;
            }
            &What::Tick { now, publish, fence } => Line::Tick {
                now: now.0,
                sampled: take(&mut self.sampled),
                load: self.load.take(),
                plan: Plan { moves: take(&mut self.moves), publish, fence },
            },
            &What::Idle { ticks, last } => Line::Idle { ticks, last: last.0 },
            &What::Place { group, found, placed, now } => Line::Place {
                group: group.0,
                found: found.bits(),
                now: now.0,
                placed: placed.into(),
            },
            &What::Assign { group, owner } => Line::Assign { group: group.0, owner },
            &What::Disown(group) => Line::Disown { group: group.0 },
            &What::Write { group, entry } => Line::Write { group: group.0, entry: entry.bits() },
            &What::Moved(done) => Line::Moved(done),
            &What::Aborted { undone, now: Nanos(now) } => Line::Aborted { undone, now },
            &What::Refused(undone) => Line::Refused(undone),
            What::EpochFinished => Line::EpochFinished,
            &What::Revert { first, now, next } => Line::Revert {
                first: first.0,
                now: now.0,
                kept: take(&mut self.named),
                next: next.map(|FlowGroup(next)| next),
            },
            What::SetWorkers => Line::SetWorkers { active: take(&mut self.named) },
            &What::WorkerGone(worker) => Line::WorkerGone { worker },
            What::SetPolicy(saved) => Line::SetPolicy(SavedSteer::clone(saved)),
            What::Load(owners) => Line::Load { owners: owners.to_vec() },
            &What::Pin { group, worker } => Line::Pin { group: group.0, worker },
            &What::Unpin { group, found } => Line::Unpin { group: group.0, found },
            What::Propose => {
                Line::Propose { moves: take(&mut self.moves), places: take(&mut self.places) }
            }
            &What::Lease(until) => Line::Lease { until: until.0 },
            What::LeaseEnded => Line::LeaseEnded,
            // The recorder keeps none.
            What::Unknown => return None,
        })
    }
}
