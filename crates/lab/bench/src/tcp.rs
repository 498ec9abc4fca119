//! `calisto bench tcp`: what the TCP engine costs, and what Linux's and others cost.
//!
//! One file per case. `end.rs` is an engine with its rings behind a wire in memory; for real
//! packets `harness.rs` starts the daemon, `kernel_server.rs` is what it is held against, and
//! `kernel_client.rs` the client of both.

mod accept;
mod bulk;
mod callgrind;
mod connections;
mod echo;
mod end;
mod flood;
mod flows;
pub(crate) mod harness;
mod kernel_client;
pub(crate) mod kernel_server;
mod lean;
mod line;
mod peers;
mod rpc;
mod smoltcp_server;
mod wire;

use std::io::Write;

use crate::cases::{self, Case, Plan, Size, names};
use crate::error::Error;

pub(crate) use rpc::RpcKind;

/// Settings of `calisto bench tcp`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Cases to run; all of them when none is named.
    #[arg(long = "case", value_name = "NAME", num_args = 1.., value_parser = names(&CASES, &[]))]
    pub cases: Vec<String>,

    /// How much of each.
    #[command(flatten)]
    pub size: Size<5>,
}

static CASES: [Case; 8] = [
    Case { name: "rpc", help: "instructions for a request, and smoltcp's", run: rpc::run },
    Case { name: "flows", help: "a request of one flow of many, in batches", run: flows::run },
    Case { name: "connections", help: "opened and closed, and Linux's", run: connections::run },
    Case { name: "flood", help: "requests while spoofed SYNs come", run: flood::run },
    Case { name: "echo", help: "echo over veth, bare AF_XDP's and Linux's", run: echo::run },
    Case { name: "bulk", help: "one stream over veth each way, and Linux's", run: bulk::run },
    Case { name: "wire", help: "delay, loss and bottlenecks, and Linux's CUBIC", run: wire::run },
    Case { name: "accept", help: "connections over veth, and Linux's", run: accept::run },
];

/// Runs the cases and prints their figures to `out`: with `json` one object a line, else a table a
/// case.
///
/// # Errors
/// The figures could not be printed.
pub fn run(args: &Args, json: bool, out: &mut dyn Write) -> Result<(), Error> {
    let plan = Plan::new(&args.size);
    cases::run("tcp", &CASES, &args.cases, &plan, json, out)
}

#[cfg(test)]
mod tests;
