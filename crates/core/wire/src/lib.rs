//! Pure packet parsing and building: bytes in, a flow or a named reason out.
//!
//! [`classify`] is the way of every packet. It has three outcomes: a flow; not ours (the kernel or
//! a slow path answers); malformed (counted and dropped). Nothing on that way allocates, panics or
//! loops longer than a constant says, whatever the bytes are. Read `classify.rs` first, then the
//! file of the protocol in question.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

pub mod arp;
pub mod build;
mod bytes;
pub mod checksum;
mod classify;
pub mod cut;
pub mod ethernet;
mod flow_key;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
mod reason;
pub mod reply;
#[cfg(test)]
mod samples;
pub mod tcp;
mod toeplitz;
pub mod udp;
pub mod vlan;

pub use classify::{Flow, Outcome, classify};
pub use flow_key::{FlowKey, ParseFlowError, Protocol};
pub use reason::{Malformed, NotOurs, Reject};
pub use toeplitz::Toeplitz;
