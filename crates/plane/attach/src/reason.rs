//! Why an application is no longer attached.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why an application is no longer attached; as a word in messages, as a number in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DetachReason {
    /// It did not take its packets, or held a hand-over up.
    Stalled,
    /// What it wrote into the shared memory cannot be.
    #[serde(rename = "lied")]
    Violation,
    /// It sent something that is no message of the protocol.
    Protocol,
    /// An operator asked for it.
    Operator,
    /// The daemon ends.
    Stopping,
    /// The application has left by itself.
    Left,
    /// A worker on granted cores named a thread that is not its process's, or has lost its thread.
    StrayThread,
    /// The daemon is gone without a word: it was killed or has crashed. Never sent.
    DaemonGone,
    /// The application found its shared memory damaged, most likely by itself. Never sent.
    Damaged,
    /// One that this version does not know.
    #[serde(other)]
    Other,
}

/// In the order of their numbers, which begin with 1: zero means attached.
const ALL: [DetachReason; 10] = [
    DetachReason::Stalled,
    DetachReason::Violation,
    DetachReason::Protocol,
    DetachReason::Operator,
    DetachReason::Stopping,
    DetachReason::Left,
    DetachReason::StrayThread,
    DetachReason::DaemonGone,
    DetachReason::Damaged,
    DetachReason::Other,
];

impl DetachReason {
    /// The number that the daemon writes into the state word of the shared memory; never zero.
    pub const fn number(self) -> u32 {
        self as u32 + 1
    }

    /// The reason of a state word; `None` for zero, which means attached.
    pub fn from_number(number: u32) -> Option<Self> {
        let index = number.checked_sub(1)? as usize;
        Some(ALL.get(index).copied().unwrap_or(Self::Other))
    }

    /// A clause for people: what happened.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Stalled => "the application did not take its packets in time",
            Self::Violation => "the application wrote something impossible into the shared memory",
            Self::Protocol => "the application sent a message that it must not send",
            Self::Operator => "an operator has detached the application",
            Self::Stopping => "the daemon is ending",
            Self::Left => "the application has left",
            Self::StrayThread => {
                "a worker named a thread that is not its own, or has lost its thread"
            }
            Self::DaemonGone => "the daemon is gone without a word; it may be back soon",
            Self::Damaged => "the shared memory is damaged: attach anew",
            Self::Other => "the daemon gave a reason that this program does not know",
        }
    }
}

impl fmt::Display for DetachReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_number_and_zero_is_none() {
        assert_eq!(DetachReason::from_number(0), None);
        for (index, reason) in ALL.into_iter().enumerate() {
            assert_eq!(reason.number() as usize, index + 1);
            assert_eq!(DetachReason::from_number(reason.number()), Some(reason));
        }
        assert_eq!(DetachReason::from_number(u32::MAX), Some(DetachReason::Other));
    }
}
