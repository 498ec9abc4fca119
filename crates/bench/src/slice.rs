//! `calisto bench slice`: what a slice forwards, and what others do on the same wires.
//!
//! One file per case. `wires.rs` is what packets cross, `generator.rs` and `sink.rs` its two ends,
//! `forwarder.rs` whoever stands between them; `memory.rs` a slice without any of that, `works.rs` the
//! functions that are measured there.

mod carry;
mod cycles;
mod forward;
mod forwarder;
mod generator;
mod in_process;
mod memory;
mod overload;
mod rig;
mod sink;
mod talker;
mod tools;
mod wires;
mod works;

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

    /// Slices of case cores, each on a CPU of its own.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub cores: u16,
}

static CASES: [Case; 4] = [
    Case { name: "forward", help: "packets a second between two wires", run: forward::run },
    Case { name: "overload", help: "twice as many as can be forwarded", run: overload::run },
    Case { name: "cycles", help: "what a function costs by itself", run: cycles::cycles },
    Case { name: "cores", help: "slices on several cores, and one", run: cycles::cores },
];

/// Runs the cases and prints their figures to `out`: with `json` one object a line, else a table a
/// case.
///
/// # Errors
/// The figures could not be printed, or there is no second CPU.
pub fn run(args: &Args, json: bool, out: &mut dyn Write) -> Result<(), Error> {
    let plan = Plan { cores: usize::from(args.cores), ..Plan::new(&args.size) };
    if !plan.cpus.are_two() {
        return Err("there is one").or_needs("second CPU");
    }
    let _priority = Priority::take();
    cases::run("slice", &CASES, &args.cases, &plan, json, out)
}

#[cfg(test)]
mod tests;
