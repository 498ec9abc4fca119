//! A wire in memory: two ports that move the frames of one pool by value.
//!
//! No copy, no kernel, no clock: what one end transmits the other receives, in order, as soon as
//! it looks. Tests, benches and the simulator run the data path over it.

use std::os::fd::BorrowedFd;

use base::{FrameMeta, Nanos, PortId};
use shm::{Batch, Consumer, Frame, FramePool, Producer};

use crate::finish::finish;
use crate::{Capabilities, Fault, LinkChecksums, Port, PortCounters, Queues};

/// Settings of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireConfig {
    /// Frames that each direction holds; rounded up to a power of two.
    pub capacity: usize,
    /// Bytes of the largest IP packet.
    pub mtu: u32,
    /// Ids of the two ends.
    pub ids: [PortId; 2],
    /// Link addresses of the two ends.
    pub macs: [[u8; 6]; 2],
    /// Whether frames to other link addresses come by the wire, which whoever receives is to drop.
    pub hears_others: bool,
}

impl Default for WireConfig {
    fn default() -> Self {
        Self {
            capacity: 1024,
            mtu: 1500,
            ids: [PortId(0), PortId(1)],
            macs: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
            hears_others: false,
        }
    }
}

/// The two ends of a wire that holds `capacity` frames in each direction. Both must be used with
/// one pool, whose frames they pass on.
pub fn wire(capacity: usize) -> (MemoryPort, MemoryPort) {
    wire_with(&WireConfig { capacity, ..WireConfig::default() })
}

/// The same with all settings.
pub fn wire_with(config: &WireConfig) -> (MemoryPort, MemoryPort) {
    let capacity = config.capacity.max(1).next_power_of_two();
    let (to_b, from_a) = shm::ring(capacity);
    let (to_a, from_b) = shm::ring(capacity);
    let end = |side: usize, outgoing, incoming| MemoryPort {
        outgoing: Some(outgoing),
        incoming: Some(incoming),
        id: config.ids[side],
        counters: PortCounters::default(),
        capabilities: Capabilities {
            kind: "memory",
            name: ["a", "b"][side].to_owned(),
            mode: "in memory".to_owned(),
            frame_bytes_max: config.mtu + 22,
            mtu: config.mtu,
            cuts_segments: false,
            zero_copy: true,
            queues: Queues::All(1),
            needs_wakeup: false,
            kernel_answers_arp: false,
            checksums: LinkChecksums::Complete,
            mac: Some(config.macs[side]),
            hears_others: config.hears_others,
        },
    };
    (end(0, to_b, from_b), end(1, to_a, from_a))
}

/// One end of a wire.
pub struct MemoryPort {
    /// `None` once closed.
    outgoing: Option<Producer<Frame>>,
    incoming: Option<Consumer<Frame>>,
    id: PortId,
    counters: PortCounters,
    capabilities: Capabilities,
}

impl MemoryPort {
    /// Frames that wait to be received here.
    pub fn waiting(&self) -> usize {
        self.incoming.as_ref().map_or(0, Consumer::len)
    }
}

impl Port for MemoryPort {
    fn rx(&mut self, _pool: &mut FramePool, batch: &mut Batch, now: Nanos) -> usize {
        let Some(incoming) = &mut self.incoming else {
            return 0;
        };
        let first = batch.len();
        let received = incoming.pop_batch(batch);
        let mut bytes = 0;
        for frame in &mut batch[first..] {
            // What the sender knew of the packet is not known at this end.
            let port = self.id;
            *frame.meta_mut() = FrameMeta { received_at: now, port, ..FrameMeta::UNKNOWN };
            bytes += frame.len() as u64;
        }
        self.counters.rx_packets += received as u64;
        self.counters.rx_bytes += bytes;
        received
    }

    fn tx(&mut self, pool: &mut FramePool, batch: &mut Batch, _now: Nanos) -> usize {
        let Some(outgoing) = &mut self.outgoing else {
            return 0;
        };
        let room = (outgoing.capacity() - outgoing.len()).min(batch.len());
        if room < batch.len() {
            self.counters.tx_full += 1;
        }
        for mut frame in batch.drain(..room) {
            if !finish(&mut frame, self.capabilities.frame_bytes_max, &mut self.counters) {
                pool.give(frame);
                continue;
            }
            let bytes = frame.len() as u64;
            match outgoing.stage(frame) {
                Ok(()) => {
                    self.counters.tx_packets += 1;
                    self.counters.tx_bytes += bytes;
                }
                Err(frame) => {
                    debug_assert!(false, "only the other end makes the ring emptier");
                    pool.give(frame);
                }
            }
        }
        outgoing.publish();
        room
    }

    fn flush(&mut self, _pool: &mut FramePool, _now: Nanos) {}

    fn prepare_wait(&mut self, _pool: &mut FramePool) {}

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn next_deadline(&self) -> Nanos {
        if self.waiting() > 0 { Nanos::ZERO } else { Nanos::FAR_FUTURE }
    }

    fn fault(&self) -> Option<Fault> {
        let gone = self.incoming.as_ref().is_none_or(|incoming| !incoming.has_producer());
        gone.then_some(Fault::PeerGone)
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }

    /// Gives back what waits here; what waits at the other end is that end's to give back.
    fn close(&mut self, pool: &mut FramePool) {
        self.outgoing = None;
        if let Some(mut incoming) = self.incoming.take() {
            while let Some(frame) = incoming.pop() {
                pool.give(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests;
