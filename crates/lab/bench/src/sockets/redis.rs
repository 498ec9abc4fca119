//! redis-server, asked by redis-benchmark.

use super::accelerated::Profile;
use super::asked::ask;
use super::contest::{Metric, Round, TestedStacks};
use super::programs::find;
use super::tested_stack::TestedStack;
use crate::cases::Plan;
use crate::error::Error;
use crate::figure::Target;
use crate::place::Cpus;
use crate::report::Report;

const PORT: u16 = 7001;

const TARGET: Option<Target> = Some(Target::RatioAtLeast(1.3));

const METRICS: [Metric; 4] = [
    Metric { name: "GET", unit: "requests/s", target: TARGET },
    Metric { name: "SET", unit: "requests/s", target: TARGET },
    Metric { name: "GET p50", unit: "ms", target: None },
    Metric { name: "SET p50", unit: "ms", target: None },
];

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "redis",
        &format!(
            "redis-server without persistence on CPU {server}, with all of calistod; redis-benchmark \
             on CPU {client}: 50 connections, no pipelining, values of 64 bytes, over veth. Ours under \
             `calisto run`; Linux's without XDP, with default offloads and without TSO/GSO/GRO. In \
             turns."
        ),
    )?;
    let redis = find("redis-server", "redis-server")?;
    let benchmark = find("redis-benchmark", "redis-tools")?;
    let requests = plan.pick(60_000, 5000).to_string();
    let tested_stacks = TestedStacks::new(plan)?;
    tested_stacks.compare(plan, report, "50 connections", METRICS, |tested_stack: &TestedStack| {
        let address = tested_stack.address(PORT);
        let (ip, port) = (address.ip().to_string(), PORT.to_string());
        let words = ["--bind", &ip, "--port", &port, "--protected-mode", "no", "--save", ""];
        let server = tested_stack.serve(Profile::Latency, &redis, &words, PORT)?;
        let words = ["-h", &ip, "-p", &port, "-t", "set,get", "-c", "50", "-d", "64", "--csv"];
        let words = [&words[..], &["-n", &requests]].concat();
        let (values, strangers) = ask(plan, tested_stack, &server, &benchmark, &words, values_in)?;
        Ok(Round { values, strangers })
    })
}

/// Requests a second of GET and SET, and their medians in milliseconds.
fn values_in(csv: &str) -> Option<[f64; 4]> {
    let mut lines = csv.lines().map(|line| line.split(',').map(|cell| cell.trim_matches('"')));
    let names: Vec<&str> = lines.find_map(|cells| {
        let cells: Vec<&str> = cells.collect();
        (cells.first() == Some(&"test")).then_some(cells)
    })?;
    let rows: Vec<Vec<&str>> = lines.map(Iterator::collect).collect();
    let cell = |test: &str, name: &str| {
        let row = rows.iter().find(|row| row.first() == Some(&test))?;
        row.get(names.iter().position(|&column| column == name)?)?.parse::<f64>().ok()
    };
    Some([
        cell("GET", "rps")?,
        cell("SET", "rps")?,
        cell("GET", "p50_latency_ms")?,
        cell("SET", "p50_latency_ms")?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_by_its_names() {
        let csv = "WARNING: something\n\"test\",\"rps\",\"avg_latency_ms\",\"p50_latency_ms\"\n\
                   \"SET\",\"100.5\",\"9\",\"0.25\"\n\"GET\",\"200.5\",\"8\",\"0.5\"\n";
        assert_eq!(values_in(csv), Some([200.5, 100.5, 0.5, 0.25]));
        assert_eq!(values_in("could not connect"), None);
    }
}
