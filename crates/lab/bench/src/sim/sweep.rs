//! The sweep of the Calisto paper's figures 6 and 7, and far beyond.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::Nanos;
use sim::model::{AppPlan, Level, Machine, MachinePlan, Step, System};

use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::figure::{Figure, Target};
use crate::flows::SEED;
use crate::report::Report;

/// Threads that share the runs.
const THREADS: usize = 2;

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let length = plan.pick(Nanos::from_secs(5), Nanos::from_millis(50));
    let runs = runs(length);
    report.begin(
        "sweep",
        &format!(
            "ten modelled cores, 700000 flows, 5000 to 14000 packets a second and 30000 to 3000000, {} steps \
             of {length} (those beyond 100000 a second a twentieth of it); {} systems, each at its low, \
             median and high costs; {THREADS} threads, wall time",
            runs[0].steps.len(),
            runs.len() / Level::ALL.len()
        ),
    )?;
    let [seconds] = turns_of(plan, report, "", |_, _| {
        let begin = sys::clock::now();
        simulate(&runs)?;
        Ok(sys::clock::now().since(begin).as_secs_f64())
    })?;
    let figure = Figure::new("the whole sweep", "s", &seconds);
    report.figure(figure.target(Target::AtMost(60.0)))?;
    let memory = most_memory().or_needs("figure of the memory")?;
    report.figure(Figure::new("most memory", "MiB", &[memory]).target(Target::AtMost(1024.0)))
}

fn runs(length: Nanos) -> Vec<MachinePlan> {
    let slow = (5..=14).map(|kilo| (f64::from(kilo) * 1e3, length));
    let fast = [3e4, 1e5, 3e5, 1e6, 3e6].map(|rate| (rate, length));
    let steps = slow.chain(fast).map(|(rate, length)| {
        let length = if rate > 1e5 { Nanos(length.0 / 20) } else { length };
        Step::new(length, [rate])
    });
    let steps: Vec<Step> = steps.collect();
    let policies = ["listing3", "modulo", "hybrid", "prefilled", "sticky", "balanced"];
    let ours = policies.map(System::policy);
    let systems = [System::Shenango, System::PublicCode].into_iter().chain(ours);
    let run = |system: System| {
        let app = AppPlan { system, workers: 10, flows: 700_000, ..AppPlan::default() };
        let plan = MachinePlan { apps: vec![app], steps: steps.clone(), ..MachinePlan::default() };
        Level::ALL.map(|level| MachinePlan { level, ..plan.clone() })
    };
    systems.flat_map(run).collect()
}

fn simulate(runs: &[MachinePlan]) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let refused = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(plan) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if unless_interrupted().is_err() {
                        return;
                    }
                    if let Err(error) = Machine::simulate(plan.clone(), SEED) {
                        *refused.lock().expect("nobody panics with it") = Some(error);
                    }
                }
            });
        }
    });
    unless_interrupted()?;
    let refused = refused.into_inner().expect("nobody panics with it");
    refused.map_or(Ok(()), |error| Err(error).or_needs("plant"))
}

/// The most memory that this process has had, in MiB.
fn most_memory() -> Result<f64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kilobytes
        .map(|kilobytes| kilobytes / 1024.0)
        .ok_or_else(|| "/proc/self/status has none".to_owned())
}
