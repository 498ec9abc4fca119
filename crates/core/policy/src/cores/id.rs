//! Applications and cores by number.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// A set of workers that is given cores together: an attached process, a batch job, or the data
/// plane's own workers. Whoever attaches it chooses the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct AppId(pub u16);

impl AppId {
    /// Ids are smaller than this.
    pub const LIMIT: u16 = 4096;

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl<'de> Deserialize<'de> for AppId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let id = u16::deserialize(from)?;
        if id < Self::LIMIT {
            return Ok(Self(id));
        }
        Err(serde::de::Error::custom(format_args!(
            "application {id} is not possible: ids end at {}",
            Self::LIMIT - 1
        )))
    }
}

impl fmt::Display for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

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
