//! `calisto bench slice`: what a slice forwards, and what others do on the same wires.
//!
//! One file per case. `wires.rs` is what packets cross, `generator.rs` and `sink.rs` its two ends,
//! `forwarder.rs` whoever stands between them.

mod forward;
mod forwarder;
mod generator;
mod in_process;
mod rig;
mod sink;
mod tools;
mod wires;

use std::io::Write;

use crate::cases::{self, Case, Plan, Size, names};
use crate::error::{Error, OrNeeds};
use crate::sockets::priority::Priority;

/// Settings of `calisto bench slice`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Cases to run; all of them when none is named.
    #[arg(long = "case", value_name = "NAME", num_args = 1.., value_parser = names(&CASES, &[]))]
    pub cases: Vec<String>,

    /// How much of each.
    #[command(flatten)]
    pub size: Size<5>,
}

static CASES: [Case; 1] =
    [Case { name: "forward", help: "packets a second between two wires", run: forward::run }];

/// Runs the cases and prints their figures to `out`: with `json` one object a line, else a table a
/// case.
///
/// # Errors
/// The figures could not be printed, or there is no second CPU.
pub fn run(args: &Args, json: bool, out: &mut dyn Write) -> Result<(), Error> {
    let plan = Plan::new(&args.size);
    if !plan.cpus.are_two() {
        return Err("there is one").or_needs("second CPU");
    }
    let _priority = Priority::take();
    cases::run("slice", &CASES, &args.cases, &plan, json, out)
}

#[cfg(test)]
mod tests;
