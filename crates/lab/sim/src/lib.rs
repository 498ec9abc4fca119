//! The data plane's own decisions in virtual time.
//!
//! A simulation is a loop over an [`EventQueue`]: the clock jumps from event to event, everything
//! random comes from one seed, and so the same plan and seed give the same outcome, byte for byte.
//! What a model says is checked where mathematics has the answer ([`closed_form`]), within bounds
//! that come from the run itself ([`BatchMeans`]). What things cost has a [`Range`]: a run takes
//! one [`Level`] of all of them, and three runs make a band.

#![forbid(unsafe_code)]

mod batch_means;
/// What queueing theory knows exactly.
pub mod closed_form;
/// Who serves whom next: the disciplines of other systems, and what they cost.
pub mod disciplines;
mod event_queue;
mod histogram;
/// Cores, rings and links around the real decisions.
pub mod model;
mod range;
/// Spinning over queues against asking a ready set, and own queues against shared ones.
pub mod scan;
/// Packets that programs forward over some CPUs: slices, a raw socket, the kernel.
pub mod slices;
/// A load by which the simulator's own speed is measured.
pub mod speed;
/// A queue in front of some servers: the simplest model, and the one that theory can check.
pub mod theory_queue;

pub use batch_means::{BatchMeans, Interval};
pub use event_queue::EventQueue;
pub use histogram::Histogram;
pub use range::{Level, Range};
