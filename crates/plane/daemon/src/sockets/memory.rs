//! The memory of all programs' rings: what there is, and when pages that nobody uses are given
//! back.
//!
//! What is done when it runs short, in this order: rings do not grow any more; pages of rings that
//! nobody has are discarded; a program that has its half, or a user that has three quarters, gets
//! no further ring; then nobody does. A connection whose ring is refused waits, and is accepted
//! when there is memory; a socket for datagrams is left to the kernel.

use std::sync::Arc;

use base::Nanos;
use shm::sockets::Budget;

/// Time between two looks whether memory is short.
const LOOK_EVERY: Nanos = Nanos::from_millis(200);

/// The budget, and when it was looked at.
pub(super) struct RingMemory {
    budget: Arc<Budget>,
    look_at: Nanos,
    /// Refused rings when it was looked at last.
    refused: u64,
}

impl RingMemory {
    pub(super) fn new(budget: Budget) -> Self {
        Self { budget: Arc::new(budget), look_at: Nanos::ZERO, refused: 0 }
    }

    pub(super) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Whether pages are to be discarded now: three quarters are taken, or somebody was refused
    /// since the last look.
    pub(super) fn is_short(&mut self, now: Nanos) -> bool {
        if now < self.look_at {
            return false;
        }
        self.look_at = now + LOOK_EVERY;
        let refused = self.budget.refused();
        let was_refused = std::mem::replace(&mut self.refused, refused) != refused;
        was_refused || self.budget.bytes() > self.budget.part(3, 4)
    }

    /// When to look next, as long as anybody has rings.
    pub(super) fn next_deadline(&self) -> Nanos {
        if self.budget.bytes() == 0 { Nanos::FAR_FUTURE } else { self.look_at }
    }
}

#[cfg(test)]
mod tests {
    use shm::sockets::{Quota, SocketServer, SocketSizes};

    use super::*;

    #[test]
    fn memory_is_short_when_most_is_taken_or_a_ring_was_refused_since_the_last_look() {
        let mut memory = RingMemory::new(Budget::new(1 << 20));
        assert_eq!(memory.next_deadline(), Nanos::FAR_FUTURE);
        let sizes = SocketSizes { slots: 8, pollers: 1, sides: 1, workers: 1, ring_bytes: 4 << 20 };
        let [one, other] = [0; 2].map(|_| {
            let budget = Arc::clone(memory.budget());
            let quota = Arc::new(Quota::within(8, u64::MAX, budget, u64::MAX));
            SocketServer::within("test", sizes, quota).expect("addresses are left")
        });
        let at = |looks: u64| Nanos::from_secs(1) + Nanos(looks * LOOK_EVERY.0);
        let ring = one.heap().lend(18).expect("a quarter");
        assert!(!memory.is_short(at(0)));
        assert!(other.heap().lend(20).is_none(), "more than there is");
        assert!(!memory.is_short(at(0)), "too early");
        assert!(memory.is_short(at(1)) && !memory.is_short(at(2)), "said once");
        let rings: Vec<_> = std::iter::from_fn(|| other.heap().lend(16)).collect();
        assert_eq!(rings.len(), 8);
        assert!(memory.is_short(at(3)), "somebody was refused");
        one.heap().take_back(ring);
        let more: Vec<_> = std::iter::from_fn(|| one.heap().lend(14)).collect();
        assert_eq!(more.len(), 16, "the pages of the longer ring still count");
        assert!(memory.is_short(at(4)) && memory.is_short(at(5)), "it stays short");
        assert_eq!(memory.next_deadline(), at(6));
    }
}
