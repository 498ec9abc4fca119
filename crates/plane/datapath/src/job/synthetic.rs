//! The workload of Shenango's `synthetic`: requests that say how much work they are.
//!
//! 16 bytes of payload, both big endian: iterations of fake work (u64), index (u64). The work is
//! that many square roots; the answer is the request. Besides, each packet may touch that many
//! bytes of its flow's state: what a move between cores makes cold.

use std::hint::black_box;
use std::sync::Arc;

use base::{FlowHash, Nanos};
use shm::{FlowState, Frame, StateMiss};
use wire::reply;

use super::{Job, Refusal, Verdict};
use crate::message::Moving;

/// Bytes of a request.
pub const REQUEST_BYTES: usize = 16;

/// Iterations that a request may ask for, at most: about 100 ms. More is a hostile request.
pub const ITERATIONS_MAX: u64 = 20_000_000;

/// The flows' state, shared by all workers; `None`: the job has none.
pub type SyntheticState = Option<Arc<FlowState>>;

/// Works, touches state, answers.
#[derive(Debug)]
pub struct Synthetic {
    state: SyntheticState,
}

impl Synthetic {
    /// A worker's share of the job.
    pub fn new(state: SyntheticState) -> Self {
        Self { state }
    }

    /// Reads and writes one word of every cache line of the flow's state.
    #[inline]
    fn touch(&self, hash: FlowHash, source: u64) -> Result<(), Refusal> {
        let Some(state) = &self.state else {
            return Ok(());
        };
        let flow = (u64::from(hash.0) << 32) | source;
        let touched = state.with(flow, |bytes| {
            for line in bytes.chunks_mut(64) {
                if let Some(word) = line.first_chunk_mut::<8>() {
                    *word = (u64::from_le_bytes(*word) + 1).to_le_bytes();
                }
            }
        });
        touched.map_err(|miss| match miss {
            StateMiss::Full => Refusal::StateFull,
            StateMiss::InUse => Refusal::FlowInTwoWorkers,
        })
    }
}

impl Job for Synthetic {
    #[inline]
    fn packet(&mut self, frame: &mut Frame, _: Nanos) -> Verdict {
        let (l3_offset, l4_offset) = (frame.meta().l3_offset, frame.meta().l4_offset);
        let hash = frame.meta().flow_hash;
        let bytes = frame.bytes_mut();
        let Some(payload) = reply::payload_range(bytes, l3_offset, l4_offset) else {
            return Verdict::Refuse(Refusal::NotUdp);
        };
        let Some(request) =
            bytes.get(payload).and_then(|payload| payload.first_chunk::<REQUEST_BYTES>())
        else {
            return Verdict::Refuse(Refusal::BadRequest);
        };
        let mut iterations = [0; 8];
        iterations.copy_from_slice(&request[..8]);
        let iterations = u64::from_be_bytes(iterations);
        if iterations > ITERATIONS_MAX {
            return Verdict::Refuse(Refusal::BadRequest);
        }
        // The ports of the UDP header tell flows of equal hash apart.
        let ports = usize::from(l4_offset)..usize::from(l4_offset) + 4;
        let ports = bytes.get(ports).and_then(|ports| ports.first_chunk::<4>());
        let ports = ports.map_or(0, |ports| u32::from_be_bytes(*ports));
        if let Err(refusal) = self.touch(hash, u64::from(ports)) {
            return Verdict::Refuse(refusal);
        }
        work(iterations);
        match reply::turn_around(bytes, (l3_offset, l4_offset), None) {
            Some(length) if frame.set_len(usize::from(length)) => Verdict::Transmit,
            _ => Verdict::Refuse(Refusal::NotUdp),
        }
    }

    /// The state stays where it is, found by the flow's id: only the right to it moves, and that
    /// is what the hand-over itself moves.
    fn detach(&mut self, _: Moving, _: Nanos) -> bool {
        true
    }

    fn attach(&mut self, _: Moving, _: Nanos) {}
}

/// `iterations` square roots that the compiler must not leave out.
pub fn work(iterations: u64) {
    let mut value = 1.0_f64;
    for iteration in 0..iterations {
        value = black_box((value + iteration as f64).sqrt());
    }
    black_box(value);
}
