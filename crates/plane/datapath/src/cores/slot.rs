//! One kept worker: its core grant, how it is woken, and where it stands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base::{Nanos, WorkerId};
use policy::cores::{Class, CoreId, Progress};
use port::Port;
use shm::{CoreGrantControl, ReadySet};

use crate::app::AttachmentId;
use crate::dispatcher::Dispatcher;
use crate::worker_queue::Wake;

/// A kept worker's number: the one that the core control knows it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreSlot(pub(crate) u16);

impl CoreSlot {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) const fn worker(self) -> WorkerId {
        WorkerId(self.0)
    }

    pub(super) const fn of(worker: WorkerId) -> Self {
        Self(worker.0)
    }
}

/// What the dispatcher calls when a sleeping worker has something to do. While the worker is kept,
/// that is a ready bit for the allocator, who decides whether and where it runs; else it is woken.
#[derive(Clone, Debug)]
pub struct Call {
    /// The slot and one more; zero while the worker is not kept.
    slot: Arc<AtomicU32>,
    wanted: Arc<ReadySet>,
}

impl Call {
    pub(super) fn new(wanted: Arc<ReadySet>) -> Self {
        Self { slot: Arc::new(AtomicU32::new(0)), wanted }
    }

    /// Another one, for another worker of the same allocator.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::new(Arc::clone(&self.wanted))
    }

    /// What the worker's worker queue is given as its wake-up.
    pub fn over(&self, wake: &Wake) -> Wake {
        let (Self { slot, wanted }, wake) = (self.clone(), Arc::clone(wake));
        Arc::new(move || match slot.load(Ordering::Acquire).checked_sub(1) {
            // Who sleeps in the allocator's loop is awake now: it is called from there.
            Some(slot) => {
                wanted.set_ready(slot);
            }
            None => wake(),
        })
    }

    /// A worker of this process has said something at its core grant. Whoever sleeps in the
    /// allocator's loop is woken by the caller.
    pub fn spoke(&self) {
        if let Some(slot) = self.slot.load(Ordering::Acquire).checked_sub(1) {
            self.wanted.set_ready(slot);
        }
    }

    pub(super) fn direct(&self, slot: CoreSlot) {
        self.slot.store(u32::from(slot.0) + 1, Ordering::Release);
    }

    pub(super) fn undirect(&self) {
        self.slot.store(0, Ordering::Release);
    }
}

/// A worker that is to be kept.
pub struct GrantedWorker {
    /// Its id among its application's.
    pub worker: WorkerId,
    /// The control's side of its core grant.
    pub core_grant: CoreGrantControl,
    /// Wakes its thread; remembered when the thread is awake.
    pub wake: Wake,
    /// What its worker queue calls.
    pub call: Call,
}

/// Where a worker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has no core, and says that it needs none or that it wants one.
    Parked {
        /// Since when.
        since: Nanos,
    },
    /// It holds a core.
    Held,
    /// It holds a core that it was told to give back.
    Revoked {
        /// When it was told.
        told: Nanos,
        /// It was interrupted because it did not listen.
        nudged: bool,
    },
    /// Its core was taken, and it has not parked since: it runs on what is left over.
    Taken,
    /// It has no core and does what its hand-overs need.
    Draining,
}

impl Standing {
    pub(super) fn holds(self) -> bool {
        matches!(self, Self::Held | Self::Revoked { .. })
    }
}

/// One kept worker.
pub(super) struct Slot {
    pub(super) app: AttachmentId,
    pub(super) worker: WorkerId,
    pub(super) class: Class,
    pub(super) core_grant: CoreGrantControl,
    pub(super) wake: Wake,
    pub(super) call: Call,
    pub(super) standing: Standing,
    /// It is in the list of workers that wait for a core.
    pub(super) waits: bool,
    /// Its groups were given to others while it is parked.
    pub(super) rests: bool,
    /// It is in the list of those whose groups may move soon.
    pub(super) is_timed: bool,
    /// A bit at its core grant may still come for what was seen there already.
    pub(super) owes_bit: bool,
    /// Its thread is where its core is.
    pub(super) placed: bool,
    /// Its thread is not its own, or has ended: said and counted already.
    pub(super) strayed: bool,
    /// Of a batch job: the core that it was woken for last, unless it has been told since that it
    /// lost it.
    pub(super) told: Option<CoreId>,
    /// It is in the list of jobs that are to be told so.
    pub(super) is_to_be_told: bool,
    /// How long its oldest item had waited at the last look.
    pub(super) oldest: Nanos,
    /// Position in its ring at `sampled_at`: once that is consumed, a newer one is taken.
    sampled_position: u32,
    sampled_at: Nanos,
}

impl Slot {
    pub(super) fn new(app: AttachmentId, class: Class, granted: GrantedWorker) -> Self {
        let GrantedWorker { worker, core_grant, wake, call } = granted;
        Self {
            app,
            worker,
            class,
            core_grant,
            wake,
            call,
            standing: Standing::Parked { since: Nanos::ZERO },
            waits: false,
            rests: false,
            is_timed: false,
            owes_bit: false,
            placed: false,
            strayed: false,
            told: None,
            is_to_be_told: false,
            oldest: Nanos::ZERO,
            sampled_position: 0,
            sampled_at: Nanos::ZERO,
        }
    }

    /// Packets and messages that it has not completed.
    pub(super) fn queued<P: Port>(&self, dispatcher: &Dispatcher<P>) -> u32 {
        let progress = dispatcher.steering_of(self.app).map(|of| of.progress_of(self.worker));
        let Progress { put, taken } = progress.unwrap_or_default();
        put.wrapping_sub(taken)
    }

    /// Whether it says that it has tasks beside its packets.
    pub(super) fn has_tasks(&self) -> bool {
        let tasks = self.core_grant.tasks();
        tasks.put != tasks.taken
    }

    /// How long the oldest thing in its ring has waited, at least: since the first look that has
    /// found its position there.
    pub(super) fn age(&mut self, packets: Progress, now: Nanos) -> Nanos {
        let is_empty = packets.put == packets.taken;
        if is_empty || packets.taken.wrapping_sub(self.sampled_position) as i32 >= 0 {
            self.sampled_position = packets.put;
            self.sampled_at = now;
        }
        if is_empty { Nanos::ZERO } else { now.since(self.sampled_at) }
    }
}
