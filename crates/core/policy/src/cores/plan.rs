//! What the shell is asked to do about cores. Cleared and reused; nothing here performs it.

use base::WorkerId;
use serde::{Deserialize, Serialize};

use super::CoreId;
use crate::number;

/// The outcome of a tick, or of a core that became free.
///
/// Grants are in force at once: the worker holds its core until the shell says that it parked or is
/// gone. Parks, revocations and takes ask for exactly that answer, and a rest for
/// [`CoresControl::rested`](super::CoresControl::rested).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoresPlan {
    /// Pin each worker to its core and wake it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Hold>,
    /// The application has more cores than it uses: tell the worker to park at its next poll
    /// boundary. Nobody waits for the core yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parks: Vec<Hold>,
    /// Somebody waits for this core: tell the worker to park at its next poll boundary.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revokes: Vec<Hold>,
    /// The worker was told long ago and runs on: move it off the core, then say that it parked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takes: Vec<Hold>,
    /// The worker has no core and others can do with its flows: they are to go there now.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "number::workers")]
    pub rests: Vec<WorkerId>,
}

/// A worker and the core that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// Which worker.
    #[serde(with = "number::worker")]
    pub worker: WorkerId,
    /// Which core.
    pub core: CoreId,
}

impl CoresPlan {
    /// An empty plan with memory for a tick over `cores` cores.
    pub fn with_room(cores: usize) -> Self {
        let room = || Vec::with_capacity(cores);
        let rests = Vec::with_capacity(cores);
        Self { grants: room(), parks: room(), revokes: room(), takes: room(), rests }
    }

    /// Empties the plan and keeps its memory.
    pub fn clear(&mut self) {
        let Self { grants, parks, revokes, takes, rests } = self;
        rests.clear();
        grants.clear();
        parks.clear();
        revokes.clear();
        takes.clear();
    }

    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        let Self { grants, parks, revokes, takes, rests } = self;
        let lists = [grants, parks, revokes, takes];
        lists.into_iter().all(Vec::is_empty) && rests.is_empty()
    }
}
