//! Events in the lives of packets, by second of CPU time.

use base::Nanos;
use sim::model::Machine;

use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::flows::SEED;
use crate::place::{cpu_time, on_cpu};
use crate::report::Report;

const POLICIES: [&str; 4] = ["sticky", "modulo", "balanced", "listing3"];

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let cpu = plan.cpus.server;
    let length = plan.pick(Nanos::from_secs(1), Nanos::from_millis(20));
    report.begin(
        "speed",
        &format!(
            "ten modelled cores, 700000 flows, 5 M packets a second of 1 us each for {length}, by the \
             policies over 65536 groups; a packet arrives, is dispatched and is done: three events; one \
             thread on CPU {cpu}, thread CPU time"
        ),
    )?;
    for policy in POLICIES {
        let [rates] = turns_of(plan, report, policy, |_, _| {
            let machine = Machine::new(sim::speed::plan(policy, length), SEED).or_needs("plant")?;
            on_cpu(cpu, || {
                let begin = cpu_time();
                let outcome = machine.run();
                let seconds = cpu_time().since(begin).as_secs_f64();
                Ok(outcome.packet_events as f64 / seconds / 1e6)
            })
        })?;
        let figure = Figure::new(format!("{policy}: packet events"), "M/s", &rates);
        report.figure(figure.target(Target::AtLeast(5.0)))?;
    }
    Ok(())
}
