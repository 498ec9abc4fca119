//! Hand-overs that do not end in time are taken back, as the daemon does at its deadline.

use base::Nanos;

use super::machine::{Event, Machine};

/// An old owner that has not passed its barrier by then keeps its flows: `handover.deadline_ms`.
const DEADLINE: Nanos = Nanos::from_millis(20);

/// Where the ring of the old owner has no room for all that waited, the rest follows after this
/// time.
const AGAIN: Nanos = Nanos::from_micros(100);

impl Machine {
    /// From now on the hand-over has its deadline.
    pub(super) fn watch_handover(&mut self, index: u16, handover: u32) {
        if self.apps[usize::from(index)].steering.old_owner(handover).is_some() {
            let at = self.events.now() + DEADLINE;
            self.events.put(at, Event::TakeBack(index, handover));
        }
    }

    /// If the hand-over is still under way, what waits with it goes back to the old owner.
    pub(super) fn take_back(&mut self, index: u16, handover: u32) {
        let now = self.events.now();
        let app = &mut self.apps[usize::from(index)];
        let Some(from) = app.steering.old_owner(handover) else { return };
        let worker = &mut self.workers[app.first + from.index()];
        worker.barriers.retain(|(_, other)| *other != handover);
        let room = app.plan.ring.saturating_sub(worker.ring.len());
        let (packets, is_over) = app.steering.take_back(handover, room, now);
        for packet in packets {
            self.deliver(index, from.0, packet);
        }
        if is_over {
            self.steer_soon(index);
        } else {
            self.events.put(now + AGAIN, Event::TakeBack(index, handover));
        }
    }
}
