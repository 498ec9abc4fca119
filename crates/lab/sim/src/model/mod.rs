//! Modelled cores, rings and links around the real decisions.
//!
//! What is modelled is time: how long a packet occupies the dispatcher and a worker, what a flow
//! costs on a core where its state is not, what it takes to wake a core. Who gets a packet, who
//! gets a core and who gives one back is decided by `policy`, the code that the daemon runs.
//!
//! A [`MachinePlan`] says what is simulated, [`Machine::simulate`] does it, and an [`Outcome`] says
//! what came of it, step by step of the load:
//!
//! ```
//! use base::Nanos;
//! use sim::model::{AppPlan, Machine, MachinePlan, Step, System};
//!
//! let app = AppPlan { system: System::policy("sticky"), workers: 4, ..AppPlan::default() };
//! let second = Nanos::from_secs(1);
//! let steps = vec![Step::new(second, [5_000.0]), Step::new(second, [6_000.0])];
//! let plan = MachinePlan { cores: 4, apps: vec![app], steps, ..MachinePlan::default() };
//! let outcome = Machine::simulate(plan, 42)?;
//! let app = &outcome.steps[1].apps[0];
//! assert!(!app.is_saturated() && app.latency.percentiles().p99_us > 0.0);
//! # Ok::<(), sim::model::PlanError>(())
//! ```
//!
//! Read `machine.rs` first, then a packet's way in `dispatcher.rs` and `work.rs`, and a core's in
//! `cores.rs`.

mod app;
mod check;
mod cores;
mod costs;
mod dispatcher;
mod flows;
mod loads;
mod machine;
mod outcome;
mod steering;
mod step;
mod system;
mod tables;
mod take_back;
#[cfg(test)]
mod tests;
mod trace;
mod waiting;
mod work;
mod worker;

pub use app::AppPlan;
pub use check::PlanError;
pub use costs::{Costs, NamedCost};
pub use flows::Popularity;
pub use machine::{Machine, MachinePlan};
pub use outcome::{AppOutcome, Outcome, StepOutcome};
pub use step::Step;
pub use system::System;
pub use trace::{Trace, Traced};

pub use crate::{Level, Range};
