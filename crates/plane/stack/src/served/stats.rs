//! What a worker counts about the sockets of applications, and the requests that it samples.

use super::Traces;
use crate::counts::{SocketCounter, SocketCounts};

/// Since the worker began.
#[derive(Debug)]
pub(crate) struct Stats {
    /// Payload bytes that applications were shown, and that were taken from them, over all
    /// connections.
    pub(super) bytes_received: u64,
    pub(super) bytes_sent: u64,
    /// Datagrams that were dropped, by reason.
    pub(super) datagrams_no_room: u64,
    pub(super) datagrams_too_long: u64,
    pub(super) datagrams_denied: u64,
    pub(super) datagrams_no_route: u64,
    /// Next hops that were not asked for, because too many questions wait.
    pub(super) next_hops_unasked: u64,
    pub(super) datagrams_spoofed: u64,
    /// UDP sockets that ended before all that they had written had left.
    pub(super) datagrams_cut_off: u64,
    /// ICMP errors about datagrams: those that the kernel got, and those that were too many.
    pub(super) errors_for_kernel: u64,
    pub(super) errors_too_many: u64,
    /// Paths that were found to be narrower than the interface.
    pub(super) narrow_paths: u64,
    /// Connections that were ended because nobody read from them and memory was short.
    pub(super) evicted: u64,
    /// Congestion controls that were chosen and not permitted.
    pub(super) congestion_denied: u64,
    /// Marked slots that were looked at, and of those the ones at which nothing was new.
    pub(super) looks: u64,
    pub(super) looks_barren: u64,
    /// Requests of which an operator wants to know where their time goes.
    pub(super) traces: Traces,
}

impl Stats {
    pub(super) fn new(traces: Traces) -> Self {
        Self {
            traces,
            bytes_received: 0,
            bytes_sent: 0,
            datagrams_no_room: 0,
            datagrams_too_long: 0,
            datagrams_denied: 0,
            datagrams_no_route: 0,
            next_hops_unasked: 0,
            datagrams_spoofed: 0,
            datagrams_cut_off: 0,
            errors_for_kernel: 0,
            errors_too_many: 0,
            narrow_paths: 0,
            evicted: 0,
            congestion_denied: 0,
            looks: 0,
            looks_barren: 0,
        }
    }

    /// Shows it.
    pub(crate) fn publish(&self, counts: &SocketCounts) {
        for (event, count) in [
            (SocketCounter::BytesReceived, self.bytes_received),
            (SocketCounter::BytesSent, self.bytes_sent),
            (SocketCounter::DatagramsNoRoom, self.datagrams_no_room),
            (SocketCounter::DatagramsTooLong, self.datagrams_too_long),
            (SocketCounter::DatagramsDenied, self.datagrams_denied),
            (SocketCounter::DatagramsNoRoute, self.datagrams_no_route),
            (SocketCounter::DatagramsSpoofed, self.datagrams_spoofed),
            (SocketCounter::DatagramsCutOff, self.datagrams_cut_off),
            (SocketCounter::ErrorsForKernel, self.errors_for_kernel),
            (SocketCounter::ErrorsTooMany, self.errors_too_many),
            (SocketCounter::NarrowPaths, self.narrow_paths),
            (SocketCounter::CongestionDenied, self.congestion_denied),
            (SocketCounter::Looks, self.looks),
            (SocketCounter::LooksBarren, self.looks_barren),
            (SocketCounter::Evicted, self.evicted),
            (SocketCounter::NextHopsUnasked, self.next_hops_unasked),
        ] {
            counts.set(event, count);
        }
    }
}
