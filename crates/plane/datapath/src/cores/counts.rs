//! What the core control has done, and what was done to it.

use crate::counters::counters;

counters! {
    /// An event worth counting.
    CoreEvent {
        Ticks "ticks" "Looks of the core control.",
        Asks "asks" "Looks in which an application asked for a core more.",
        Grants "grants" "Cores granted.",
        Parks "parks" "Cores given back by workers with nothing to do.",
        Revokes "revokes" "Cores asked back because somebody else needs them.",
        Takes "takes" "Cores taken from workers that did not give them back in time.",
        Nudges "nudges" "Workers interrupted because they did not give a core back soon.",
        Drains "drains" "Parked workers woken for their part of a hand-over.",
        Rests "rests" "Workers whose groups moved because they were parked for long.",
        RanWhileParked "ran_while_parked" "Workers that said they parked and used CPU time all the same.",
        StrayThreads "stray_threads" "Workers that named a thread that is not theirs or has ended.",
    }
}

/// A count of each event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreCounts([u64; CoreEvent::ALL.len()]);

impl CoreCounts {
    #[inline]
    pub(super) fn add(&mut self, event: CoreEvent) {
        self.0[event as usize] += 1;
    }

    /// How often it has happened.
    pub fn get(&self, event: CoreEvent) -> u64 {
        self.0[event as usize]
    }
}
