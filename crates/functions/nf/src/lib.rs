//! Pure network functions: a batch in, a verdict for each packet, counters by reason.
//!
//! A [`Function`] looks at the packets that are still undecided, says of each what is to become of
//! it, and may rewrite it in place. It reads no clock, takes no lock and allocates nothing; what it
//! needs to know of the world comes between two batches. One file is one function, and begins with
//! its manual page ([`manual`]).
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc)]

#[macro_use]
mod counters;
/// Permitting and denying by rules.
pub mod acl;
/// Sharing services among servers.
pub mod balancer;
mod bucket;
/// What the functions' capacity is measured with.
pub mod capacity;
mod checksum;
/// ESP tunnels between networks.
pub mod esp;
/// Forwarding tables, and the steps that change them while packets flow.
pub mod fib;
/// Letting connections begin where rules permit it.
pub mod firewall;
mod function;
mod headers;
mod icmp;
/// Forwarding between pairs of ports, as a wire does.
pub mod l2;
/// The manual pages of the functions.
pub mod manual;
/// Sending copies of packets out by another port.
pub mod mirror;
/// Translating addresses inside into a few outside.
pub mod nat;
mod own;
mod places;
/// Limiting how much of a kind of traffic passes.
pub mod policer;
mod prefix;
mod rewrite;
/// Routes and neighbours on the control side.
pub mod rib;
/// Forwarding by destination.
pub mod router;
#[cfg(test)]
mod samples;
mod selector;
mod tag;
/// Which connection a packet is of.
pub mod track;
/// Carrying packets inside others: IPIP and GRE.
pub mod tunnel;
mod verdict;

pub use acl::Acl;
pub use balancer::Balancer;
pub use checksum::complete_here as complete_checksum;
pub use esp::Esp;
pub use fib::{Fib, FibChange, Neighbour, NextHop};
pub use firewall::Firewall;
pub use function::{EachNamed, Function};
pub use l2::L2;
pub use mirror::Mirror;
pub use nat::Nat;
pub use own::Own;
pub use policer::Policer;
pub use prefix::{Prefix, PrefixError};
pub use rib::{Rib, RibError};
pub use router::Router;
pub use selector::{PortRange, Selector, SelectorError};
pub use tunnel::Tunnel;
pub use verdict::{Verdict, Verdicts};
