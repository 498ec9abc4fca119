//! NICs and things that look like one, behind one trait: AF_XDP, packet sockets, TAP, capture
//! files, wires in memory, and faults on top of any of them.
//!
//! One of the crates that may use `unsafe`; everything it exports is safe. A port moves batches of
//! frames of one pool; one thread owns both. Start with [`Port`]; a program that takes ports from
//! its user reads [`PortSpec`]s and opens them with an [`Opener`].

/// A packet socket as a port.
pub mod af_packet;
mod any;
mod checksum;
mod counters;
/// Faults on top of any port.
pub mod faulty;
/// Which packets are wanted, as tcpdump would say it.
pub mod filter;
mod finish;
/// What the kernel may finish before anybody receives it.
pub mod hook;
mod mapping;
/// A wire in memory.
pub mod memory;
mod open_error;
mod opener;
/// Capture files as a port.
pub mod pcap;
mod port;
mod sockopt;
mod spec;
mod stations;
/// A TAP interface as a port.
pub mod tap;
/// AF_XDP: packets of any NIC, chosen by a small program in the kernel.
pub mod xdp;

pub use any::AnyPort;
pub use counters::PortCounters;
pub use filter::{Filter, FilterError, Judge};
pub use open_error::OpenError;
pub use opener::Opener;
pub use port::{Capabilities, Fault, LinkChecksums, Port, Queues};
pub use spec::{PortSpec, SpecError};
pub use stations::{ADDRESS_MASK, Stations};
