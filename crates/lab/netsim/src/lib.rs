//! The real data path and the real TCP over modelled links, in virtual time.
//!
//! Links are modelled: a rate, a delay, a bounded queue, marks, losses. What sends and receives is
//! the code that the daemon runs: [`net`] has bare TCP engines at the ends of a fabric of switches,
//! [`whole`] a whole data path (dispatcher, workers, steering, hand-overs) behind a link, [`demo`]
//! what `calisto demo` shows, predicted, and [`connections`] a server with many connections. A plan
//! goes in, an outcome comes out: the same plan and seed give the same outcome, byte for byte.

#![forbid(unsafe_code)]

/// A server's throughput against its connections.
pub mod connections;
/// What the first act of `calisto demo` shows, predicted.
pub mod demo;
mod depths;
/// A queue and a wire.
pub mod link;
/// TCP engines on a fabric of switches.
pub mod net;
mod refused;
mod sizes;
mod statistics;
/// One data path and its clients.
pub mod whole;

pub use depths::Depths;
pub use refused::Refused;
pub use sizes::{Sizes, WEB_SEARCH};
pub use statistics::{jain, quantile};
