//! What a worker counts about the sockets of applications.

use super::super::counts::{StreamCounts, StreamEvent};

/// Since the worker began.
#[derive(Debug, Default)]
pub(in crate::stream) struct Stats {
    /// Payload bytes that applications were shown, and that were taken from them, over all connections.
    pub(super) bytes_received: u64,
    pub(super) bytes_sent: u64,
    /// Datagrams that were dropped, by reason.
    pub(super) datagrams_no_room: u64,
    pub(super) datagrams_too_long: u64,
    pub(super) datagrams_denied: u64,
    pub(super) datagrams_no_route: u64,
    pub(super) datagrams_spoofed: u64,
    /// UDP sockets that ended before all that they had written had left.
    pub(super) datagrams_cut_off: u64,
    /// Congestion controls that were chosen and not permitted.
    pub(super) congestion_denied: u64,
}

impl Stats {
    /// Shows it.
    pub(in crate::stream) fn publish(&self, counts: &StreamCounts) {
        for (event, count) in [
            (StreamEvent::BytesReceived, self.bytes_received),
            (StreamEvent::BytesSent, self.bytes_sent),
            (StreamEvent::DatagramsNoRoom, self.datagrams_no_room),
            (StreamEvent::DatagramsTooLong, self.datagrams_too_long),
            (StreamEvent::DatagramsDenied, self.datagrams_denied),
            (StreamEvent::DatagramsNoRoute, self.datagrams_no_route),
            (StreamEvent::DatagramsSpoofed, self.datagrams_spoofed),
            (StreamEvent::DatagramsCutOff, self.datagrams_cut_off),
            (StreamEvent::CongestionDenied, self.congestion_denied),
        ] {
            counts.set(event, count);
        }
    }
}
