//! Prefetches the state of a burst's flows.
//!
//! With more flows than caches hold, each segment would wait for one line after the other: the
//! table's, the flow's, the rings'. A look at one line of every flow of the burst, then at the next
//! of every flow, waits for all of them at once. Nothing here decides anything, and what it looks
//! at may be stale.

use std::hint::black_box;

use piece::ReadPiece;

use super::{BURST, Engine};
use crate::flow::Flags;
use crate::io::{Buffers, FlowId, Incoming};

/// Flows that stay in a cache close to the core anyway.
const CLOSE: usize = 512;

/// No flow.
const NONE: u32 = u32::MAX;

impl Engine {
    /// Brings close what the segments of `burst`, at most [`BURST`], and their answers will need.
    #[inline]
    pub(super) fn touch_all<B: Buffers>(&self, burst: &[Incoming<'_>], buffers: &mut B) {
        if burst.len() > 1 && self.flows.len() > CLOSE {
            self.touch_far(burst, buffers);
        }
    }

    /// Brings the state of flows close, at most [`BURST`].
    #[inline]
    pub(super) fn touch_flows(&self, indexes: &[u32]) {
        if indexes.len() > 1 && self.flows.len() > CLOSE {
            black_box(self.look_at(indexes));
        }
    }

    #[inline]
    fn look_at(&self, indexes: &[u32]) -> u64 {
        let mut seen = 0;
        for index in indexes {
            let at = *index as usize;
            if let (Some(flow), Some(cold)) = (self.flows.get(at), self.cold.get(at)) {
                seen ^= flow.touch() ^ cold.touch() ^ self.wheel.touch(*index);
            }
        }
        seen
    }

    #[inline(never)]
    fn touch_far<B: Buffers>(&self, burst: &[Incoming<'_>], buffers: &mut B) {
        let mut indexes = [NONE; BURST];
        for (place, incoming) in indexes.iter_mut().zip(burst) {
            *place = self.table.glance(incoming.hash).unwrap_or(NONE);
        }
        let indexes = indexes.get(..burst.len()).unwrap_or_default();
        let mut seen = self.look_at(indexes);
        for (index, incoming) in indexes.iter().zip(burst) {
            let Some(flow) = self.flows.get(*index as usize) else { continue };
            // Rings may be made when they are first asked for: not for what brings nothing.
            let header_bytes = incoming.segment.get(12).map_or(0, |byte| usize::from(byte >> 2));
            if flow.flags.has(Flags::SLOW) || incoming.segment.len() <= header_bytes {
                continue;
            }
            let id = FlowId { index: *index, generation: flow.generation };
            seen ^= look(buffers.receive_ring(id).read(), flow.rcv_nxt.0);
            // An answer will be written where the last one ended.
            seen ^= look(buffers.send_ring(id), flow.snd_end.0);
            let oldest = flow.sent.first().and_then(|first| self.shared.sent.peek(first));
            seen ^= oldest.map_or(0, |sent| u64::from(sent.end.0));
        }
        black_box(seen);
    }
}

/// Looks at the place of a byte in its ring, and at the next line.
#[inline]
fn look(ring: ReadPiece<'_>, number: u32) -> u64 {
    let at = number as usize & ring.len().wrapping_sub(1);
    let byte = |at: usize| ring.byte(at).map_or(0, u64::from);
    byte(at) ^ byte(at + 63)
}
