//! `calisto bench tcp`: what the TCP engine costs, and what Linux's and others cost.
//!
//! One file per case. `end.rs` is an engine with its rings behind a wire in memory; for real
//! packets `harness.rs` starts the daemon, a `LinuxServer` is what it is held against, and
//! `kernel_client.rs` is the client of both.

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
mod lean;
mod line;
mod peers;
mod rpc;
mod smoltcp_server;
mod wire;

use crate::cases::{Bench, Case};

pub(crate) use rpc::RpcKind;

/// Options that `calisto bench tcp` alone has.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Tcp {}

impl Bench for Tcp {
    const NAME: &'static str = "tcp";
    const CASES: &'static [Case] = &[
        Case { name: "rpc", help: "instructions for a request, and smoltcp's", run: rpc::run },
        Case { name: "flows", help: "a request of one flow of many, in batches", run: flows::run },
        Case { name: "connections", help: "opened and closed, and Linux's", run: connections::run },
        Case { name: "flood", help: "requests while spoofed SYNs come", run: flood::run },
        Case { name: "echo", help: "echo over veth, bare AF_XDP's and Linux's", run: echo::run },
        Case { name: "bulk", help: "one stream over veth each way, and Linux's", run: bulk::run },
        Case {
            name: "wire",
            help: "delay, loss and bottlenecks, and Linux's CUBIC",
            run: wire::run,
        },
        Case { name: "accept", help: "connections over veth, and Linux's", run: accept::run },
    ];
}

#[cfg(test)]
mod tests;
