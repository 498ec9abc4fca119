//! Pure decisions: samples in, plans out; which worker owns which flow group, and which core.
//!
//! A policy asks, the shell acts. Nothing here reads a clock, draws unseeded randomness or
//! performs a move, so the daemon, the simulator and a unit test get the same answers.
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc)]

/// The whole control loop: samples to plan.
pub mod control;
/// Which application gets which core, and when it gives it back.
pub mod cores;
mod number;
/// Exact-match exceptions to the groups: pinned flows.
pub mod overrides;
/// What the shell is asked to do.
pub mod plan;
/// How good a table is: moved flows, balance, sharing.
pub mod quality;
/// Every input of the loop and every answer, written down; and the loop run again from it.
pub mod record;
mod refused;
mod rewrite;
/// What the shell has measured.
pub mod sample;
/// The steering policies.
pub mod steer;
/// Which worker owns which group.
pub mod table;
/// The owner table as text.
pub mod table_text;
mod unknown;

pub use control::{Control, ControlConfig, LeaseState, Place, Placement};
pub use overrides::Overrides;
pub use plan::{Move, Plan};
pub use refused::{PINS_MAX, Refused, check_owners};
pub use sample::{CoreSample, GroupLoad, LoadSample, WorkerSample};
pub use steer::{Steer, SteerConfig, Workers};
pub use table::{Entry, GroupCountError, OwnerTable};
pub use unknown::UnknownPolicy;
