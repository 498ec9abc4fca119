//! What an outside controller sees of a control loop.

use serde::{Deserialize, Serialize};

/// One look at the loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// When, in nanoseconds of the daemon's monotonic clock.
    pub now_ns: u64,
    /// The policy in force.
    pub policy: String,
    /// Flow groups.
    pub groups: u32,
    /// Tables published so far.
    pub epoch: u32,
    /// Whether nothing is on its way.
    pub settled: bool,
    /// What is left of the lease in force; absent: the policy decides alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_left_ms: Option<u32>,
    /// Proposals that wait to be carried out.
    pub proposals: u32,
    /// Proposals dropped so far because the world had changed when their turn came.
    pub proposals_stale: u64,
    /// The active workers, by ascending id.
    pub workers: Vec<WorkerLoad>,
    /// Slices of the groups that were measured since the last sample, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<LoadSlice>,
    /// Slices measured since the last sample that are not in `load`: ask more often, or read
    /// faster.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slices_skipped: u32,
}

/// One worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerLoad {
    /// Its id.
    pub id: u16,
    /// Packets in its ring.
    pub queued: u32,
    /// How long the oldest of them has waited, at least.
    pub delay_ns: u64,
    /// Groups that it owns.
    pub groups: u32,
    /// Packets processed.
    pub packets: u64,
}

/// Some consecutive groups: who owns them, and what they have sent since they were looked at last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadSlice {
    /// The first of them.
    pub first: u32,
    /// Equal neighbours together.
    pub runs: Vec<LoadRun>,
}

/// Equal neighbours, written `[groups, packets, idle_ns, worker]`: how many groups, packets of each
/// since the last look, nanoseconds since its last packet (`null`: there never was one), and its
/// owner (`null`: nobody).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadRun(pub u32, pub u32, pub Option<u64>, pub Option<u16>);

impl LoadSlice {
    /// A slice of these groups, each `(packets, idle_ns, worker)`.
    pub fn new(
        first: u32,
        groups: impl IntoIterator<Item = (u32, Option<u64>, Option<u16>)>,
    ) -> Self {
        let mut runs: Vec<LoadRun> = Vec::new();
        for (packets, idle, worker) in groups {
            match runs.last_mut() {
                Some(run) if (run.1, run.2, run.3) == (packets, idle, worker) => run.0 += 1,
                _ => runs.push(LoadRun(1, packets, idle, worker)),
            }
        }
        Self { first, runs }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_neighbours_are_one_run() {
        let silent = (0, None, None);
        let slice = LoadSlice::new(8, [silent, silent, (3, Some(0), Some(1)), silent]);
        let line = crate::encode(&slice).expect("plain data");
        let runs = r#"[[2,0,null,null],[1,3,0,1],[1,0,null,null]]"#;
        assert_eq!(line.trim(), format!(r#"{{"first":8,"runs":{runs}}}"#));
    }
}
