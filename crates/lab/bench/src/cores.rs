//! `calisto bench cores`: what granting and taking cores costs, and what is left for a batch job.
//!
//! One file per case. `realm.rs` is a dispatcher with its core allocator and the applications that
//! it keeps, all in this process, `attached_client.rs` attaches a real client to it, `hands.rs`
//! moves threads as the daemon does.

mod attached_client;
mod batch;
mod grant;
mod hands;
mod realm;
mod reclaim;
mod roles;
mod sleeper;
mod tick;
mod waiter;

use std::io::Write;

use crate::cases::{self, Case, Plan, Size, names};
use crate::error::Error;

/// Settings of `calisto bench cores`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Cases to run; all of them when none is named.
    #[arg(long = "case", value_name = "NAME", num_args = 1.., value_parser = names(&CASES, &[]))]
    pub cases: Vec<String>,

    /// How much of each.
    #[command(flatten)]
    pub size: Size<5>,
}

static CASES: [Case; 5] = [
    Case { name: "tick", help: "what a look of the core control costs", run: tick::run },
    Case { name: "grant", help: "from a grant to the worker's first instruction", run: grant::run },
    Case { name: "reclaim", help: "the same when a batch job has the core", run: reclaim::run },
    Case { name: "batch", help: "a latency-critical server beside a batch job", run: batch::run },
    Case { name: "roles", help: "the dispatcher's roles as threads and as tasks", run: roles::run },
];

/// Runs the cases and prints their figures to `out`: with `json` one object a line, else a table a
/// case.
///
/// # Errors
/// The figures could not be printed.
pub fn run(args: &Args, json: bool, out: &mut dyn Write) -> Result<(), Error> {
    let plan = Plan::new(&args.size);
    cases::run("cores", &CASES, &args.cases, &plan, json, out)
}

#[cfg(test)]
mod tests;
