//! nginx with a small static file, asked by wrk over connections that are kept alive.

use testbed::ScratchDir;

use super::accelerated::Profile;
use super::asked::ask;
use super::contest::{Metric, Round, TestedStacks};
use super::programs::find;
use super::tested_stack::TestedStack;
use crate::cases::Plan;
use crate::error::{Error, OrNeeds};
use crate::figure::Target;
use crate::place::Cpus;
use crate::report::Report;

const PORT: u16 = 7003;

/// As long as the page that nginx comes with.
const FILE_BYTES: usize = 612;

const METRICS: [Metric; 2] = [
    Metric { name: "answered", unit: "requests/s", target: Some(Target::RatioAtLeast(1.2)) },
    Metric { name: "p50", unit: "us", target: None },
];

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "nginx",
        &format!(
            "nginx with one worker on CPU {server}, with all of calistod, a file of {FILE_BYTES} bytes; \
             wrk on CPU {client}: one thread, 50 connections kept alive, over veth. Ours under \
             `calisto run`; Linux's without XDP, with default offloads and without TSO/GSO/GRO. In \
             turns."
        ),
    )?;
    let (nginx, wrk) = (find("nginx", "nginx-light")?, find("wrk", "wrk")?);
    let folder = ScratchDir::new("nginx").or_needs("folder for nginx")?;
    let root = folder.path().display().to_string();
    std::fs::write(folder.path().join("file"), vec![b'.'; FILE_BYTES]).or_needs("file")?;
    let config = folder.path().join("nginx.conf");
    std::fs::write(&config, configuration(&root)).or_needs("configuration of nginx")?;
    let config = config.display().to_string();
    let tested_stacks = TestedStacks::new(plan)?;
    tested_stacks.compare(plan, report, "50 connections", METRICS, |tested_stack: &TestedStack| {
        let words = ["-p", &root, "-c", &config, "-e", "stderr"];
        let server = tested_stack.serve(Profile::Latency, &nginx, &words, PORT)?;
        let url = format!("http://{}/file", tested_stack.address(PORT));
        let words = ["-t", "1", "-c", "50", "-d", "1s", "--latency", &url];
        let (values, strangers) = ask(plan, tested_stack, &server, &wrk, &words, values_in)?;
        Ok(Round { values, strangers })
    })
}

fn configuration(root: &str) -> String {
    format!(
        "daemon off;\nuser root;\nworker_processes 1;\npid {root}/pid;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n  access_log off;\n  sendfile on;\n  tcp_nopush on;\n  keepalive_timeout 60;\n  \
         keepalive_requests 100000000;\n  \
         server {{ listen 0.0.0.0:{PORT}; root {root}; }}\n}}\n"
    )
}

/// Requests a second, and the median in microseconds. Nothing when some were not answered well.
fn values_in(text: &str) -> Option<[f64; 2]> {
    let after = |words: &str| {
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(words))?;
        line.split_ascii_whitespace().next()
    };
    if text.contains("Socket errors:") || text.contains("Non-2xx") {
        return None;
    }
    Some([after("Requests/sec:")?.parse().ok()?, micros_in(after("50%")?)?])
}

/// As wrk writes lengths of time: 12.30us, 1.20ms, 2.00s.
fn micros_in(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_wrk_have_their_units_and_errors_are_no_figures() {
        let text = "  Latency Distribution\n     50%  1.25ms\n     75%  2.00ms\n\
                    Requests/sec:  51234.50\nTransfer/sec: 1MB\n";
        assert_eq!(values_in(text), Some([51234.5, 1250.0]));
        assert_eq!(micros_in("310.00us"), Some(310.0));
        let failed = format!("{text}  Non-2xx or 3xx responses: 7\n");
        assert_eq!(values_in(&failed), None);
    }
}
