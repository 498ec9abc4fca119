//! Workers whose threads are looked at: who says that it is parked must not run, and who holds a
//! core must be alive.

use base::Nanos;
use policy::cores::Class;

use super::slot::{CoreSlot, Standing};
use super::{CoreAllocator, CoreEvent, Hands, Strayed};

/// A worker whose thread is worth a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Its slot.
    pub slot: CoreSlot,
    /// The thread that it says it is.
    pub thread: u32,
    /// Since when it says that it is parked; none: it holds a core.
    pub parked_since: Option<Nanos>,
}

impl CoreAllocator {
    /// The next worker after `cursor` whose thread is worth a look: one that says that it is parked
    /// must not use CPU time, and one that holds a core must be alive.
    pub fn next_suspect(&self, cursor: &mut usize) -> Option<Suspect> {
        for _ in 0..self.slots.len() {
            *cursor = (*cursor + 1) % self.slots.len();
            let Some(of) = &self.slots[*cursor] else { continue };
            let thread = of.core_grant.thread();
            let parked_since = match of.standing {
                Standing::Parked { since } => Some(since),
                Standing::Held | Standing::Revoked { .. } => None,
                _ => continue,
            };
            if of.class == Class::Latency && thread != 0 {
                return Some(Suspect { slot: CoreSlot(*cursor as u16), thread, parked_since });
            }
        }
        None
    }

    /// The suspect said that it is parked, and runs.
    pub fn report_running(&mut self, slot: CoreSlot, hands: &mut impl Hands) {
        self.count(slot, CoreEvent::RanWhileParked);
        let Some(Some(of)) = self.slots.get_mut(slot.index()) else { return };
        let evicted = hands.evict(slot, of.core_grant.thread());
        self.note_stray(slot, evicted);
    }

    /// The suspect's thread has ended.
    pub fn report_dead(&mut self, slot: CoreSlot) {
        self.note_stray(slot, Err(Strayed));
    }
}
