//! `calisto bench abuse`: what an attacker takes from the honest, and what it leaves behind.
//!
//! One file per kind of attacker. `servers.rs` has the programs, `scene.rs` plays the honest alone
//! and beside an attacker and prints what that gave. Linux is under the same attack, on the same
//! kind of wire. The attacker of connections is `testbed`'s.

mod aborts;
mod crowd;
mod floods;
mod memory;
mod scene;
mod servers;

use std::io::Write;

use crate::cases::{self, AttackSize, Case, Plan, Size, names};
use crate::error::Error;
use crate::machine;
use crate::report::Report;
use crate::sockets::limits;
use crate::sockets::priority::Priority;

/// Rounds unless somebody wants another number.
const ROUNDS: u32 = 1;

/// Settings of `calisto bench abuse`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Cases to run; all of them when none is named.
    #[arg(long = "case", value_name = "NAME", num_args = 1.., value_parser = names(&CASES, &[]))]
    pub cases: Vec<String>,

    /// How much of each.
    #[command(flatten)]
    pub size: Size<ROUNDS>,

    /// Aborted connections in a round, of all four servers together [default: 8000, or 400 with
    /// --quick]; a million take half an hour at 2000 a second.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(8..=100_000_000))]
    pub connections: Option<u64>,

    /// Connections that are begun in a second where they are aborted.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub per_second: u64,
}

static CASES: [Case; 9] = [
    Case { name: "aborts", help: "connections aborted in every way", run: aborts::run },
    Case { name: "slow", help: "readers that take a few bytes now and then", run: floods::slow },
    Case { name: "syns", help: "SYNs without an end", run: floods::syns },
    Case {
        name: "silent",
        help: "eight connections of tiny segments, then silence",
        run: floods::silent,
    },
    Case { name: "sacks", help: "a thousand SACKs a second on a large flow", run: floods::sacks },
    Case {
        name: "time-wait",
        help: "more closed connections than there are flows",
        run: floods::time_wait,
    },
    Case { name: "programs", help: "60 busy programs of another user", run: crowd::programs },
    Case {
        name: "attaching",
        help: "attachments without an end, and strangers",
        run: crowd::attaching,
    },
    Case {
        name: "memory",
        help: "64 MiB, and 1500 connections that nobody reads",
        run: memory::run,
    },
];

/// Runs the cases and prints their figures to `out`: with `json` one object a line, else a table a
/// case.
///
/// # Errors
/// The figures could not be printed, or there is no second CPU.
pub fn run(args: &Args, json: bool, out: &mut dyn Write) -> Result<(), Error> {
    let size = args.size;
    let attack = AttackSize {
        connections: args.connections.unwrap_or(if size.quick { 400 } else { 8000 }),
        per_second: args.per_second,
    };
    let plan = Plan { attack, ..Plan::new(&size) };
    plan.cpus.need_two()?;
    limits::connections_max()?;
    let _priority = Priority::take();
    let report = Report::new("abuse", json, out).of_machine(machine::here());
    cases::run_into(report, &CASES, &args.cases, &plan)
}

#[cfg(test)]
mod tests;
