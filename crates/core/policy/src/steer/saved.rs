//! All that a policy remembers, as data: a recording begins with it.
//!
//! A rewrite under way begins anew when a recording starts, so quotas are not among it.

use serde::{Deserialize, Serialize};

use super::{
    Steer, Turn, balanced, calisto, historic, hybrid, least_loaded, modulo, prefilled, shared,
    sticky,
};

/// A policy with all that it remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SavedSteer(Saved);

/// By policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Saved {
    Modulo,
    /// Whose turn it is.
    Calisto(Turn),
    /// Packets seen, by group.
    Hybrid(Vec<u8>),
    Prefilled,
    /// Whose turn it is.
    Sticky(Turn),
    Balanced(balanced::Figures),
    /// The state of the lottery.
    LeastLoaded(u64),
    Shared,
    /// Whose turn it is.
    Listing3(usize),
    PublicCode,
}

impl From<Saved> for SavedSteer {
    fn from(saved: Saved) -> Self {
        Self(saved)
    }
}

impl SavedSteer {
    /// The policy, for a table of `groups` groups; what is not possible comes back as a sentence.
    pub(crate) fn restore(self, groups: usize) -> Result<Box<dyn Steer>, String> {
        Ok(match self.0 {
            Saved::Modulo => Box::new(modulo::Modulo),
            Saved::Calisto(turn) => Box::new(calisto::Calisto::from(turn)),
            Saved::Hybrid(packets) if packets.len() == groups => {
                Box::new(hybrid::Hybrid::restore(packets))
            }
            Saved::Hybrid(packets) => {
                return Err(format!("hybrid counts {} groups of {groups}", packets.len()));
            }
            Saved::Prefilled => Box::new(prefilled::Prefilled::default()),
            Saved::Sticky(turn) => Box::new(sticky::Sticky::from(turn)),
            Saved::Balanced(figures) if figures.are_possible() => {
                Box::new(balanced::Balanced::from(figures))
            }
            Saved::Balanced(_) => return Err("the figures of balanced are not possible".to_owned()),
            Saved::LeastLoaded(lots) => Box::new(least_loaded::LeastLoaded::restore(lots)),
            Saved::Shared => Box::new(shared::Shared),
            Saved::Listing3(next) => Box::new(historic::Listing3::from(next)),
            Saved::PublicCode => Box::new(historic::PublicCode),
        })
    }
}
