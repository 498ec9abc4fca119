//! What the example applications share: their options, their threads, their end; and DNS.
//!
//! Each program is a [`Service`]: what it does with one packet. [`run`] is the rest of it.
#![forbid(unsafe_code)]

mod cpus;
/// Answers to DNS queries (RFC 1035), apart from where they come from.
pub mod dns;
mod options;
mod program;
mod report;

pub use cpus::Cpus;
pub use options::Options;
pub use program::{Service, run};
