//! `calisto bench cores`: what granting and taking cores costs, and what is left for a batch job.
//!
//! One file per case. `realm.rs` is a dispatcher with its core allocator and the applications that
//! it keeps, all in this process, `attached_client.rs` attaches a real client to it, `hands.rs`
//! moves threads as the daemon does.

mod attached_client;
mod batch;
mod grant;
mod hands;
mod realm;
mod reclaim;
mod roles;
mod sleeper;
mod tick;
mod waiter;

use crate::cases::{Bench, Case};

/// Options that `calisto bench cores` alone has.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Cores {}

impl Bench for Cores {
    const NAME: &'static str = "cores";
    const CASES: &'static [Case] = &[
        Case { name: "tick", help: "what a look of the core control costs", run: tick::run },
        Case {
            name: "grant",
            help: "from a grant to the worker's first instruction",
            run: grant::run,
        },
        Case { name: "reclaim", help: "the same when a batch job has the core", run: reclaim::run },
        Case {
            name: "batch",
            help: "a latency-critical server beside a batch job",
            run: batch::run,
        },
        Case {
            name: "roles",
            help: "the dispatcher's roles as threads and as tasks",
            run: roles::run,
        },
    ];
}

#[cfg(test)]
mod tests;
