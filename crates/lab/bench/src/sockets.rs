//! `calisto bench sockets`: programs of others, unmodified, on our sockets and on Linux's.
//!
//! One file per case. `tested_stack.rs` is a wire with somebody's TCP at its end, `accelerated.rs`
//! the one with ours, `programs.rs` what runs there, `client.rs` and `offered.rs` who asks,
//! `witness.rs` who really carried the bytes, `turns.rs` how things are measured in turns and who
//! else had the CPUs.

pub(crate) mod accelerated;
mod account;
mod asked;
mod breakdown;
pub(crate) mod client;
pub(crate) mod connections;
mod contest;
mod dialogue;
mod echo;
mod idle;
mod instructions;
mod iperf3;
pub(crate) mod limits;
mod local;
mod memcached;
mod memory;
mod nginx;
mod offered;
mod passthrough;
pub(crate) mod priority;
pub(crate) mod programs;
mod redis;
pub(crate) mod tested_stack;
pub(crate) mod turns;
pub(crate) mod witness;

use std::io::Write;

use crate::cases::{self, Case, Plan, Size, names};
use crate::error::Error;
use priority::Priority;

/// Rounds unless somebody wants another number.
const ROUNDS: u32 = 9;

/// Settings of `calisto bench sockets`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Cases to run; all of them when none is named.
    #[arg(long = "case", value_name = "NAME", num_args = 1.., value_parser = names(&CASES, &[]))]
    pub cases: Vec<String>,

    /// How much of each.
    #[command(flatten)]
    pub size: Size<ROUNDS>,

    /// Account for the cycles of a request, by layer and by function: the same as --case breakdown.
    #[arg(long)]
    pub breakdown: bool,

    /// Linux in our place too: whether the comparison is fair. Every ratio should be near 1.
    #[arg(long)]
    pub rehearse: bool,
}

static CASES: [Case; 9] = [
    Case { name: "echo", help: "an epoll server that blocks, and Linux's", run: echo::run },
    Case { name: "redis", help: "redis-server under redis-benchmark", run: redis::run },
    Case { name: "memcached", help: "memcached with 50 connections", run: memcached::run },
    Case { name: "nginx", help: "nginx with a small file under wrk", run: nginx::run },
    Case { name: "iperf3", help: "one stream of iperf3 each way", run: iperf3::run },
    Case { name: "local", help: "two programs of one host, and loopback", run: local::run },
    Case { name: "breakdown", help: "where the time of a request goes", run: breakdown::run },
    Case { name: "connections", help: "many connections, busy and idle", run: connections::run },
    Case {
        name: "passthrough",
        help: "a read that is none of our business",
        run: passthrough::run,
    },
];

/// Runs the cases and prints their figures to `out`: with `json` one object a line, else a table a
/// case.
///
/// # Errors
/// The figures could not be printed, or there is no second CPU.
pub fn run(args: &Args, json: bool, out: &mut dyn Write) -> Result<(), Error> {
    let plan = Plan { is_rehearsal: args.rehearse, ..Plan::new(&args.size) };
    plan.cpus.need_two()?;
    limits::connections_max()?;
    let _priority = Priority::take();
    let breakdown = args.breakdown.then(|| "breakdown".to_owned());
    let wanted: Vec<String> = args.cases.iter().cloned().chain(breakdown).collect();
    cases::run("sockets", &CASES, &wanted, &plan, json, out)
}

#[cfg(test)]
mod tests;
