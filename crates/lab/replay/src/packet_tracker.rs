//! What is known of every packet under way, and what the workers had.

use std::cell::RefCell;
use std::rc::Rc;

use wire::FlowKey;

use crate::flows::{Arrival, FlowTable};

/// One packet under way, by the chunk that it is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Played {
    /// Its position in the capture.
    pub(crate) number: u64,
    pub(crate) wire_bytes: u32,
    /// `None`: it is no flow's, and no worker should see it.
    pub(crate) key: Option<FlowKey>,
}

/// What one worker had.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// Shared by the feeder and the workers, which are on one thread.
pub(crate) type SharedPacketTracker = Rc<RefCell<PacketTracker>>;

/// The side table and the sums.
#[derive(Debug)]
pub(crate) struct PacketTracker {
    under_way: Vec<Option<Played>>,
    chunk_bytes: u32,
    pub(crate) flows: FlowTable,
    /// By worker id.
    pub(crate) shares: Vec<Share>,
    /// Packets that workers had.
    pub(crate) worked: u64,
    /// Packets that a worker had and nobody had sent, or for the second time: a bug.
    pub(crate) unexpected: u64,
}

impl PacketTracker {
    /// For a pool of `frames` chunks; the region's first chunk is its header.
    pub(crate) fn new(frames: u32, chunk_bytes: u32, workers: usize, flows_max: usize) -> Self {
        Self {
            under_way: vec![None; frames as usize + 1],
            chunk_bytes,
            flows: FlowTable::new(flows_max),
            shares: vec![Share::default(); workers],
            worked: 0,
            unexpected: 0,
        }
    }

    /// A packet leaves for the data path in the frame at `offset` of the region.
    #[inline]
    pub(crate) fn sent(&mut self, offset: u32, played: Played) {
        if let Some(place) = self.under_way.get_mut((offset / self.chunk_bytes) as usize) {
            *place = Some(played);
        }
    }

    /// A worker has the packet in the frame at `offset`.
    #[inline]
    pub(crate) fn arrived(&mut self, offset: u32, worker: u16) {
        let place = self.under_way.get_mut((offset / self.chunk_bytes) as usize);
        let Some(Played { number, wire_bytes, key: Some(key) }) = place.and_then(Option::take)
        else {
            self.unexpected += 1;
            return;
        };
        self.worked += 1;
        let share = &mut self.shares[usize::from(worker)];
        share.packets += 1;
        share.bytes += u64::from(wire_bytes);
        self.flows.note(&Arrival { key, number, wire_bytes, worker });
    }
}
