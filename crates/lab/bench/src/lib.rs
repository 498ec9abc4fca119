//! Figures with their baselines: every number in the project's documents is printed from here.
//!
//! What must hold: a figure and its baseline are measured in the same run, in turns; a figure is a
//! median with its range; what was missed is printed as missed, and what could not be measured says
//! why. Read `report.rs` for what a figure is, and `steer.rs`, `apps.rs`, `abuse.rs`, `cores.rs`,
//! `tcp.rs`, `sockets.rs`, `outlive.rs`, `slice.rs`, `sim.rs` and `generator.rs` for the lists of
//! cases.
#![forbid(unsafe_code)]

/// `calisto bench abuse`: what attackers take from the honest.
pub mod abuse;
/// `calisto bench apps`: what attached applications cost, and what a hostile one can do.
pub mod apps;
mod cases;
/// `calisto bench cores`: what granting and taking cores costs.
pub mod cores;
mod echo_wire;
mod error;
mod figure;
mod flows;
/// `calisto bench load`: whether the load generator can be trusted, and how much it can send.
pub mod generator;
mod helper;
mod machine;
/// `calisto bench outlive`: what a daemon's end does to connections.
pub mod outlive;
mod place;
#[cfg(test)]
mod printed;
mod process;
mod programs;
mod report;
mod rig;
mod running;
/// `calisto bench sim`: how fast the simulator is.
pub mod sim;
/// `calisto bench slice`: what a slice forwards, and what others do on the same wires.
pub mod slice;
/// `calisto bench sockets`: programs of others on our sockets and on Linux's.
pub mod sockets;
/// `calisto bench steer`: what steering costs, and what a flow's move costs.
pub mod steer;
/// `calisto bench tcp`: what the TCP engine costs, and what Linux's and others cost.
pub mod tcp;
/// `calisto bench wait`: what waiting for many queues costs.
pub mod wait;

pub use cases::Size;
pub use error::Error;
pub use helper::Helper;
/// What `bench helper resident` prints.
pub use steer::print_resident;
