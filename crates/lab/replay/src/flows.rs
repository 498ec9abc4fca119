//! The table of flows: exact, bounded, in order of appearance.

use std::collections::HashMap;

use wire::{FlowKey, Protocol};

/// What is known of one flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) key: FlowKey,
    pub(crate) packets: u64,
    /// On the wire.
    pub(crate) bytes: u64,
    /// Number of the youngest packet that a worker had.
    newest: u64,
    /// Who had the last one.
    pub(crate) worker: u16,
    /// How often that was another than before.
    pub(crate) moves: u32,
}

/// Sums over one protocol and IP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) flows: u64,
    pub(crate) conversations: u64,
}

/// All flows, and the sums over them.
#[derive(Debug)]
pub(crate) struct FlowTable {
    flows: Vec<Flow>,
    /// Its hash is keyed by the process, so no file can be made to collide in it.
    places: HashMap<FlowKey, u32>,
    flows_max: usize,
    sums: [Sums; 4],
    pub(crate) untracked_packets: u64,
    pub(crate) reordered: u64,
}

/// One packet that a worker has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) key: FlowKey,
    /// Its position in the capture.
    pub(crate) number: u64,
    pub(crate) wire_bytes: u32,
    pub(crate) worker: u16,
}

/// Protocol and IP version of each of the sums.
pub(crate) const KINDS: [(Protocol, bool); 4] =
    [(Protocol::Tcp, false), (Protocol::Tcp, true), (Protocol::Udp, false), (Protocol::Udp, true)];

impl FlowTable {
    pub(crate) fn new(flows_max: usize) -> Self {
        Self {
            flows: Vec::new(),
            places: HashMap::new(),
            flows_max,
            sums: [Sums::default(); 4],
            untracked_packets: 0,
            reordered: 0,
        }
    }

    /// A worker has a packet. Allocates only when a flow is new.
    pub(crate) fn note(&mut self, arrival: &Arrival) {
        let &Arrival { key, number, wire_bytes, worker } = arrival;
        let bytes = u64::from(wire_bytes);
        let sums = &mut self.sums[kind(&key)];
        sums.packets += 1;
        sums.bytes += bytes;
        if let Some(&place) = self.places.get(&key) {
            let flow = &mut self.flows[place as usize];
            flow.packets += 1;
            flow.bytes += bytes;
            if number < flow.newest {
                self.reordered += 1;
            } else {
                flow.newest = number;
            }
            if worker != flow.worker {
                flow.worker = worker;
                flow.moves = flow.moves.saturating_add(1);
            }
        } else if self.flows.len() < self.flows_max {
            sums.flows += 1;
            let place = self.flows.len() as u32;
            self.places.insert(key, place);
            // A flow to itself is its own other direction.
            let reverse = key.reversed();
            if reverse == key || !self.places.contains_key(&reverse) {
                sums.conversations += 1;
            }
            let newest = number;
            self.flows.push(Flow { key, packets: 1, bytes, newest, worker, moves: 0 });
        } else {
            self.untracked_packets += 1;
        }
    }

    /// All flows, in order of appearance.
    pub(crate) fn all(&self) -> &[Flow] {
        &self.flows
    }

    /// The sums, in the order of [`KINDS`].
    pub(crate) fn sums(&self) -> &[Sums; 4] {
        &self.sums
    }

    /// The `count` flows with most bytes; of equal ones, the first to appear.
    pub(crate) fn top(&self, count: usize) -> Vec<&Flow> {
        let count = count.min(self.flows.len());
        if count == 0 {
            return Vec::new();
        }
        let mut order: Vec<u32> = (0..self.flows.len() as u32).collect();
        let rank = |&place: &u32| {
            let flow = &self.flows[place as usize];
            (std::cmp::Reverse((flow.bytes, flow.packets)), place)
        };
        order.select_nth_unstable_by_key(count - 1, rank);
        order.truncate(count);
        order.sort_unstable_by_key(rank);
        order.into_iter().map(|place| &self.flows[place as usize]).collect()
    }
}

fn kind(key: &FlowKey) -> usize {
    let kinds = KINDS.iter();
    kinds
        .take_while(|&&(protocol, is_ipv6)| protocol != key.protocol() || is_ipv6 != key.is_ipv6())
        .count()
}
