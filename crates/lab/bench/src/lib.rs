//! Figures with their baselines: every number in the project's documents is printed from here.
//!
//! What must hold: a figure and its baseline are measured in the same run, in turns; a figure is a
//! median with its range; what was missed is printed as missed, and what could not be measured says
//! why. Read `cases.rs` for what a bench is, `report.rs` for what a figure is, and `command.rs` for
//! the list of benches.
#![forbid(unsafe_code)]

mod abuse;
mod apps;
mod cases;
mod command;
mod cores;
mod costs;
mod echo_wire;
mod error;
mod figure;
mod flows;
mod generator;
mod helper;
mod limits;
mod machine;
mod outlive;
mod place;
#[cfg(test)]
mod printed;
mod priority;
mod process;
mod programs;
mod report;
mod rig;
mod running;
mod sim;
mod slice;
mod sockets;
mod steer;
mod tcp;
mod wait;

pub use command::Command;
pub use error::Error;
pub use steer::{print_resident, steady_state_allocations};
