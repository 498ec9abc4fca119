//! All that a policy remembers, as data: a recording begins with it.

use base::{AppId, WorkerId};
use serde::{Deserialize, Serialize};

use super::{Allocate, packing, queue_delay, static_set, utilisation};
use crate::number;

/// A policy with all that it remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SavedAllocate(Saved);

/// By policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Saved {
    /// Worker, and where its queues of packets and tasks ended.
    QueueDelay(Vec<(u16, u32, u32)>),
    Packing(packing::Figures),
    Utilisation(utilisation::Figures),
    StaticSet {
        #[serde(with = "number::apps")]
        filling: Vec<AppId>,
        has_begun: bool,
    },
}

impl From<Saved> for SavedAllocate {
    fn from(saved: Saved) -> Self {
        Self(saved)
    }
}

impl SavedAllocate {
    /// The policy; what is not possible comes back as a sentence.
    pub(super) fn restore(&self) -> Result<Box<dyn Allocate>, String> {
        let check = |worker: u16| {
            let possible = worker < WorkerId::LIMIT;
            possible.then_some(()).ok_or_else(|| format!("worker {worker} is not possible"))
        };
        Ok(match &self.0 {
            Saved::QueueDelay(ends) => {
                ends.iter().try_for_each(|&(worker, _, _)| check(worker))?;
                Box::new(queue_delay::QueueDelay::restore(ends))
            }
            Saved::Packing(figures) => {
                figures.workers().try_for_each(check)?;
                Box::new(packing::Packing::restore(figures))
            }
            Saved::Utilisation(figures) => {
                figures.workers().try_for_each(check)?;
                Box::new(utilisation::Utilisation::restore(figures))
            }
            Saved::StaticSet { filling, has_begun } => {
                Box::new(static_set::StaticSet::restore(filling.clone(), *has_begun))
            }
        })
    }
}
