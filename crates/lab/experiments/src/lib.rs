//! Scenarios and figures: what is simulated, and what comes out, as lines of results.
//!
//! A [`Scenario`] is a TOML text: a model, what it is told, an axis that is gone through and some
//! series that differ in a setting or two. A [`Run`] does its jobs, each by itself and from a seed
//! of its own, so that a part of them ([`Shard`]) can be run anywhere: the same seed gives the same
//! bytes. What the models are is in `experiment.rs`, what a key may hold in their tables, what the
//! papers claim in the scenarios.

#![forbid(unsafe_code)]

mod chosen;
mod claim;
mod confidence;
mod document;
mod error;
mod experiment;
mod lines;
mod own_costs;
mod points;
mod run;
mod scenario;
mod setting;
mod shard;
mod sweep;
#[cfg(test)]
mod tests;
mod tornado;

/// The scenarios that come with the program.
pub mod library;
/// Models and their settings, as a person reads them.
pub mod manual;
/// A load of one's own on every policy, and the fewest cores that keep a latency.
pub mod own_load;
/// What the papers say, with the numbers of a run.
pub mod papers;
/// Result files.
pub mod store;

pub use claim::judge;
pub use error::ScenarioError;
pub use own_costs::Costs;
pub use run::{Options, Progress, RUNS, RUNS_MAX, Run, RunError};
pub use shard::Shard;
pub use sweep::Scenario;
pub use tornado::Tornado;
