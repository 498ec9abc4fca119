//! iperf3: one stream each way.

use serde_json::Value;

use super::accelerated::Profile;
use super::asked::ask;
use super::programs::find;
use super::tested_stack::{Offloads, TestedStack};
use super::turns::{Strangers, print_strangers};
use crate::cases::{Plan, in_turns};
use crate::error::Error;
use crate::figure::{Figure, Target};
use crate::place::Cpus;
use crate::report::Report;

const PORT: u16 = 7004;

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "iperf3",
        &format!(
            "iperf3, one stream over veth; its client on CPU {client}, its server on CPU {server} with \
             all of calistod. Ours under `calisto run`; Linux's without XDP: without TSO/GSO/GRO, \
             which is what is compared, with veth's default offloads, and without any, transmit \
             checksums included, as on our wire. In turns."
        ),
    )?;
    let program = find("iperf3", "iperf3")?;
    let linux = |offloads| TestedStack::linux(plan.cpus, offloads);
    let tested_stacks = [
        TestedStack::calisto(plan)?,
        linux(Offloads::Whole)?,
        linux(Offloads::Default)?,
        linux(Offloads::None)?,
    ];
    for (what, option) in [("to the server", None), ("from the server", Some("-R"))] {
        let samples = in_turns(plan, report, what, tested_stacks.len(), |which| {
            measure(plan, &tested_stacks[which], &program, option)
        })?;
        let column = |which: usize| -> Vec<f64> {
            samples[which].iter().map(|(rate, _): &(f64, Strangers)| *rate).collect()
        };
        let own = column(0);
        for (baseline, tested_stack) in tested_stacks.iter().enumerate().skip(1) {
            let figure =
                Figure::new(format!("{what}: {}", tested_stacks[0].name()), "Gbit/s", &own);
            let figure = figure.against(tested_stack.name(), &own, &column(baseline));
            let is_promised = baseline == 1;
            report.figure(if is_promised {
                figure.target(Target::RatioAtLeast(1.0))
            } else {
                figure
            })?;
        }
        let strangers: Vec<Strangers> =
            samples.iter().flatten().map(|&(_, strangers)| strangers).collect();
        print_strangers(report, what, &strangers)?;
    }
    Ok(())
}

fn measure(
    plan: &Plan,
    tested_stack: &TestedStack,
    program: &std::path::Path,
    option: Option<&str>,
) -> Result<(f64, Strangers), Error> {
    let (ip, port) = (tested_stack.address(PORT).ip().to_string(), PORT.to_string());
    let server =
        tested_stack.serve(Profile::Latency, program, &["-s", "-B", &ip, "-p", &port], PORT)?;
    let mut words = vec!["-c", &ip, "-p", &port, "-J", "-t", "1"];
    words.extend(option);
    ask(plan, tested_stack, &server, program, &words, rate_in)
}

/// Gbit/s that arrived.
fn rate_in(json: &str) -> Option<f64> {
    let report: Value = serde_json::from_str(json).ok()?;
    Some(report["end"]["sum_received"]["bits_per_second"].as_f64()? / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrived_counts_and_an_error_is_none() {
        let text = r#"{"end": {"sum_sent": {"bits_per_second": 9e9},
                       "sum_received": {"bits_per_second": 8e9}}}"#;
        assert_eq!(rate_in(text), Some(8.0));
        assert_eq!(rate_in(r#"{"error": "unable to connect"}"#), None);
    }
}
