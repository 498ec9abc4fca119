//! One whole data path and its clients, in virtual time.
//!
//! The data path is the daemon's own: dispatcher, steering, hand-overs, workers with their TCP
//! engines, frames and rings, over a port in memory. Its clients are engines behind links of their
//! own. Whatever links do and however workers come and go, every byte comes back once and in order,
//! or the outcome says so. Start with [`WholePlan`] and [`run`].

mod client;
mod frames;
mod outcome;
mod plan;
pub(crate) mod server;
mod simulation;
#[cfg(test)]
mod tests;

pub use outcome::WholeOutcome;
pub use plan::{WholePlan, WorkerStep};

use crate::Refused;

/// Runs a plan. The same plan and seed give the same outcome.
///
/// # Errors
/// The plan makes no sense; nothing was run.
pub fn run(plan: &WholePlan, seed: u64) -> Result<WholeOutcome, Refused> {
    plan.check()?;
    Ok(simulation::Simulation::new(plan, seed)?.run())
}
