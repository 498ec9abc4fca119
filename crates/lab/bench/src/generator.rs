//! `calisto bench load`: whether the load generator can be trusted, and how much it can send.

mod echo_port;
mod limit;
mod timing;

use std::io::Write;

use crate::cases::{self, Case, Plan, Size, names};
use crate::error::Error;

/// Settings of `calisto bench load`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Cases to run; all of them when none is named.
    #[arg(long = "case", value_name = "NAME", num_args = 1.., value_parser = names(&CASES, &[]))]
    pub cases: Vec<String>,

    /// How much of each.
    #[command(flatten)]
    pub size: Size<5>,
}

static CASES: [Case; 2] = [
    Case { name: "timing", help: "recorded latencies against the TSC's", run: timing::run },
    Case { name: "limit", help: "what leaves by a kernel socket, and sendmmsg's", run: limit::run },
];

/// Runs the cases and prints their figures to `out`: with `json` one object a line, else a table a
/// case.
///
/// # Errors
/// The figures could not be printed.
pub fn run(args: &Args, json: bool, out: &mut dyn Write) -> Result<(), Error> {
    let plan = Plan::new(&args.size);
    cases::run("load", &CASES, &args.cases, &plan, json, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_printed_beside_what_the_counter_says() {
        let size = Size { rounds: Some(1), quick: true };
        let mut out = Vec::new();
        run(&Args { cases: vec!["timing".to_owned()], size }, true, &mut out).expect("memory");
        let out = String::from_utf8(out).expect("text");
        for metric in ["error, p95", "latency, p50", "latency, p95"] {
            let line = out.lines().find(|line| line.contains(metric)).expect(metric);
            let line: serde_json::Value = serde_json::from_str(line).expect("an object a line");
            assert!(line["value"].as_f64().is_some_and(|value| value > 0.0), "{line}");
        }
    }
}
