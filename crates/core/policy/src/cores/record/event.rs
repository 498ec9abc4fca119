//! One thing that happened to the core control, small enough to be copied between two packets.

use base::{AppId, Nanos, WorkerId};

use crate::cores::{AppTerms, BusyWorker, Hold, SavedAllocate};

/// Something that happened to the core control. A [`super::CoresWriter`] turns it into lines.
#[derive(Clone, Debug)]
pub struct CoresEvent(pub(in crate::cores) What);

/// A recording of a busy loop is this many bytes an event.
const _: () = assert!(size_of::<CoresEvent>() <= 48);

/// What happened. Calls with lists, plans among them, come as their items and then the call itself.
#[derive(Clone, Debug)]
pub(in crate::cores) enum What {
    /// Items of a tick.
    Busy(BusyWorker),
    Waiting(AppId),
    /// Item of a plan.
    Hold(Part, Hold),
    /// Item of a plan: a worker that is to rest.
    Rest(WorkerId),
    /// Item of `AddApp`.
    Named(WorkerId),
    /// Of `WorkerParked`: it had a core.
    Parked,

    Tick {
        now: Nanos,
        cost: Nanos,
    },
    /// Ticks that could change nothing and did not.
    Idle {
        ticks: u32,
        last: Nanos,
    },
    AddApp(AppTerms),
    RemoveApp(AppId, Nanos),
    WorkerParked(WorkerId, Nanos),
    WorkerGone(WorkerId, Nanos),
    Prefer(WorkerId),
    Rested(WorkerId),
    SetPolicy(Box<SavedAllocate>),
}

/// A list of a plan.
#[derive(Clone, Copy, Debug)]
pub(in crate::cores) enum Part {
    Grants,
    Parks,
    Revokes,
    Takes,
}

impl Part {
    pub(in crate::cores) const ALL: [Self; 4] =
        [Self::Grants, Self::Parks, Self::Revokes, Self::Takes];
}
