//! `calisto bench outlive`: what connections notice of the daemon's end.
//!
//! `text.rs` is what a connection says and how a wrong byte is told, `callers.rs` who asks,
//! `death.rs` one end of a daemon under that, `figures.rs` what is printed.

mod callers;
mod death;
mod figures;
mod text;

use std::io::Write;

use crate::cases::{self, Case, DeathSize, Plan, Size, names};
use crate::error::{Error, OrNeeds};
use crate::machine;
use crate::report::Report;
use crate::sockets::limits;
use crate::sockets::priority::Priority;
use death::{Way, play};

/// Deaths unless somebody wants another number.
const ROUNDS: u32 = 5;

/// Settings of `calisto bench outlive`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Cases to run; all of them when none is named.
    #[arg(long = "case", value_name = "NAME", num_args = 1.., value_parser = names(&CASES, &[]))]
    pub cases: Vec<String>,

    /// How many deaths of each kind.
    #[command(flatten)]
    pub size: Size<ROUNDS>,

    /// Connections at each death [default: 200, or 20 with --quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=30_000))]
    pub connections: Option<u64>,

    /// Requests a second of all connections together.
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
    pub per_second: u64,

    /// What sizes, pauses and times of death follow from; another one each time if none is given.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

static CASES: [Case; 2] = [
    Case {
        name: "kill",
        help: "kill -9 at random times",
        run: |plan, report| play(Way::Kill, plan, report),
    },
    Case {
        name: "term",
        help: "an end in order (SIGTERM) at random times",
        run: |plan, report| play(Way::Term, plan, report),
    },
];

/// Runs the cases and prints their figures to `out`: with `json` one object a line, else a table a
/// case.
///
/// # Errors
/// The figures could not be printed, or there is no second CPU.
pub fn run(args: &Args, json: bool, out: &mut dyn Write) -> Result<(), Error> {
    let seed = match args.seed {
        Some(seed) => seed,
        // A short one can be typed again.
        None => u32::from_le_bytes(sys::random::bytes().or_needs("seed")?).into(),
    };
    let connections = args.connections.unwrap_or(if args.size.quick { 20 } else { 200 });
    let death = DeathSize { connections: connections as usize, per_second: args.per_second, seed };
    let plan = Plan { death, ..Plan::new(&args.size) };
    plan.cpus.need_two()?;
    let most = limits::connections_max()?;
    if death.connections > most {
        let why = format!("this process may have {most}: raise its limit of open files");
        return Err(why).or_needs("descriptors for so many connections");
    }
    let _priority = Priority::take();
    let report = Report::new("outlive", json, out).of_machine(machine::here());
    cases::run_into(report, &CASES, &args.cases, &plan)
}

#[cfg(test)]
mod tests;
