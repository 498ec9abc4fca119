//! Load generator: requests on a schedule that no reply can bend, latency from the intended time.
//!
//! A [`Plan`] says what is sent and when, before the first packet leaves: from a seed, so that it can
//! be repeated. Each thread runs one [`Lane`]: it sends what is due, receives what has come, and
//! accounts for it ([`Tally`]). How packets travel is a [`Transport`]; arrivals, flow order and work
//! are a file each. [`udp::run`] is all of it together; read `lane.rs` first.
#![forbid(unsafe_code)]

mod arrival;
mod check;
mod closed_loop;
mod error;
mod flow_order;
mod hdr_log;
mod lane;
mod latency;
mod live;
mod open_loop;
mod plan;
mod quantity;
mod random;
mod report;
mod request;
mod run;
mod schedule;
mod tally;
#[cfg(test)]
mod tests;
/// Ways for requests to travel.
pub mod transport;
/// The command `load udp`.
pub mod udp;
mod window;
mod work;

pub use arrival::Arrival;
pub use check::Check;
pub use error::Error;
pub use flow_order::FlowOrder;
pub use lane::{Lane, Turn};
pub use latency::{Latencies, Percentiles};
pub use plan::{LaneCount, Pace, Plan};
pub use quantity::{parse_duration, parse_rate};
pub use random::Random;
pub use report::{Report, StolenTime};
pub use request::{REQUEST_BYTES, Request};
pub use run::{Options, run};
pub use schedule::Schedule;
pub use tally::Tally;
pub use transport::{Reply, Transport, TransportCounters};
pub use window::Window;
pub use work::Distribution;
