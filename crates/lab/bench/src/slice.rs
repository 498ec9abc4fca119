//! `calisto bench slice`: what a slice forwards, and what others do on the same wires.
//!
//! One file per case. `wires.rs` is what packets cross, `generator.rs` and `sink.rs` its two ends,
//! `forwarder.rs` whoever stands between them; `memory.rs` a slice without any of that, `works.rs`
//! the functions that are measured there; `tables.rs` the forwarding tables of other crates,
//! `ciphers.rs` programs that only encrypt.

mod absent;
mod carry;
mod change;
mod ciphers;
mod cycles;
mod esp;
mod forward;
mod forwarder;
mod functions;
mod generator;
mod in_process;
mod memory;
mod overload;
mod rig;
mod router;
mod sink;
mod table;
mod tables;
mod tools;
mod wires;
mod works;

use std::io::Write;
use std::path::PathBuf;

use crate::cases::{self, Case, Plan, Size, names};
use crate::error::Error;
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

    /// Routes of the cases router, cycles and cores: lines of a prefix and a number [default: the
    /// one of the crate iptrie, where cargo has its source].
    #[arg(long, value_name = "FILE")]
    pub table: Option<PathBuf>,
}

static CASES: [Case; 6] = [
    Case { name: "forward", help: "packets a second between two wires", run: forward::run },
    Case { name: "overload", help: "twice as many as can be forwarded", run: overload::run },
    Case { name: "router", help: "tables of the Internet's routes", run: router::run },
    Case { name: "esp", help: "encryption on one core", run: esp::run },
    Case { name: "cycles", help: "what a function costs by itself", run: cycles::cycles },
    Case { name: "cores", help: "slices on several cores, and one", run: cycles::cores },
];

/// Runs the cases and prints their figures to `out`: with `json` one object a line, else a table a
/// case.
///
/// # Errors
/// The figures could not be printed, or there is no second CPU.
pub fn run(args: &Args, json: bool, out: &mut dyn Write) -> Result<(), Error> {
    let (cores, table) = (usize::from(args.cores), args.table.clone());
    let plan = Plan { cores, table, ..Plan::new(&args.size) };
    plan.cpus.need_two()?;
    let _priority = Priority::take();
    cases::run("slice", &CASES, &args.cases, &plan, json, out)
}

#[cfg(test)]
mod tests;
