//! What a client may ask for.

use serde::{Deserialize, Serialize};

/// One line from a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`crate::VERSION`].
    pub v: u32,
    /// What is asked for.
    #[serde(flatten)]
    pub command: Command,
}

impl Request {
    /// A request in the version that this crate speaks.
    pub fn new(command: Command) -> Self {
        Self { v: crate::VERSION, command }
    }
}

/// What is asked for: `{"v":1,"command":"steer_set","policy":"modulo"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Ports, workers, policy, settings.
    Status,
    /// Every counter.
    Stats,
    /// The heaviest flows.
    Flows {
        /// How many, at most.
        count: u32,
    },
    /// The policy, the pins, and how the table is shared out.
    SteerShow,
    /// Another policy decides from now on.
    SteerSet {
        /// Its name.
        policy: String,
    },
    /// The owner table as text.
    SteerExport,
    /// The owner table is to be this one.
    SteerLoad {
        /// As `steer_export` gives it.
        table: String,
    },
    /// A group or a flow stays with a worker.
    SteerPin {
        /// Which.
        target: Target,
        /// With whom.
        worker: u16,
    },
    /// The policy decides again.
    SteerUnpin {
        /// Which.
        target: Target,
    },
    /// There are to be so many workers.
    Workers {
        /// How many.
        count: u16,
    },
    /// The daemon ends, after everything under way has left.
    Stop,
}

/// A group by number or a flow by its 5-tuple.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A flow group.
    Group(u32),
    /// A flow, written `udp 10.0.0.1:5000 -> 10.0.0.2:7`.
    Flow(String),
}
