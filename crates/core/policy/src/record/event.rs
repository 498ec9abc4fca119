//! One thing that happened to the control loop, small enough to be copied between two packets.

use std::sync::Arc;

use base::{FlowGroup, Nanos, WorkerId};

use crate::control::{Place, Placement};
use crate::plan::Move;
use crate::sample::{GroupLoad, WorkerSample};
use crate::steer::SavedSteer;
use crate::table::Entry;

/// Something that happened to the control loop, as the data loop notes it. A
/// [`Writer`](super::Writer) turns it into lines.
#[derive(Clone, Debug)]
pub struct Event(pub(crate) What);

/// What happened. Calls with lists come as their items and then the call itself.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Item of a tick: a worker whose figures are new.
    Sampled(WorkerSample),
    /// Item of a tick: a load sample, whose groups follow.
    Load0 {
        now: Nanos,
        first: FlowGroup,
    },
    /// Item of a tick: this many groups with the same load.
    Loads {
        count: u32,
        load: GroupLoad,
    },
    /// Item of a tick or a proposal: a move that it asks for.
    Asked(Move),
    /// Item of a proposal.
    Put(Place),
    /// Item of `SetWorkers` and `Revert`.
    Named(WorkerId),

    Tick {
        now: Nanos,
        publish: bool,
        fence: bool,
    },
    /// Ticks that could change nothing and did not.
    Idle {
        ticks: u32,
        last: Nanos,
    },
    Place {
        group: FlowGroup,
        found: Entry,
        placed: Placed,
        now: Nanos,
    },
    Assign {
        group: FlowGroup,
        owner: WorkerId,
    },
    Disown(FlowGroup),
    Write {
        group: FlowGroup,
        entry: Entry,
    },
    Moved(Move),
    Aborted {
        undone: Move,
        now: Nanos,
    },
    Refused(Move),
    EpochFinished,
    Revert {
        first: FlowGroup,
        now: Nanos,
        next: Option<FlowGroup>,
    },
    SetWorkers,
    WorkerGone(WorkerId),
    SetPolicy(Box<SavedSteer>),
    Load(Arc<Vec<Entry>>),
    Pin {
        group: FlowGroup,
        worker: WorkerId,
    },
    Unpin {
        group: FlowGroup,
        found: bool,
    },
    Propose,
    Lease(Nanos),
    LeaseEnded,
    /// Something that cannot be written down: a policy that does not say what it remembers.
    Unknown,
}

/// A recording of a busy loop is this many bytes an event.
const _: () = assert!(size_of::<Event>() <= 24);

/// A placement, without the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    Nowhere,
    Now(WorkerId),
    Move { from: WorkerId, to: WorkerId },
}

impl From<Option<Placement>> for Placed {
    fn from(placement: Option<Placement>) -> Self {
        match placement {
            None => Self::Nowhere,
            Some(Placement::Now(worker)) => Self::Now(worker),
            Some(Placement::Move(Move { from, to, .. })) => Self::Move { from, to },
        }
    }
}

impl What {
    pub(crate) fn place(
        group: FlowGroup,
        found: Entry,
        placed: Option<Placement>,
        now: Nanos,
    ) -> Self {
        Self::Place { group, found, placed: placed.into(), now }
    }
}
