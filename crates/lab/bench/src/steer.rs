//! `calisto bench steer`: what steering costs, and what a flow's move costs.
//!
//! One file per case. A case gets a [`Plan`] and gives figures; that it cannot be run here (no
//! root, no DPDK) is printed as a line of its own and ends nothing else.

mod cost;
mod durations;
mod echo;
mod memory;
mod moves;
mod rate;
mod rte_hash;
mod state;
mod table;
mod testpmd;

use std::io::Write;

use crate::cases::{self, Case, Plan, Size, names};
use crate::error::Error;

pub(crate) use echo::bare;
pub(crate) use memory::resident_bytes;
pub use memory::{print_resident, steady_state_allocations};

/// Settings of `calisto bench steer`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Cases to run; all of them when none is named.
    #[arg(long = "case", value_name = "NAME", num_args = 1.., value_parser = names(&CASES, &[]))]
    pub cases: Vec<String>,

    /// How much of each.
    #[command(flatten)]
    pub size: Size<5>,
}

static CASES: [Case; 7] = [
    Case { name: "moves", help: "how many flows move when workers come", run: moves::run },
    Case { name: "cost", help: "owner table, rte_hash and hashbrown per packet", run: cost::run },
    Case { name: "state", help: "what a move makes cold", run: state::run },
    Case { name: "rate", help: "packets a second, and testpmd's", run: rate::run },
    Case { name: "echo", help: "UDP echo over veth, and a bare loop's", run: echo::run },
    Case { name: "table", help: "a new table for every group under load", run: table::run },
    Case { name: "memory", help: "resident bytes and allocations", run: memory::run },
];

/// Runs the cases and prints their figures to `out`: with `json` one object a line, else a table a
/// case.
///
/// # Errors
/// The figures could not be printed.
pub fn run(args: &Args, json: bool, out: &mut dyn Write) -> Result<(), Error> {
    let plan = Plan::new(&args.size);
    cases::run("steer", &CASES, &args.cases, &plan, json, out)
}

#[cfg(test)]
mod tests;
