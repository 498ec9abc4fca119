//! What a worker's engine counts, for others to read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tcp::Counters;

/// What is counted or measured around the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum SocketCounter {
    /// Flows that hold memory now.
    Flows,
    /// Bytes of all rings now.
    RingBytes,
    /// Segments dropped because there were too many link addresses to answer to.
    RoutesFull,
    /// Segments dropped because their flow waits for room in this worker's engine.
    FlowsWaiting,
    /// Times that a flow got no ring for lack of memory.
    RingsFull,
    /// Packets dropped because they carry no TCP.
    NotTcp,
    /// Payload bytes that programs' sockets were given.
    BytesReceived,
    /// Payload bytes that programs' sockets have handed over.
    BytesSent,
    /// Datagrams dropped because their socket had no room, or another worker was at it.
    DatagramsNoRoom,
    /// Datagrams of programs dropped because they are longer than a packet.
    DatagramsTooLong,
    /// Datagrams of programs dropped because they have no address, or their user may not send
    /// there.
    DatagramsDenied,
    /// Datagrams of programs dropped because nobody knows a next hop.
    DatagramsNoRoute,
    /// Datagrams of programs dropped because they were to leave from an address that is not their
    /// user's.
    DatagramsSpoofed,
    /// UDP sockets of programs that ended before all that they had written had left.
    DatagramsCutOff,
    /// Choices of a congestion control that the user may not have.
    CongestionDenied,
    /// Datagrams dropped because their source is behind another port, or nowhere.
    SourcesElsewhere,
    /// Marked slots of programs that were looked at.
    Looks,
    /// Those of them at which nothing was new.
    LooksBarren,
    /// Connections of programs that were reset because nobody read from them and memory was short.
    Evicted,
}

impl SocketCounter {
    const ALL: [(Self, &'static str, &'static str); 19] = [
        (Self::Flows, "flows", "Flows that hold memory now."),
        (Self::RingBytes, "ring_bytes", "Bytes of all rings now."),
        (Self::RoutesFull, "routes_full", "Dropped: too many link addresses to answer to."),
        (Self::FlowsWaiting, "flows_waiting", "Dropped: the flow waits for room in this engine."),
        (Self::RingsFull, "rings_full", "Times that a flow got no ring for lack of memory."),
        (Self::NotTcp, "not_tcp", "Dropped: no TCP, which is all that is served here."),
        (Self::BytesReceived, "bytes_received", "Payload bytes given to programs' TCP sockets."),
        (Self::BytesSent, "bytes_sent", "Payload bytes taken from programs' TCP sockets."),
        (Self::DatagramsNoRoom, "datagrams_no_room", "Dropped: a UDP socket had no room."),
        (Self::DatagramsTooLong, "datagrams_too_long", "Dropped: longer than a packet."),
        (Self::DatagramsDenied, "datagrams_denied", "Dropped: their user may not send there."),
        (Self::DatagramsNoRoute, "datagrams_no_route", "Dropped: nobody knows the way."),
        (Self::DatagramsSpoofed, "datagrams_spoofed", "Dropped: from an address of others."),
        (Self::DatagramsCutOff, "datagrams_cut_off", "UDP sockets that ended with some unsent."),
        (Self::CongestionDenied, "congestion_denied", "Choices that the user may not have."),
        (Self::SourcesElsewhere, "sources_elsewhere", "Dropped: the source is routed elsewhere."),
        (Self::Looks, "looks", "Marked sockets of programs that were looked at."),
        (Self::LooksBarren, "looks_barren", "Those of them at which nothing was new."),
        (Self::Evicted, "evicted", "Reset: nobody read from them, and memory was short."),
    ];
}

/// Room for the engine's counters, behind the events above.
const VALUES: usize = 128;
const ENGINE_AT: usize = SocketCounter::ALL.len();

/// Counts of one worker: it writes them, anybody reads them, a moment old.
#[derive(Clone, Debug)]
pub struct SocketCounts {
    values: Arc<[AtomicU64; VALUES]>,
    is_stale: bool,
}

impl SocketCounts {
    /// All zero.
    pub fn new() -> Self {
        Self { values: Arc::new(std::array::from_fn(|_| AtomicU64::new(0))), is_stale: false }
    }

    /// Everything: name, help, value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let value =
            |at: usize| self.values.get(at).map_or(0, |value| value.load(Ordering::Relaxed));
        let own = SocketCounter::ALL.into_iter();
        let own = own.map(move |(event, name, help)| (name, help, value(event as usize)));
        let engine = Counters::HELP.iter().enumerate();
        own.chain(engine.map(move |(at, &(name, help))| (name, help, value(ENGINE_AT + at))))
    }

    /// Counts `n` events.
    #[inline]
    pub(crate) fn add(&self, event: SocketCounter, n: u64) {
        let value = &self.values[event as usize];
        value.store(value.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, event: SocketCounter, value: u64) {
        self.values[event as usize].store(value, Ordering::Relaxed);
    }

    /// Something has happened since [`Self::publish`].
    #[inline]
    pub(crate) fn touch(&mut self) {
        self.is_stale = true;
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Shows what the engine has counted.
    pub(crate) fn publish(&mut self, counters: &Counters) {
        self.is_stale = false;
        for ((_, count), value) in counters.iter().zip(&self.values[ENGINE_AT..]) {
            value.store(count, Ordering::Relaxed);
        }
    }
}

impl Default for SocketCounts {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_of_the_engine_has_a_place() {
        assert!(Counters::default().iter().count() <= VALUES - ENGINE_AT);
        let mut counts = SocketCounts::new();
        let counters = Counters { received: 7, ..Counters::default() };
        counts.publish(&counters);
        counts.add(SocketCounter::RoutesFull, 2);
        let read = counts.iter().map(|(name, _, value)| (name, value));
        let read: std::collections::BTreeMap<_, _> = read.collect();
        assert_eq!((read["received"], read["routes_full"], read["fast"]), (7, 2, 0));
    }
}
