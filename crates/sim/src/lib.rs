//! The data plane's own decisions in virtual time.
//!
//! A simulation is a loop over an [`EventQueue`]: the clock jumps from event to event, everything random
//! comes from one seed, and so the same scenario and seed give the same result, byte for byte. What a
//! model says is checked where mathematics has the answer ([`closed_form`]), within bounds that come
//! from the run itself ([`BatchMeans`]).

#![forbid(unsafe_code)]

mod batch_means;
/// What queueing theory knows exactly.
pub mod closed_form;
mod event_queue;
/// Cores, rings and links around the real decisions.
pub mod model;
/// A queue in front of some servers: the simplest model, and the one that theory can check.
pub mod station;

pub use batch_means::{BatchMeans, Interval};
pub use event_queue::EventQueue;
