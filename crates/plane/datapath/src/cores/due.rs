//! When the allocator has something to do: what the loop asks before it steps, and before it
//! sleeps.
//!
//! Most of what happens calls or rings. The rest is watched: a holder with something in its queue
//! may need help, one that was told to give its core back must be held to it, and who began to wait
//! after the last look has not been offered an idle core yet.

use base::Nanos;
use policy::cores::Class;
use port::Port;

use super::slot::{CoreSlot, Standing};
use super::{CoreAllocator, Kept, cores_id};
use crate::app::AttachmentId;
use crate::dispatcher::Dispatcher;

impl CoreAllocator {
    /// Whether a step would do anything.
    #[inline]
    pub fn is_due(&self, now: Nanos) -> bool {
        !self.wanted.is_quiet()
            || now >= self.next_tick && self.is_active(now)
            || self.resting.front().is_some_and(|&(due, _)| due <= now)
            || self.losses.front().is_some_and(|&(due, _)| due <= now)
    }

    /// Whether a tick has anything to look at.
    fn is_active(&self, now: Nanos) -> bool {
        !self.held.is_empty()
            || !self.waiting.is_empty()
            || self.kept.iter().any(|kept| kept.is_heard(now))
    }

    /// Whether a worker of the application has said something at its core grant since the last
    /// step.
    pub fn has_spoken(&self, app: AttachmentId) -> bool {
        self.kept.iter().any(|kept| kept.app == app && kept.has_spoken())
    }

    /// Whether somebody has called since the last step: do not sleep. For what was said at the core
    /// grants there is [`Self::next_deadline`].
    pub fn has_work(&self) -> bool {
        !self.wanted.is_quiet()
    }

    /// Whether a batch job may be on this CPU: a thread there that has nothing to do should sleep.
    /// By yielding it would give the job the CPU for a whole slice, since a thread that is runnable
    /// already is not woken and so preempts nobody.
    pub fn is_shared_with_a_job(&self, cpu: usize) -> bool {
        let cores = self.control.table().cores();
        self.jobs > 0 && cores.iter().any(|core| usize::from(core.id.0) == cpu)
    }

    /// When the next step is due though nobody calls.
    pub fn next_deadline<P: Port>(&self, dispatcher: &Dispatcher<P>) -> Nanos {
        let watched = self.is_unsettled && !self.waiting.is_empty()
            || self.held.iter().any(|&slot| self.is_watched(slot, dispatcher));
        let tick = if watched { self.next_tick } else { Nanos::FAR_FUTURE };
        // An application that caused too many empty looks is heard when its time has come.
        let spoken = self.kept.iter().filter(|kept| kept.has_spoken());
        let heard = spoken.map(|kept: &Kept| kept.vain.next().max(self.next_tick)).min();
        let rest = self.resting.front().map(|&(due, _)| due);
        let loss = self.losses.front().map(|&(due, _)| due);
        [heard, rest, loss].into_iter().flatten().fold(tick, Nanos::min)
    }

    /// Whether the holder of a core needs a look at every tick.
    fn is_watched<P: Port>(&self, slot: CoreSlot, dispatcher: &Dispatcher<P>) -> bool {
        let Some(Some(of)) = self.slots.get(slot.index()) else { return false };
        if matches!(of.standing, Standing::Revoked { .. }) {
            return true;
        }
        if of.class == Class::Batch {
            return false;
        }
        of.queued(dispatcher) > 0 || self.may_grow(of.app) && of.has_tasks()
    }

    /// Whether the application could be given a core more, if it asked.
    fn may_grow(&self, app: AttachmentId) -> bool {
        let app = self.control.table().app(cores_id(app));
        app.is_some_and(|app| {
            !app.parked().is_empty() && app.cores() < usize::from(app.terms.burst)
        })
    }
}
