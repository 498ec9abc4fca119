//! Where flows wait on their way from one worker to another.
//!
//! A worker that gives a group up leaves its flows here, with rings and routes, and with the name
//! of whom a new table gives them to; that one takes them when it is told to attach, and whoever
//! gets a packet of the group takes them too: nobody gets one before they are his. Only hand-overs
//! come here: the lock is never on a packet's way, and a worker that has none to expect looks at
//! one word a batch.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{FlowGroup, Nanos, SlotId, WorkerId};
use tcp::Detached;
use wire::FlowKey;

use crate::app_sockets::AppSockets;
use crate::rings::Pair;
use crate::routes::Route;
use crate::served::Conn;

/// Time after which flows that wait are called for: a hand-over takes less.
const CALL_AFTER: Nanos = Nanos::from_millis(10);

/// Time between two calls for the same flows.
const CALL_EVERY: Nanos = Nanos::from_millis(100);

/// The flows of one group, between two engines.
#[derive(Debug, Default)]
pub(crate) struct Parcel {
    /// Whose they are now; `None`: whoever is told of the group by name.
    pub(crate) to: Option<WorkerId>,
    /// The name of one of its flows, the peer as its source.
    pub(crate) name: Option<FlowKey>,
    /// When whoever has the group is called for, if it has not come by then; none: it was not seen
    /// waiting yet.
    pub(crate) call_at: Option<Nanos>,
    pub(crate) flows: Detached,
    /// In the order of `flows`.
    pub(crate) belongings: Vec<Belongings>,
    /// What the flows' route numbers mean.
    pub(crate) routes: Vec<Route>,
}

/// What a flow takes along besides what the engine knows.
#[derive(Debug)]
pub(crate) struct Belongings {
    /// Its number where it came from.
    pub(crate) id: tcp::FlowId,
    pub(crate) rings: Pair,
    /// Whether the service knows it.
    pub(crate) is_live: bool,
    /// Where the service is in what it sends.
    pub(crate) position: u32,
    /// The application's socket: whose, the slot, and what is known of it.
    pub(crate) socket: Option<(Arc<AppSockets>, SlotId, Conn)>,
}

/// The parcels of all groups under way; clones are the same exchange.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    shared: Arc<Shared>,
}

/// By group; several, when one did not fit where it was to go and others came after it.
type Parcels = BTreeMap<FlowGroup, Vec<Parcel>>;

#[derive(Debug, Default)]
struct Shared {
    parcels: Mutex<Parcels>,
    /// How many groups have any.
    count: AtomicUsize,
}

impl Exchange {
    /// An empty one: all workers of a data path share it.
    pub fn new() -> Self {
        Self::default()
    }

    fn parcels(&self) -> MutexGuard<'_, Parcels> {
        // A worker that died with the lock has left whole parcels or none.
        self.shared.parcels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything waits here. A worker that was told of its groups by a message sees theirs.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.shared.count.load(Ordering::Acquire) > 0
    }

    /// Leaves the flows of a group here.
    pub(crate) fn put(&self, group: FlowGroup, parcel: Parcel) {
        let mut parcels = self.parcels();
        parcels.entry(group).or_default().push(parcel);
        self.shared.count.store(parcels.len(), Ordering::Release);
    }

    /// Takes the flows of a group.
    pub(crate) fn take(&self, group: FlowGroup) -> Vec<Parcel> {
        let mut parcels = self.parcels();
        let taken = parcels.remove(&group).unwrap_or_default();
        self.shared.count.store(parcels.len(), Ordering::Release);
        taken
    }

    /// All groups of which flows wait.
    pub(crate) fn groups(&self) -> Vec<FlowGroup> {
        self.parcels().keys().copied().collect()
    }

    /// The names of flows whose groups have waited for too long: a peer that is silent sends no
    /// packet that would take them, and the worker that was to have them may have ended before they
    /// came here. Each is named again after a while, until somebody takes it.
    pub(crate) fn calls(&self, now: Nanos) -> Vec<FlowKey> {
        let mut parcels = self.parcels();
        let mut names = Vec::new();
        for parcel in parcels.values_mut().flatten() {
            let is_first = parcel.call_at.is_none();
            let call_at = *parcel.call_at.get_or_insert(now + CALL_AFTER);
            if !is_first && call_at <= now {
                parcel.call_at = Some(now + CALL_EVERY);
                names.extend(parcel.name);
            }
        }
        names
    }

    /// What is left for this worker is anybody's: the name of one flow of each such parcel.
    pub(crate) fn give_up(&self, worker: WorkerId) -> Vec<FlowKey> {
        let mut parcels = self.parcels();
        let own = parcels.values_mut().flatten();
        own.filter_map(|parcel| parcel.to.take_if(|to| *to == worker).and(parcel.name)).collect()
    }

    /// The groups of which flows wait for this worker.
    pub(crate) fn groups_for(&self, worker: WorkerId) -> Vec<FlowGroup> {
        let for_it = |parcels: &[Parcel]| parcels.iter().any(|parcel| parcel.to == Some(worker));
        let parcels = self.parcels();
        parcels.iter().filter(|(_, own)| for_it(own)).map(|(group, _)| *group).collect()
    }

    /// Writes another name on what waits of a group.
    pub(crate) fn readdress(&self, group: FlowGroup, to: Option<WorkerId>) {
        for parcel in self.parcels().get_mut(&group).into_iter().flatten() {
            parcel.to = to;
        }
    }
}
