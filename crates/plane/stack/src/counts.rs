//! What a worker's engine counts, for others to read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tcp::Counters;

/// Declares counters with a name and a sentence of help each.
macro_rules! counters {
    ($(#[$meta:meta])* $kind:ident { $($variant:ident $name:literal $help:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $kind { $(#[doc = $help] $variant,)* }

        impl $kind {
            const ALL: &[(Self, &'static str, &'static str)] =
                &[$((Self::$variant, $name, $help),)*];
        }
    };
}

counters! {
    /// What is counted or measured around the engine.
    SocketCounter {
        Flows "flows" "Flows that hold memory now.",
        RingBytes "ring_bytes" "Bytes of all rings now.",
        RoutesFull "routes_full" "Dropped: too many link addresses to answer to.",
        FlowsWaiting "flows_waiting" "Dropped: the flow waits for room in this engine.",
        RingsFull "rings_full" "Times that a flow got no ring for lack of memory.",
        NotTcp "not_tcp" "Dropped: not TCP; this job serves only TCP.",
        BytesReceived "bytes_received" "Payload bytes given to programs' TCP sockets.",
        BytesSent "bytes_sent" "Payload bytes taken from programs' TCP sockets.",
        DatagramsNoRoom "datagrams_no_room" "Dropped: a UDP socket had no room.",
        DatagramsTooLong "datagrams_too_long" "Dropped: longer than a packet.",
        DatagramsDenied "datagrams_denied" "Dropped: their user may not send there.",
        DatagramsNoRoute "datagrams_no_route" "Dropped: nobody knows the way.",
        DatagramsSpoofed "datagrams_spoofed" "Dropped: from an address of others.",
        DatagramsCutOff "datagrams_cut_off" "UDP sockets that ended with some unsent.",
        CongestionDenied "congestion_denied" "Choices that the user may not have.",
        SourcesElsewhere "sources_elsewhere" "Dropped: the source is routed elsewhere.",
        Vlans "vlans" "Dropped: of a VLAN, whose packets are another interface's.",
        Looks "looks" "Marked sockets of programs that were looked at.",
        LooksBarren "looks_barren" "Those of them at which nothing was new.",
        Evicted "evicted" "Reset: nobody read from them, and memory was short.",
        ErrorsForKernel "errors_for_kernel" "ICMP errors for the kernel's half of UDP sockets.",
        ErrorsTooMany "errors_too_many" "Dropped: such errors, more than a user may have wait.",
        NarrowPaths "narrow_paths" "Times that a path of datagrams was found to be narrow.",
        NextHopsUnasked "next_hops_unasked" "Next hops not asked for: too many questions wait.",
    }
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
        let own = SocketCounter::ALL.iter();
        let own = own.map(move |&(event, name, help)| (name, help, value(event as usize)));
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
