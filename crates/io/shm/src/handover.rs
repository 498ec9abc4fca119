//! Who won the race between "detached" and "aborted".
//!
//! The dispatcher opens a hand-over, sends its [`Ticket`] down the old owner's ring, and holds the
//! moving packets. The old owner, when it reaches the ticket, *detaches*; the dispatcher, at its
//! deadline, *aborts*. Both try to leave the open phase by one compare-exchange on one word, so
//! exactly one of them wins and both know who. A ticket that comes late (its slot was used again
//! for another hand-over) carries an old number and can do nothing.

use base::{Epoch, FlowGroup};

use crate::sync::{Arc, AtomicU32, Ordering, OwnLine};

/// What a hand-over moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moving {
    /// One group.
    Group(FlowGroup),
    /// Every group that the worker owned and that the table of this epoch gives to another one.
    Epoch(Epoch),
}

/// Names one hand-over: travels by value in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    slot: u16,
    /// Which use of the slot.
    turn: u32,
}

impl Ticket {
    /// The slot, as an index of the dispatcher's own array of hand-overs.
    pub const fn slot(self) -> usize {
        self.slot as usize
    }

    /// The ticket as a number, for a message.
    #[cfg(not(loom))]
    pub(crate) const fn to_bits(self) -> u64 {
        (self.slot as u64) << 32 | self.turn as u64
    }

    /// The ticket that [`Ticket::to_bits`] gave; any other number is a ticket that nobody has.
    #[cfg(not(loom))]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self { slot: (bits >> 32) as u16, turn: bits as u32 }
    }
}

/// The phases of all hand-overs under way, shared by the dispatcher and every worker.
///
/// Word of a slot: `turn << 2 | phase`. Cloning gives another view of the same words.
#[derive(Clone, Debug)]
pub struct Handovers {
    words: Words,
}

/// Where the words are.
#[derive(Clone, Debug)]
enum Words {
    /// In this process: dispatcher and workers are its threads.
    Own(Arc<Box<[OwnLine<AtomicU32>]>>),
    /// In a region that an application maps too. It may write anything there: both outcomes of
    /// the race are ones that the dispatcher goes on from, so it only harms its own flows.
    #[cfg(not(loom))]
    Shared(crate::packets::HandoverWords),
}

const FREE: u32 = 0;
const OPEN: u32 = 1;
const DETACHED: u32 = 2;
const ABORTED: u32 = 3;
const PHASE_MASK: u32 = 3;
/// Turns wrap after 2^30 uses of one slot; a ticket that old is in no ring any more.
const TURN_MASK: u32 = u32::MAX >> 2;

impl Handovers {
    /// Room for `slots` hand-overs at once.
    ///
    /// # Panics
    /// Above 65,535: a programmer's error.
    pub fn new(slots: usize) -> Self {
        assert!(slots <= usize::from(u16::MAX), "hand-over slots are numbered by 16 bits");
        let words = (0..slots).map(|_| OwnLine(AtomicU32::new(FREE))).collect();
        Self { words: Words::Own(Arc::new(words)) }
    }

    #[cfg(not(loom))]
    pub(crate) fn shared(words: crate::packets::HandoverWords) -> Self {
        Self { words: Words::Shared(words) }
    }

    /// How many hand-overs can be under way at once.
    pub fn slots(&self) -> usize {
        match &self.words {
            Words::Own(words) => words.len(),
            #[cfg(not(loom))]
            Words::Shared(words) => words.get().len(),
        }
    }

    fn word(&self, slot: usize) -> Option<&AtomicU32> {
        let word = match &self.words {
            Words::Own(words) => words.get(slot),
            #[cfg(not(loom))]
            Words::Shared(words) => words.get().get(slot),
        };
        word.map(|word| &word.0)
    }

    /// Opens a hand-over in a slot that the caller knows to be closed.
    ///
    /// # Panics
    /// There is no such slot: a programmer's error.
    pub fn open(&self, slot: usize) -> Ticket {
        let word = self.word(slot).expect("the dispatcher numbers its own slots");
        let turn = (word.load(Ordering::Relaxed) >> 2).wrapping_add(1) & TURN_MASK;
        // Relaxed: the ticket reaches the old owner through a ring, whose Release and Acquire
        // order this store before its compare-exchange.
        word.store(turn << 2 | OPEN, Ordering::Relaxed);
        Ticket { slot: slot as u16, turn }
    }

    /// The old owner has completed everything before the ticket and gives the groups up.
    /// False: it was aborted; the groups stay.
    #[must_use]
    pub fn detach(&self, ticket: Ticket) -> bool {
        self.leave_open(ticket, DETACHED)
    }

    /// The dispatcher gives the hand-over up. False: the old owner has detached; it must go on.
    #[must_use]
    pub fn abort(&self, ticket: Ticket) -> bool {
        self.leave_open(ticket, ABORTED)
    }

    fn leave_open(&self, ticket: Ticket, phase: u32) -> bool {
        let open = ticket.turn << 2 | OPEN;
        // AcqRel: the winner's earlier writes (a detached job's flow state) are seen by the loser
        // and by whoever reads the word later; the packets themselves are ordered by the rings.
        let left = |word: &AtomicU32| {
            word.compare_exchange(
                open,
                ticket.turn << 2 | phase,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_ok()
        };
        self.word(ticket.slot()).is_some_and(left)
    }

    /// Whether the old owner has detached, for checks and displays.
    pub fn is_detached(&self, ticket: Ticket) -> bool {
        let Some(word) = self.word(ticket.slot()) else { return false };
        let word = word.load(Ordering::Acquire);
        word >> 2 == ticket.turn && word & PHASE_MASK == DETACHED
    }
}

#[cfg(test)]
mod tests;
