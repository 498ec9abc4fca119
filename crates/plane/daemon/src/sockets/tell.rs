//! Wakes waiters for socket events that no worker reports.

use std::sync::atomic::{Ordering, fence};

use base::SlotId;
use shm::sockets::{Side, SocketMemory};
use stack::Notifier;

/// Tells whoever waits for a slot that there is news.
pub(crate) fn tell(memory: &SocketMemory, slot: SlotId, notifier: &dyn Notifier) {
    let Some(words) = memory.slot(slot) else { return };
    // What was published before the look at who waits; who waits does it the other way round.
    fence(Ordering::SeqCst);
    for (at, word) in words.pollers.iter().enumerate() {
        let mut bits = word.load(Ordering::Relaxed);
        while bits != 0 {
            let poller = at as u32 * 64 + bits.trailing_zeros();
            bits &= bits - 1;
            if let Some(ready_bits) = memory.poller(Side::Zero, poller)
                && ready_bits.set(slot)
                && ready_bits.claim_wake()
            {
                notifier.poller(Side::Zero, poller);
            }
        }
    }
    if words.sleepers.swap(0, Ordering::Relaxed) != 0 {
        words.notify_word.fetch_add(1, Ordering::Release);
        notifier.futex(&words.notify_word);
    }
}
