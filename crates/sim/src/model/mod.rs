//! Modelled cores, rings and links around the real decisions.
//!
//! What is modelled is time: how long a packet occupies the dispatcher and a worker, what a flow costs on
//! a core where its state is not, what it takes to wake a core. Who gets a packet, who gets a core and who
//! gives one back is decided by `policy`, the code that the daemon runs. Start with [`Plant`].

mod app;
mod cores;
mod costs;
mod flows;
mod outcome;
mod packets;
mod plant;
mod steering;
#[cfg(test)]
mod tests;
mod worker;

pub use app::{AppPlan, Step};
pub use costs::{Costs, Level, Range};
pub use flows::Popularity;
pub use outcome::{AppOutcome, Outcome};
pub use plant::{Plant, PlantPlan};
pub use steering::System;
