//! Packets that wait for the link address of their next hop.
//!
//! They are copied out of their frames, so that nobody can tie up frames by wanting neighbours that
//! do not exist. RFC 1122 section 2.3.2.2: at least the latest packet to each neighbour is to be
//! kept.

use arrayvec::ArrayVec;
use base::{FrameMeta, NO_FRAGMENT, Nanos};
use shm::{Batch, Frame};

use super::wanted::Wanted;

/// Packets that wait at most, for whatever neighbours.
pub(super) const PACKETS: usize = 128;
/// Packets of one neighbour, at most.
pub(super) const PACKETS_EACH: usize = 8;
/// Bytes of the longest that is kept: every fresh frame has room for as many.
const BYTES: usize = 1792;
/// After this they are dropped. The kernel gives a neighbour up after three seconds, and says so.
pub(super) const HELD_FOR: Nanos = Nanos::from_secs(5);

/// The packets, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Held {
    packets: ArrayVec<Packet, PACKETS>,
    /// Places in `bytes` where no packet is.
    free: ArrayVec<u8, PACKETS>,
    /// [`BYTES`] for each place; empty when nothing is to be kept.
    bytes: Vec<u8>,
    /// The tables have changed since the last look at the packets.
    is_due: bool,
}

#[derive(Debug)]
struct Packet {
    waits_for: Wanted,
    since: Nanos,
    meta: FrameMeta,
    /// The place of its bytes, and how many there are.
    place: u8,
    len: u16,
}

/// What has become of a packet that is to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeping {
    /// It waits.
    Kept,
    /// It waits, and the oldest one to the same neighbour does not any more.
    KeptForOldest,
    /// There is no room for it.
    NoRoom,
}

impl Held {
    /// Room for packets; the default has none.
    pub(super) fn with_room() -> Self {
        Self {
            free: (0..PACKETS as u8).collect(),
            bytes: vec![0; PACKETS * BYTES],
            ..Self::default()
        }
    }

    /// Keeps a copy of the packet.
    pub(super) fn keep(&mut self, waits_for: Wanted, frame: &Frame, now: Nanos) -> Keeping {
        let len = frame.len();
        if self.bytes.is_empty() || len > BYTES || frame.meta().next_fragment != NO_FRAGMENT {
            return Keeping::NoRoom;
        }
        let mut of_it = self.packets.iter().enumerate().filter(|(_, p)| p.waits_for == waits_for);
        let oldest = of_it.next().map(|(index, _)| index);
        let is_full = 1 + of_it.count() >= PACKETS_EACH;
        let mut keeping = Keeping::Kept;
        if let Some(oldest) = oldest.filter(|_| is_full) {
            self.free.push(self.packets.remove(oldest).place);
            keeping = Keeping::KeptForOldest;
        }
        let Some(place) = self.free.pop() else { return Keeping::NoRoom };
        if let Some(room) = self.bytes.get_mut(usize::from(place) * BYTES..) {
            room[..len].copy_from_slice(frame.bytes());
        }
        let meta = *frame.meta();
        self.packets.push(Packet { waits_for, since: now, meta, place, len: len as u16 });
        keeping
    }

    /// The tables have changed: maybe a neighbour has answered.
    #[inline]
    pub(super) fn note_change(&mut self) {
        self.is_due = !self.packets.is_empty();
    }

    /// Whether [`Self::release`] may have something to do.
    #[inline]
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        self.is_due || self.packets.first().is_some_and(|oldest| now >= oldest.since + HELD_FOR)
    }

    /// Moves packets whose neighbour `is_known` to `batch`, as far as there is room and `take` has
    /// frames, and forgets those that have waited too long; how many these were.
    pub(super) fn release(
        &mut self,
        batch: &mut Batch,
        now: Nanos,
        take: &mut dyn FnMut() -> Option<Frame>,
        is_known: impl Fn(Wanted) -> bool,
    ) -> u64 {
        let mut expired = 0;
        let mut index = 0;
        while let Some(packet) = self.packets.get(index) {
            if is_known(packet.waits_for) {
                let frame = if batch.is_full() { None } else { take() };
                let Some(mut frame) = frame else { return expired };
                let start = usize::from(packet.place) * BYTES;
                let bytes = self.bytes.get(start..start + usize::from(packet.len));
                // It fits by the choice of BYTES; one that did not would be dropped as malformed.
                let _ = frame.fill(bytes.unwrap_or_default());
                *frame.meta_mut() = packet.meta;
                batch.push(frame);
            } else if now >= packet.since + HELD_FOR {
                expired += 1;
            } else {
                index += 1;
                continue;
            }
            self.free.push(self.packets.remove(index).place);
        }
        self.is_due = false;
        expired
    }
}
