//! `calisto bench apps`: what attached applications cost, how soon one is served, and what a
//! hostile one can do to its neighbours.
//!
//! One file per case. `tenants.rs` is applications and dispatcher on one thread, `harness.rs` a
//! real daemon in a namespace, `neighbour.rs` a process that attaches to it.

mod attach;
mod dispatch;
pub(crate) mod harness;
mod hostile;
mod neighbour;
mod stream;
mod tenants;

use std::io::Write;

use crate::cases::{self, Case, Plan, Size, names};
use crate::error::Error;

/// Settings of `calisto bench apps`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Cases to run; all of them when none is named.
    #[arg(long = "case", value_name = "NAME", num_args = 1.., value_parser = names(&CASES, &[]))]
    pub cases: Vec<String>,

    /// How much of each.
    #[command(flatten)]
    pub size: Size<5>,
}

static CASES: [Case; 3] = [
    Case {
        name: "dispatch",
        help: "16 applications against one of as many workers",
        run: dispatch::run,
    },
    Case {
        name: "attach",
        help: "how soon one is served, and what it leaves behind",
        run: attach::run,
    },
    Case {
        name: "hostile",
        help: "an application with a hostile neighbour, and with a busy one",
        run: hostile::run,
    },
];

/// Runs the cases and prints their figures to `out`: with `json` one object a line, else a table a
/// case.
///
/// # Errors
/// The figures could not be printed.
pub fn run(args: &Args, json: bool, out: &mut dyn Write) -> Result<(), Error> {
    let plan = Plan::new(&args.size);
    cases::run("apps", &CASES, &args.cases, &plan, json, out)
}

#[cfg(test)]
mod tests;
