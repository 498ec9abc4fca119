//! All that the control loop remembers at one moment, with its tables: where a replay begins.

use std::fmt;
use std::sync::Arc;

use base::{FlowGroup, Nanos, WorkerId};
use serde::{Deserialize, Serialize};

use super::runs;
use crate::control::{ControlConfig, Proposal};
use crate::number;
use crate::rewrite::Source;
use crate::sample::WorkerSample;
use crate::steer::SavedSteer;
use crate::table::Entry;

/// The first line of a recording. Made by [`crate::Control::start_recording`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    pub(crate) calisto_recording: u32,
    pub(crate) config: ControlConfig,
    pub(crate) policy: Option<SavedSteer>,
    /// Hashed groups; the entries of the tables behind them are virtual ones.
    pub(crate) groups: u32,
    #[serde(with = "number::workers")]
    pub(crate) active: Vec<WorkerId>,
    /// One for each worker id ever used.
    pub(crate) samples: Vec<WorkerSample>,
    #[serde(with = "number::workers")]
    pub(crate) gone: Vec<WorkerId>,
    pub(crate) pins: Vec<(u32, u16)>,
    pub(crate) pin_cursor: u32,
    pub(crate) wanted: Option<SavedSource>,
    #[serde(with = "number::nanos")]
    pub(crate) retry_at: Nanos,
    pub(crate) moves_in_flight: u32,
    pub(crate) publishing: bool,
    pub(crate) published: Option<SavedSource>,
    pub(crate) leaving_shared: bool,
    pub(crate) lease_until: Option<u64>,
    pub(crate) proposals: Vec<Proposal>,
    #[serde(with = "runs")]
    pub(crate) live: Vec<Entry>,
    /// Only while a table is being published: otherwise nobody reads it before it is written.
    #[serde(with = "runs")]
    pub(crate) shadow: Vec<Entry>,
    #[serde(with = "runs")]
    pub(crate) homes: Vec<Entry>,
}

/// Where the owners of a wanted table come from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SavedSource {
    Policy,
    Loaded(Owners),
}

/// A loaded table.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Owners(#[serde(with = "shared_runs")] Arc<Vec<Entry>>);

mod shared_runs {
    use serde::{Deserializer, Serializer};

    use super::{Arc, Entry, runs};

    pub(super) fn serialize<S: Serializer>(
        entries: &Arc<Vec<Entry>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        runs::serialize(entries, to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Arc<Vec<Entry>>, D::Error> {
        runs::deserialize(from).map(Arc::new)
    }
}

impl From<&Source> for SavedSource {
    fn from(source: &Source) -> Self {
        match source {
            Source::Policy => Self::Policy,
            Source::Loaded(owners) => Self::Loaded(Owners(Arc::clone(owners))),
        }
    }
}

impl From<SavedSource> for Source {
    fn from(saved: SavedSource) -> Self {
        match saved {
            SavedSource::Policy => Self::Policy,
            SavedSource::Loaded(Owners(owners)) => Self::Loaded(owners),
        }
    }
}

impl Snapshot {
    /// An empty one whose tables have memory for `entries` groups, touched already.
    pub(crate) fn with_room(entries: usize) -> Self {
        let room = || {
            let mut room = vec![Entry::UNOWNED; entries];
            room.clear();
            room
        };
        Self { live: room(), shadow: room(), homes: room(), ..Self::default() }
    }

    /// What is impossible in it, if anything: it may come from a file that anybody wrote.
    pub(crate) fn check(&self) -> Result<(), String> {
        let len = self.live.len();
        let limit = self.samples.len();
        let virtual_groups = len.checked_sub(self.groups as usize);
        let wrong = if self.calisto_recording != super::VERSION {
            return Err(format!(
                "version {} of a recording is not read here; this program reads {}",
                self.calisto_recording,
                super::VERSION
            ));
        } else if virtual_groups.is_none() {
            "fewer entries than groups"
        } else if self.homes.len() != len || ![0, len].contains(&self.shadow.len()) {
            "tables of different sizes"
        } else if self.publishing && self.shadow.is_empty() {
            "a table is being published and the one before it is missing"
        } else if limit > usize::from(WorkerId::LIMIT)
            || self.samples.iter().enumerate().any(|(id, sample)| sample.id.index() != id)
        {
            "the workers' samples are not one for each id"
        } else if self.active.iter().any(|worker| worker.index() >= limit) {
            "an active worker has no sample"
        } else if self.pins.len() > crate::PINS_MAX
            || !self.pins.is_sorted_by_key(|&(group, _)| group)
            || self.pins.windows(2).any(|pair| pair[0].0 == pair[1].0)
        {
            "the pins are not in ascending order"
        } else if self
            .pins
            .iter()
            .any(|&(group, worker)| group as usize >= len || worker >= WorkerId::LIMIT)
        {
            "a pin names a group or a worker that is not possible"
        } else if self.proposals.len() > crate::sample::GROUPS_PER_STEP {
            "more proposals than the loop keeps"
        } else {
            return Ok(());
        };
        Err(wrong.to_owned())
    }

    pub(crate) fn pins(&self) -> Vec<(FlowGroup, WorkerId)> {
        self.pins.iter().map(|&(group, worker)| (FlowGroup(group), WorkerId(worker))).collect()
    }
}

/// The loop cannot be recorded: this policy does not say what it remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unrecordable(pub &'static str);

impl fmt::Display for Unrecordable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the policy {} cannot be recorded: it does not say what it remembers; choose another \
             one with `calisto steer set`, or give it `Steer::save`",
            self.0
        )
    }
}

impl std::error::Error for Unrecordable {}
