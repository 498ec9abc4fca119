//! Faults on top of any port: loss, reordering, duplicates, corruption, delay, rate, queues, ECN.
//!
//! A [`Line`] is one direction of a bad wire: frames go in, and come out later, changed or not at
//! all. [`Faulty`] puts one in front of each direction of a port. Time is `now` and chance is a
//! seed, so a run can be repeated exactly.

mod config;
mod counters;
mod ecn;
mod line;
mod port;
mod rng;

pub use config::{EcnThreshold, ImpairmentError, Impairments};
pub use counters::LineCounters;
pub use line::Line;
pub use port::Faulty;
