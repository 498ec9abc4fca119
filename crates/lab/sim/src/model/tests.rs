//! The machine against theory, against itself, and against what it must never do.

mod behaviour;
mod conservation;
mod handovers;
mod on_demand;
mod recording;
mod theory;
mod traced;

use base::Nanos;
use load::Distribution;

use super::*;

/// One application at one rate on that many cores: a tenth of a second to begin, and a second.
fn plan(cores: u16, app: AppPlan, rate: f64) -> MachinePlan {
    let step = |millis| Step::new(Nanos::from_millis(millis), [rate]);
    MachinePlan {
        cores,
        apps: vec![app],
        steps: vec![step(100), step(1000)],
        ..MachinePlan::default()
    }
}

/// All cores all the time, and ten microseconds of work, exponentially distributed.
fn exponential(workers: u16, system: System) -> AppPlan {
    let app = AppPlan {
        system,
        workers,
        service: Distribution::Exponential,
        service_mean: Nanos::from_micros(10),
        flows: 100_000,
        ..AppPlan::default()
    };
    app.with_cores_of_its_own()
}

fn run(plan: MachinePlan) -> Outcome {
    Machine::simulate(plan, 7).expect("it is possible")
}

/// The only application during the last step.
fn last(outcome: Outcome) -> AppOutcome {
    let mut steps = outcome.steps;
    steps.pop().expect("there are steps").apps.remove(0)
}
