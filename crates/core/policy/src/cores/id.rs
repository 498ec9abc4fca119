//! Cores by number, and which numbers applications may have.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Applications' numbers in the core control are smaller than this.
pub const APP_LIMIT: u16 = 4096;

/// A CPU, by the kernel's number.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct CoreId(pub u16);

impl CoreId {
    /// This many cores are given out at once, at most.
    pub const COUNT_MAX: usize = 4096;
}

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
