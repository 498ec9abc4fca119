//! Load generator: requests on a schedule that no reply can bend, latency from the intended time.
//!
//! A [`Plan`] says what is sent and when, before the first packet leaves: from a seed, so that it
//! can be repeated. Each thread runs one [`Shard`]: it sends what is due, receives what has come,
//! and accounts for it ([`Stats`]). How requests travel is a [`Transport`], what they say on a
//! stream is `protocol.rs`; arrivals, changes of the rate, flow order and work are a file each.
//! [`udp::run`] is all of it together; read `shard.rs` first.
#![forbid(unsafe_code)]

mod args;
mod arrival;
mod barrier;
mod check;
mod closed_loop;
mod error;
mod flow_order;
mod hdr_log;
/// The command `load http`.
pub mod http;
mod latency;
mod live;
mod open_loop;
mod parts;
mod plan;
mod profile;
/// What is said on connections.
pub mod protocol;
mod quantity;
mod random;
mod report;
mod request;
mod run;
mod schedule;
mod shard;
mod stats;
/// The commands `load memcached` and `load redis`.
pub mod store;
/// The command `load tcp`, and what all loads on connections share.
pub mod tcp;
#[cfg(test)]
mod tests;
/// Ways for requests to travel.
pub mod transport;
/// The command `load udp`.
pub mod udp;
mod window;
mod work;
mod zipf;

pub use args::Common;
pub use arrival::Arrival;
pub use barrier::{BARRIER_PORT, Barrier};
pub use check::Check;
pub use error::Error;
pub use flow_order::FlowOrder;
pub use latency::{Latencies, Percentiles};
pub use plan::{Pace, Plan, ShardCount};
pub use profile::{PIECES_MAX, Piece, Profile};
pub use quantity::{parse_duration, parse_rate};
pub use random::Random;
pub use report::{Rates, Replies, Report, Requests, Run, Step, StolenTime, Times};
pub use request::{REQUEST_BYTES, Request};
pub use run::{Options, run};
pub use schedule::Schedule;
pub use shard::{Shard, Turn};
pub use stats::Stats;
pub use transport::{Answer, Reply, Transport, TransportCounters};
pub use window::Window;
pub use work::{Distribution, Work};
pub use zipf::Zipf;
