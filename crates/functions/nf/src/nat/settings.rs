//! What an operator may choose of a NAT.

use std::net::Ipv4Addr;

use base::PortId;

use crate::Prefix;
use crate::track::{Timeouts, TrackSettings};

/// Our addresses, at most.
pub const ADDRESSES_MAX: usize = 64;
/// Networks inside, at most.
pub const INSIDE_MAX: usize = 64;
/// Ports of one subscriber: at least a block, at most all that are given.
pub const PORTS_EACH: std::ops::RangeInclusive<u32> = 64..=64_512;

/// Whose packets get in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filtering {
    /// Those of an end that was spoken to (RFC 4787 section 5: address and port-dependent).
    #[default]
    AddressAndPort,
    /// Anybody's, to a port that is in use (endpoint-independent).
    Endpoint,
}

/// What an operator may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatSettings {
    /// What leaves by these is translated.
    pub outside: Vec<PortId>,
    /// Our addresses.
    pub addresses: Vec<Ipv4Addr>,
    /// Whose packets are.
    pub inside: Vec<Prefix>,
    /// Whose packets get in.
    pub filtering: Filtering,
    /// Ports of each protocol of one subscriber.
    pub ports_each: u32,
    /// How connections are kept.
    pub track: TrackSettings,
}

impl NatSettings {
    /// How connections are kept unless the operator says otherwise.
    pub fn track() -> TrackSettings {
        let timeouts = Timeouts {
            syn_sent: 240,
            syn_received: 240,
            established: 7440,
            fin_wait: 240,
            close_wait: 240,
            last_ack: 240,
            time_wait: 240,
            closed: 240,
            udp: 120,
            udp_stream: 300,
            icmp: 60,
            ..Timeouts::default()
        };
        TrackSettings {
            unanswered_each: 1024,
            connections_each: 16_384,
            timeouts,
            ..TrackSettings::default()
        }
    }

    /// The networks that are private, or shared behind a carrier's NAT (RFC 1918, RFC 6598).
    pub fn private() -> Vec<Prefix> {
        let networks = [([10, 0, 0, 0], 8), ([172, 16, 0, 0], 12), ([192, 168, 0, 0], 16)];
        let all = networks.into_iter().chain([([100, 64, 0, 0], 10)]);
        all.map(|(address, bits)| Prefix::of(address.into(), bits)).collect()
    }
}
