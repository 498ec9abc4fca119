//! The settings of a replay, checked before anything is read.

use std::ops::RangeInclusive;

use policy::OwnerTable;
use policy::steer::{self, SteerConfig};

use crate::Error;

/// Workers at once, at most: as many as a dispatcher has ids for.
pub(crate) const WORKERS_MAX: u16 = 64;

/// Beyond these, a turn of the loop is longer than the data path waits for a worker.
const SPEEDS: RangeInclusive<f64> = 0.001..=100.0;

/// How fast a capture is played.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Pace {
    /// As fast as it goes.
    #[default]
    Fast,
    /// Each packet when it is due, the capture's time passing this many times as fast as it did.
    Recorded {
        /// 1: as it was captured.
        speed: f64,
    },
}

/// The settings of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The steering policy.
    pub policy: String,
    /// How many workers, one number for each equal part of the file.
    pub workers: Vec<u16>,
    /// Flow groups: a power of two.
    pub groups: u32,
    /// Decides the hash key, the lots that policies draw, and when which worker is slow.
    pub seed: u64,
    /// Flows that the report names.
    pub top: usize,
    /// Flows that are told apart, at most.
    pub flows_max: usize,
    /// Whether packets with a wrong checksum are dropped, as from a link that is not trusted.
    pub check_checksums: bool,
    /// How fast it is played.
    pub pace: Pace,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: "sticky".to_owned(),
            workers: vec![4],
            groups: 1 << 16,
            seed: 1,
            top: 10,
            flows_max: 1 << 20,
            check_checksums: false,
            pace: Pace::Fast,
        }
    }
}

impl Options {
    /// Whether they make sense.
    ///
    /// # Errors
    /// A sentence that names the one that does not.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |sentence: String| Err(Error::Setting(sentence));
        if self.workers.is_empty()
            || self.workers.iter().any(|count| !(1..=WORKERS_MAX).contains(count))
        {
            return wrong(format!("--workers: each number of workers is from 1 to {WORKERS_MAX}"));
        }
        let (least, most) = (OwnerTable::GROUPS_MIN, OwnerTable::GROUPS_MAX);
        if !self.groups.is_power_of_two() || !(least..=most).contains(&self.groups) {
            let groups = self.groups;
            return wrong(format!("--groups {groups}: choose a power of two, {least} to {most}"));
        }
        if let Pace::Recorded { speed } = self.pace
            && !SPEEDS.contains(&speed)
        {
            let (least, most) = (SPEEDS.start(), SPEEDS.end());
            return wrong(format!(
                "--speed {speed}: choose a factor from {least} to {most}, or no --real-time"
            ));
        }
        // Entries of the table of flows are numbered with 32 bits.
        if u32::try_from(self.flows_max).is_err() {
            return wrong(format!("--flows-max {}: choose less than 4294967296", self.flows_max));
        }
        steer::by_name(&self.policy, SteerConfig { groups: 1, seed: 0 })
            .map(|_| ())
            .map_err(|unknown| Error::Setting(unknown.to_string()))
    }
}
