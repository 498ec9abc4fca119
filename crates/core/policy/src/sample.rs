//! What the shell has measured: the only eyes of a policy.
//!
//! Plain data with a serialised form of one line, so that a live daemon can record samples, an
//! outside controller can watch them and a simulator can replay them.

use base::{FlowGroup, Nanos, WorkerId};
use serde::{Deserialize, Serialize};

use crate::number;

/// The active workers at one control tick.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoreSample {
    /// When it was taken.
    #[serde(with = "number::nanos")]
    pub now: Nanos,
    /// Active workers only, by ascending id.
    pub workers: Vec<WorkerSample>,
}

/// One active worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSample {
    /// Which.
    #[serde(with = "number::worker")]
    pub id: WorkerId,
    /// Packets in its ring.
    pub queued: u32,
    /// How long the oldest of them has waited, at least.
    #[serde(with = "number::nanos")]
    pub delay: Nanos,
}

/// The load of some consecutive groups since they were looked at last: a slice of the table, so
/// that no step is long. At most [`GROUPS_PER_STEP`] groups.
///
/// Serialised, equal neighbours are one run `[groups, packets, idle]`, with `null` for a group that
/// never had a packet: most groups of a slice are silent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Runs", try_from = "Runs")]
pub struct LoadSample {
    /// When it was taken.
    pub now: Nanos,
    /// The first group of the slice.
    pub first: FlowGroup,
    /// One entry for each group from `first` on.
    pub groups: Vec<GroupLoad>,
}

/// One group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupLoad {
    /// Packets since the last look.
    pub packets: u32,
    /// Time since the last packet; [`Nanos::FAR_FUTURE`] when there never was one.
    pub idle: Nanos,
}

/// Groups that one control step touches at most: a step of 4096 costs 10 to 30 us, so the data
/// loop is never away from its queues for longer than that.
pub const GROUPS_PER_STEP: usize = 4096;

/// The serialised form of a [`LoadSample`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Runs {
    #[serde(with = "number::nanos")]
    now: Nanos,
    first: u32,
    runs: Vec<(u32, u32, Option<u64>)>,
}

impl From<LoadSample> for Runs {
    fn from(sample: LoadSample) -> Self {
        let runs = sample.groups.chunk_by(|one, next| one == next).map(|run| {
            let GroupLoad { packets, idle } = run[0];
            (run.len() as u32, packets, (idle != Nanos::FAR_FUTURE).then_some(idle.0))
        });
        Self { now: sample.now, first: sample.first.0, runs: runs.collect() }
    }
}

impl TryFrom<Runs> for LoadSample {
    type Error = String;

    fn try_from(runs: Runs) -> Result<Self, String> {
        let mut groups = Vec::new();
        for (count, packets, idle) in runs.runs {
            let idle = idle.map_or(Nanos::FAR_FUTURE, Nanos);
            let len = groups.len() + count as usize;
            if len > GROUPS_PER_STEP {
                return Err(format!("a load sample has at most {GROUPS_PER_STEP} groups"));
            }
            groups.resize(len, GroupLoad { packets, idle });
        }
        Ok(Self { now: runs.now, first: FlowGroup(runs.first), groups })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn silent_groups_are_one_run_of_the_line() {
        let silent = GroupLoad { packets: 0, idle: Nanos::FAR_FUTURE };
        let mut groups = vec![silent; 4095];
        groups.push(GroupLoad { packets: 7, idle: Nanos::ZERO });
        let sample = LoadSample { now: Nanos(5), first: FlowGroup(4096), groups };
        let line = serde_json::to_string(&sample).expect("plain data");
        assert_eq!(line, r#"{"now":5,"first":4096,"runs":[[4095,0,null],[1,7,0]]}"#);
        let long = line.replace("[1,7,0]", "[2,7,0]");
        let refused = serde_json::from_str::<LoadSample>(&long).expect_err("too long").to_string();
        assert!(refused.contains("at most 4096 groups"), "{refused}");
    }

    #[test]
    fn a_worker_that_is_not_possible_is_refused_with_the_last_one_that_is() {
        let line = r#"{"now":1,"workers":[{"id":20000,"queued":0,"delay":0}]}"#;
        let refused = serde_json::from_str::<CoreSample>(line).expect_err("no such id").to_string();
        assert!(refused.contains("ids end at 16382"), "{refused}");
    }

    proptest! {
        #[test]
        fn a_load_sample_survives_its_line(
            loads in proptest::collection::vec((0..3_u32, 0..3_u64), 0..60),
        ) {
            let load = |(packets, idle)| {
                let idle = if idle == 2 { Nanos::FAR_FUTURE } else { Nanos(idle) };
                GroupLoad { packets, idle }
            };
            let groups = loads.into_iter().map(load).collect();
            let sample = LoadSample { now: Nanos(9), first: FlowGroup(3), groups };
            let line = serde_json::to_string(&sample).expect("plain data");
            prop_assert_eq!(serde_json::from_str::<LoadSample>(&line).expect("just written"), sample);
        }
    }
}
