//! Instructions a request, where the machine has counters for them; most virtual ones have not.

use std::process::{Command, Stdio};

use super::accelerated::Profile;
use super::client::Clients;
use super::dialogue::Dialogue;
use super::echo::{self, PORT};
use super::programs::{Compiled, find};
use super::tested_stack::TestedStack;
use crate::cases::{Plan, in_turns};
use crate::error::{Error, OrNeeds};
use crate::figure::Figure;
use crate::place::on_cpu;
use crate::report::Report;

const CONNECTIONS: usize = 16;

const UNIT: &str = "instructions/request";

/// Everything on the server's CPU: user space and kernel.
pub(super) fn run(
    plan: &Plan,
    report: &mut Report<'_>,
    tested_stacks: &[TestedStack; 2],
    echo: &Compiled,
) -> Result<(), Error> {
    if count(plan.cpus.server, "0.01")?.is_none() {
        let why =
            "this machine has no counters; `calisto bench tcp --case rpc` counts the engine's";
        return report.figure(Figure::missing("instructions a request", why));
    }
    let what = "instructions";
    let samples = in_turns(plan, report, what, tested_stacks.len(), |which| {
        measure(plan, &tested_stacks[which], echo)
    })?;
    for (at, mode) in ["user space", "kernel"].into_iter().enumerate() {
        let column = |which: usize| -> Vec<f64> {
            samples[which].iter().map(|counts: &[f64; 2]| counts[at]).collect()
        };
        let (own, linux) = (column(0), column(1));
        let name = format!("{CONNECTIONS} connections: {}, {mode}", tested_stacks[0].name());
        report.figure(Figure::new(name, UNIT, &own).against(
            tested_stacks[1].name(),
            &own,
            &linux,
        ))?;
    }
    Ok(())
}

fn measure(plan: &Plan, tested_stack: &TestedStack, echo: &Compiled) -> Result<[f64; 2], Error> {
    let _server = echo::start(tested_stack, Profile::Latency, echo, false)?;
    let length = base::Nanos::from_millis(1500);
    tested_stack.witnessed(|| {
        on_cpu(plan.cpus.client, || {
            let mut clients =
                Clients::connect(tested_stack.client(), tested_stack.address(PORT), CONNECTIONS)?;
            let cpu = plan.cpus.server;
            let counting = std::thread::spawn(move || count(cpu, "1"));
            // For longer than is counted.
            let answers = clients.ask(&mut Dialogue::Echo, CONNECTIONS, length)?;
            let counted =
                counting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            let counted = counted.ok_or("they have gone").or_needs("counters of instructions")?;
            Ok(counted.map(|count| count / answers.per_second))
        })
    })
}

/// Instructions of a CPU in some seconds, user space's and the kernel's; none without counters.
fn count(cpu: usize, seconds: &str) -> Result<Option<[f64; 2]>, Error> {
    let mut stat = Command::new(find("perf", "linux-perf")?);
    stat.args(["stat", "-x", ",", "-e", "instructions:u,instructions:k", "-C", &cpu.to_string()]);
    let output = stat.args(["sleep", seconds]).stdin(Stdio::null()).output();
    let output = output.or_needs("perf stat")?;
    Ok(counts_in(&String::from_utf8_lossy(&output.stderr)))
}

/// One line an event, the count first.
fn counts_in(text: &str) -> Option<[f64; 2]> {
    let find = |event: &str| {
        let line = text.lines().find(|line| line.contains(event))?;
        line.split(',').next()?.parse::<f64>().ok()
    };
    Some([find("instructions:u")?, find("instructions:k")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_and_a_machine_without_counters_has_none() {
        let text = "1234,,instructions:u,100,100.00,,\n77,,instructions:k,100,100.00,,\n";
        assert_eq!(counts_in(text), Some([1234.0, 77.0]));
        let text = "<not supported>,,instructions:u,0,100.00,,\n";
        assert_eq!(counts_in(text), None);
    }
}
