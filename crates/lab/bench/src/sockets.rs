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
pub(crate) mod dialogue;
mod echo;
mod idle;
mod instructions;
mod iperf3;
mod local;
mod memcached;
mod memory;
mod nginx;
mod offered;
mod passthrough;
pub(crate) mod programs;
mod redis;
pub(crate) mod tested_stack;
pub(crate) mod turns;
pub(crate) mod witness;

use crate::cases::{Bench, Case, Plan};
use crate::error::Error;
use crate::limits;

/// Options that `calisto bench sockets` alone has.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Sockets {
    /// Account for the cycles of a request, by layer and by function: the same as --case breakdown.
    #[arg(long)]
    pub(crate) breakdown: bool,

    /// Linux in our place too: whether the comparison is fair. Every ratio should be near 1.
    #[arg(long)]
    pub(crate) rehearse: bool,
}

impl Bench for Sockets {
    const NAME: &'static str = "sockets";
    const ROUNDS: u32 = 9;
    const CASES: &'static [Case] = &[
        Case { name: "echo", help: "an epoll server that blocks, and Linux's", run: echo::run },
        Case { name: "redis", help: "redis-server under redis-benchmark", run: redis::run },
        Case { name: "memcached", help: "memcached with 50 connections", run: memcached::run },
        Case { name: "nginx", help: "nginx with a small file under wrk", run: nginx::run },
        Case { name: "iperf3", help: "one stream of iperf3 each way", run: iperf3::run },
        Case { name: "local", help: "two programs of one host, and loopback", run: local::run },
        Case { name: "breakdown", help: "where the time of a request goes", run: breakdown::run },
        Case {
            name: "connections",
            help: "many connections, busy and idle",
            run: connections::run,
        },
        Case {
            name: "passthrough",
            help: "a read that is none of our business",
            run: passthrough::run,
        },
    ];
    const NEEDS_TWO_CPUS: bool = true;

    fn plan(&self, plan: Plan) -> Result<Plan, Error> {
        limits::connections_max()?;
        Ok(Plan { is_rehearsal: self.rehearse, ..plan })
    }

    fn asked(&self) -> Option<&'static str> {
        self.breakdown.then_some("breakdown")
    }
}

#[cfg(test)]
mod tests;
