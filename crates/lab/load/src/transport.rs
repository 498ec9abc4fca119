//! How requests travel: one trait, and a file for each way.

use base::Nanos;
use serde::Serialize;

use crate::Request;

/// One UDP socket a flow, or one for many source addresses.
pub mod kernel;
/// Packets built here, through any port.
pub mod packets;
/// Which address and port each flow comes from.
pub mod sources;
/// One TCP connection a flow.
pub mod streams;

/// A way for requests to travel to the server and replies back. Generic over it, no call by
/// pointer.
///
/// It is polled: nothing but [`Transport::wait`] blocks.
pub trait Transport {
    /// The run begins: what the transport draws follows from `seed` from now on. It may have been
    /// opened with another one, when nobody knew yet which of several clients this is.
    fn begin(&mut self, _seed: u64) {}

    /// How many requests from the front of `requests`, which is not empty, leave together by one
    /// call of [`Transport::send`]: at least one. They share the time at which they were sent.
    fn group(&self, requests: &[Request]) -> usize;

    /// Sends `requests`; how many were taken, from the front. Fewer: there is no room now, try
    /// again. One that the network refuses counts as taken (it is lost) and moves a counter.
    fn send(&mut self, requests: &[Request]) -> usize;

    /// When the requests of the last [`Transport::send`] really left, where the transport knows
    /// better than its caller: building them takes time. Only of transports whose replies the same
    /// thread receives.
    fn sent_at(&self) -> Option<Nanos> {
        None
    }

    /// Gives replies that have come to `sink`, at most a few batches of them; how many.
    fn receive(&mut self, sink: impl FnMut(&Reply<'_>)) -> usize;

    /// Sleeps until something comes or `timeout` has passed, or a signal came.
    fn wait(&mut self, timeout: Nanos);

    /// What it counted.
    fn counters(&self) -> TransportCounters;

    /// What it is, for the report.
    fn describe(&self) -> String;
}

/// What came back.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The flow that it came on, where the transport knows it.
    pub flow: Option<u32>,
    /// What it says.
    pub answer: Answer<'a>,
    /// When the transport took it from the network; not known: now.
    pub at: Option<Nanos>,
}

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// A copy of the request, not looked at yet: the copy says of which.
    Copy(&'a [u8]),
    /// The right answer to the request with this index: the transport has looked.
    To(u64),
    /// An error of the server in answer to it.
    ErrorTo(u64),
    /// It will not be answered any more: its connection has failed, or it could not be sent.
    NoneTo(u64),
}

/// What a transport counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TransportCounters {
    /// Calls that found no room to send.
    pub send_full: u64,
    /// Requests that the kernel or the link would not send.
    pub send_errors: u64,
    /// Reports that nobody listens at the target (ICMP port unreachable).
    pub refused: u64,
    /// Packets that came and were no replies of the target.
    pub strangers: u64,
    /// Connections that ended before they were told to.
    pub closed: u64,
    /// Connections given up because of what came: no answer of the protocol, or to nothing.
    pub broken: u64,
    /// Requests sent again on a new connection.
    pub resent: u64,
    /// Requests for a value that the server had, and for one that it had not.
    pub hits: u64,
    /// See `hits`.
    pub misses: u64,
    /// Values that were stored.
    pub stored: u64,
}

impl TransportCounters {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            send_full: self.send_full + other.send_full,
            send_errors: self.send_errors + other.send_errors,
            refused: self.refused + other.refused,
            strangers: self.strangers + other.strangers,
            closed: self.closed + other.closed,
            broken: self.broken + other.broken,
            resent: self.resent + other.resent,
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            stored: self.stored + other.stored,
        }
    }
}
