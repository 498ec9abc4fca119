//! Pure decisions: samples in, plans out; which worker owns which flow group, and which core.
//!
//! A policy asks; the shell acts. Nothing here reads a clock, draws unseeded randomness or performs
//! a move, so the daemon, the simulator and a unit test get the same answers.
//!
//! A shell that carries out at once what the control loop plans; one worker of two goes:
//!
//! ```
//! use base::{FlowGroup, Nanos, WorkerId};
//! use policy::steer::{self, SteerConfig};
//! use policy::{Control, ControlConfig, CoreSample, OwnerTable, Placement, Plan};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut live = OwnerTable::new(128, 0)?;
//! let mut shadow = live.clone();
//! let sticky = steer::by_name("sticky", SteerConfig { groups: live.len(), seed: 1 })?;
//! let mut control = Control::new(ControlConfig::default(), sticky, live.len());
//! control.set_workers(&[WorkerId(0), WorkerId(1)]);
//!
//! // The first packet of each group finds no owner, and gets one.
//! let mut now = Nanos::from_millis(1);
//! for group in (0..128).map(FlowGroup) {
//!     let placed = control.place(group, &mut live, &mut shadow, now);
//!     let Some(Placement::Now(worker)) = placed else { panic!("nothing is to be handed over") };
//!     assert_eq!(live.entry(group).owner(), Some(worker));
//! }
//!
//! // Ticks plan how the groups of a worker that leaves get to the other one.
//! control.set_workers(&[WorkerId(0)]);
//! let mut plan = Plan::default();
//! for _ in 0..100 {
//!     now += Nanos::from_millis(1);
//!     let sample = CoreSample { now, workers: Vec::new() };
//!     control.tick(&sample, None, &mut live, &mut shadow, &mut plan);
//!     if plan.publish {
//!         std::mem::swap(&mut live, &mut shadow);
//!         control.epoch_finished();
//!     }
//!     for planned in plan.moves.drain(..) {
//!         control.moved(planned, &mut live);
//!     }
//! }
//! let owners = (0..128).map(|group| live.entry(FlowGroup(group)).owner());
//! assert!(owners.into_iter().all(|owner| owner == Some(WorkerId(0))));
//! # Ok(())
//! # }
//! ```
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
/// Recordings of the loop: every input with its answer, and its replay.
pub mod record;
mod refused;
mod rewrite;
/// What the shell measured: a policy's only input.
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
