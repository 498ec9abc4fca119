//! The rows of a report, from the tables of a replay.

use datapath::counters::{CounterReader, DispatchEvent};
use wire::{Malformed, NotOurs};

use super::{Flows, ProtocolRow, TopFlow, WorkerRow};
use crate::flows::{KINDS, Sums};
use crate::packet_tracker::{PacketTracker, Share};

/// Packets that a data path drops, or answers, because of what they are.
pub(super) fn dropped_for_what_they_are(counters: &CounterReader) -> u64 {
    let events =
        [DispatchEvent::BadChecksum, DispatchEvent::NotListening, DispatchEvent::ArpAnswered];
    let events = events.iter().map(|&event| counters.get(event)).sum::<u64>();
    let not_ours = NotOurs::ALL.iter().map(|&reason| counters.get(reason)).sum::<u64>();
    let malformed = Malformed::ALL.iter().map(|&reason| counters.get(reason)).sum::<u64>();
    events + not_ours + malformed
}

pub(super) fn protocols(tracker: &PacketTracker) -> Vec<ProtocolRow> {
    let rows = KINDS.iter().zip(tracker.flows.sums()).map(|(&(protocol, is_ipv6), sums)| {
        let ip = if is_ipv6 { 6 } else { 4 };
        let Sums { packets, bytes, flows, conversations } = *sums;
        ProtocolRow { protocol: protocol.name(), ip, packets, bytes, flows, conversations }
    });
    rows.filter(|row| row.packets > 0).collect()
}

pub(super) fn by_worker(tracker: &PacketTracker) -> Vec<WorkerRow> {
    let mut flows = vec![0; tracker.shares.len()];
    for flow in tracker.flows.all() {
        flows[usize::from(flow.worker)] += 1;
    }
    let shares = (0..).zip(&tracker.shares).zip(flows);
    shares
        .map(|((worker, share), flows)| {
            let Share { packets, bytes } = *share;
            WorkerRow { worker, packets, bytes, flows }
        })
        .collect()
}

pub(super) fn flows(tracker: &PacketTracker) -> Flows {
    let all = tracker.flows.all();
    Flows {
        tracked: all.len() as u64,
        conversations: tracker.flows.sums().iter().map(|sums| sums.conversations).sum(),
        untracked_packets: tracker.flows.untracked_packets,
        moved: all.iter().filter(|flow| flow.moves > 0).count() as u64,
        moves: all.iter().map(|flow| u64::from(flow.moves)).sum(),
        reordered: tracker.flows.reordered,
    }
}

pub(super) fn top(tracker: &PacketTracker, count: usize) -> Vec<TopFlow> {
    let flows = tracker.flows.top(count).into_iter();
    flows
        .map(|flow| TopFlow {
            flow: flow.key.to_string(),
            packets: flow.packets,
            bytes: flow.bytes,
            worker: flow.worker,
            moves: flow.moves,
        })
        .collect()
}
