//! `calisto bench wait`: what waiting for many queues costs, and what it costs others.
//!
//! One file per case. `queues.rs` is the queues and the two ways to find what is in them, which
//! most cases compare.

mod corunner;
mod hiccup;
mod idle;
mod latency;
mod queues;
mod ready_queues;
mod tax;
mod throughput;

use std::io::Write;

use crate::cases::{self, Case, Plan, Size, names};
use crate::error::Error;

/// Settings of `calisto bench wait`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Cases to run; all of them when none is named, or `all` is.
    #[arg(long = "case", value_name = "NAME", num_args = 1.., value_parser = names(&CASES, &[ALL]))]
    pub cases: Vec<String>,

    /// How much of each.
    #[command(flatten)]
    pub size: Size<5>,
}

const ALL: &str = "all";

static CASES: [Case; 6] = [
    Case { name: "latency", help: "from a queue to its consumer, 1 to 4096", run: latency::run },
    Case { name: "throughput", help: "all queues busy, and one among many", run: throughput::run },
    Case { name: "idle", help: "a calistod with 1008 attached queues", run: idle::run },
    Case { name: "corunner", help: "a computation beside a waiter", run: corunner::run },
    Case { name: "tax", help: "time and polls that find nothing, by load", run: tax::run },
    Case { name: "hiccup", help: "own queues against shared ones", run: hiccup::run },
];

/// Runs the cases and prints their figures to `out`: with `json` one object a line, else a table a
/// case.
///
/// # Errors
/// The figures could not be printed.
pub fn run(args: &Args, json: bool, out: &mut dyn Write) -> Result<(), Error> {
    let plan = Plan::new(&args.size);
    let is_all = args.cases.iter().any(|name| name == ALL);
    let wanted = if is_all { &[][..] } else { &args.cases };
    cases::run("wait", &CASES, wanted, &plan, json, out)
}

#[cfg(test)]
mod tests;
