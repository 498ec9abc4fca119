//! Whether a plan can be run, and a sentence that says why not.

use std::fmt;

use base::{Nanos, WorkerId};
use policy::cores::CoresRefused;
use policy::{GroupCountError, UnknownPolicy};

use super::app::AppPlan;
use super::flows::Popularity;
use super::machine::MachinePlan;

/// Flows of an application, at most: 256 MB of them.
const FLOWS_MAX: u32 = 1 << 24;
/// The same of all applications together: half a gigabyte.
const ALL_FLOWS_MAX: u64 = 1 << 25;
/// Flow groups of all applications together, at most: with what is noted of each, as much again.
const ALL_GROUPS_MAX: u64 = 1 << 25;
/// Outcomes, at most: one for each application in each step, of some kilobytes when it is full.
const OUTCOMES_MAX: usize = 1 << 17;
/// Flows of all applications that come and go in a run, at most: some minutes of work.
const COMINGS_MAX: f64 = 1e8;
/// Packets of a ring, at most.
const RING_MAX: usize = 1 << 20;
/// Packets a second, at most: ten times what a dispatcher can do.
const RATE_MAX: f64 = 1e9;
/// A step is no longer than this.
const LENGTH_MAX: Nanos = Nanos::from_secs(3600);

/// Why a plan cannot be run.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanError {
    /// A number is outside what is possible.
    Field {
        /// Which, as a path of fields: `apps[2].flows`.
        field: String,
        /// What it is.
        given: String,
        /// What it may be.
        allowed: String,
    },
    /// No policy has that name.
    Policy(UnknownPolicy),
    /// This many flow groups are not possible.
    Groups(GroupCountError),
    /// The cores cannot be given out like that.
    Cores(CoresRefused),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field { field, given, allowed } => {
                write!(f, "{field} is {given}: it can be {allowed}")
            }
            Self::Policy(unknown) => unknown.fmt(f),
            Self::Groups(refused) => refused.fmt(f),
            Self::Cores(refused) => refused.fmt(f),
        }
    }
}

impl std::error::Error for PlanError {}

impl MachinePlan {
    /// Whether it can be run. [`super::Machine::new`] asks the same, and the policies besides.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), PlanError> {
        within("cores", self.cores, 1, 4096)?;
        length("interval", self.interval, Nanos(1000), Nanos::from_millis(10))?;
        within("the number of apps", self.apps.len(), 1, 4096)?;
        within("the number of steps", self.steps.len(), 1, usize::from(u16::MAX) - 1)?;
        for (at, app) in self.apps.iter().enumerate() {
            check_app(app, &format!("apps[{at}]"))?;
        }
        let workers: usize = self.apps.iter().map(|app| usize::from(app.workers)).sum();
        within("the sum of all workers", workers, 1, usize::from(WorkerId::LIMIT))?;
        let flows: u64 = self.apps.iter().map(|app| u64::from(app.flows)).sum();
        within("the sum of all flows", flows, 1, ALL_FLOWS_MAX)?;
        let groups: u64 = self.apps.iter().map(|app| u64::from(app.system.groups())).sum();
        within("the sum of all groups", groups, 0, ALL_GROUPS_MAX)?;
        let outcomes = self.apps.len() * self.steps.len();
        within("the number of steps times that of apps", outcomes, 1, OUTCOMES_MAX)?;
        for (at, step) in self.steps.iter().enumerate() {
            let field = |name: &str| format!("steps[{at}].{name}");
            length(&field("length"), step.length, Nanos(1), LENGTH_MAX)?;
            let apps = self.apps.len();
            within(&field("rates: their number"), step.rates.len(), apps, apps)?;
            for (app, rate) in step.rates.iter().enumerate() {
                real(&field(&format!("rates[{app}]")), *rate, 0.0, RATE_MAX)?;
            }
            if !step.workers.is_empty() {
                within(&field("workers: their number"), step.workers.len(), apps, apps)?;
                for (app, (workers, of)) in step.workers.iter().zip(&self.apps).enumerate() {
                    within(&field(&format!("workers[{app}]")), *workers, 1, of.workers)?;
                }
            }
        }
        let span: f64 = self.steps.iter().map(|step| step.length.as_secs_f64()).sum();
        let churn_max = COMINGS_MAX / (span * self.apps.len() as f64);
        for (at, app) in self.apps.iter().enumerate() {
            real(&format!("apps[{at}].churn"), app.churn, 0.0, churn_max.floor())?;
        }
        Ok(())
    }
}

fn check_app(app: &AppPlan, path: &str) -> Result<(), PlanError> {
    let field = |name: &str| format!("{path}.{name}");
    within(&field("workers"), app.workers, 1, WorkerId::LIMIT - 1)?;
    within(&field("guaranteed"), app.guaranteed, 0, app.workers)?;
    within(&field("flows"), app.flows, 1, FLOWS_MAX)?;
    within(&field("ring"), app.ring, 1, RING_MAX)?;
    length(&field("service_mean"), app.service_mean, Nanos::ZERO, Nanos::from_secs(1))?;
    real(&field("churn"), app.churn, 0.0, RATE_MAX)?;
    if let Popularity::Zipf { exponent } = app.popularity {
        real(&field("popularity.exponent"), exponent, 0.0, 4.0)?;
    }
    if let Some(trace) = &app.trace {
        within(&field("trace: flows"), trace.flows(), 1, app.flows)?;
        length(&field("trace: length"), trace.length(), Nanos::ZERO, LENGTH_MAX)?;
    }
    if app.quantum < Nanos(100) {
        return length(&field("quantum"), app.quantum, Nanos(100), Nanos::FAR_FUTURE);
    }
    app.system.check()
}

fn within<T>(field: &str, given: T, least: T, most: T) -> Result<(), PlanError>
where
    T: PartialOrd + fmt::Display + Copy,
{
    if (least..=most).contains(&given) {
        return Ok(());
    }
    let allowed = if least == most { least.to_string() } else { format!("from {least} to {most}") };
    Err(PlanError::Field { field: field.to_owned(), given: given.to_string(), allowed })
}

fn length(field: &str, given: Nanos, least: Nanos, most: Nanos) -> Result<(), PlanError> {
    within(field, given, least, most)
}

fn real(field: &str, given: f64, least: f64, most: f64) -> Result<(), PlanError> {
    // Not a number is within nothing.
    within(field, given, least, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Step, System};

    fn plan() -> MachinePlan {
        MachinePlan {
            apps: vec![AppPlan::default()],
            steps: vec![Step::new(Nanos::from_millis(1), [1000.0])],
            ..MachinePlan::default()
        }
    }

    #[test]
    fn nonsense_is_a_sentence_that_names_the_field_and_what_is_possible() {
        type Spoil = fn(&mut MachinePlan);
        let cases: [(Spoil, &str); 16] = [
            (|plan| plan.cores = 0, "cores is 0: it can be from 1 to 4096"),
            (|plan| plan.interval = Nanos::ZERO, "interval is 0 ns: it can be from 1.0 us"),
            (|plan| plan.apps.clear(), "the number of apps is 0"),
            (|plan| plan.steps.clear(), "the number of steps is 0"),
            (|plan| plan.apps[0].flows = 0, "apps[0].flows is 0: it can be from 1 to 16777216"),
            (|plan| plan.apps[0].workers = 0, "apps[0].workers is 0"),
            (|plan| plan.steps[0].rates[0] = -1.0, "steps[0].rates[0] is -1: it can be from 0"),
            (|plan| plan.steps[0].rates[0] = f64::NAN, "steps[0].rates[0] is NaN"),
            (|plan| plan.steps[0].rates.push(1.0), "steps[0].rates: their number is 2"),
            (|plan| plan.steps[0].length = Nanos::ZERO, "steps[0].length is 0 ns"),
            (
                |plan| plan.apps[0].system = System::policy("stiky"),
                "no steering policy is called \"stiky\"; did you mean \"sticky\"?",
            ),
            (
                |plan| plan.apps[0].system = System::policy_over("sticky", 1000),
                "1000 flow groups are not possible",
            ),
            (
                |plan| {
                    let system = System::policy_over("sticky", 1 << 20);
                    plan.apps = vec![AppPlan { system, ..AppPlan::default() }; 2000];
                },
                "the sum of all groups is 2097152000: it can be from 0 to 33554432",
            ),
            (
                |plan| plan.apps = vec![AppPlan { flows: 1 << 24, ..AppPlan::default() }; 3],
                "the sum of all flows is 50331648: it can be from 1 to 33554432",
            ),
            (
                |plan| {
                    let system = System::OneQueue;
                    plan.apps = vec![AppPlan { system, ..AppPlan::default() }; 4000];
                    plan.steps = vec![Step::new(Nanos(1), [0.0]); 60_000];
                },
                "the number of steps times that of apps is 240000000",
            ),
            (
                |plan| {
                    plan.apps[0].churn = 1e8;
                    plan.steps[0].length = Nanos::from_secs(600);
                },
                "apps[0].churn is 100000000: it can be from 0 to 166666",
            ),
        ];
        assert_eq!(plan().check(), Ok(()));
        for (spoil, expected) in cases {
            let mut plan = plan();
            spoil(&mut plan);
            let said = plan.check().expect_err(expected).to_string();
            assert!(said.contains(expected), "{said}");
        }
    }
}
