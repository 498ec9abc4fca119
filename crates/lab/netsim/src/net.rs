//! TCP engines at the ends of a fabric of switches, in virtual time.
//!
//! Every host is a real [`tcp::Engine`]; every packet is a real segment; links and queues are
//! modelled ([`crate::link`]). An event is a packet that arrives somewhere, a timer of an engine, a
//! flow that begins, or a look at the queues. Start with [`NetPlan`] and [`run`].

mod flow;
mod host;
mod outcome;
mod packets;
mod plan;
mod simulation;
#[cfg(test)]
mod tests;
mod topology;

pub use outcome::{FlowOutcome, Look, NetOutcome};
pub use plan::{LeafSpine, NetPlan, TcpPlan, Traffic};

use crate::Refused;

/// Runs a plan. The same plan and seed give the same outcome.
///
/// # Errors
/// The plan makes no sense; nothing was run.
pub fn run(plan: &NetPlan, seed: u64) -> Result<NetOutcome, Refused> {
    plan.check()?;
    Ok(simulation::Simulation::new(plan, seed).run())
}
