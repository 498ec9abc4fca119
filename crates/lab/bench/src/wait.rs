//! `calisto bench wait`: what waiting for many queues costs, and what it costs others.
//!
//! One file per case. `queues.rs` is the queues and the two ways to find what is in them, which
//! most cases compare.

mod corunner;
mod hiccup;
mod idle;
mod latency;
mod queues;
mod ready_queues;
mod tax;
mod throughput;

use crate::cases::{Bench, Case};

/// Options that `calisto bench wait` alone has.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Wait {}

impl Bench for Wait {
    const NAME: &'static str = "wait";
    const CASES: &'static [Case] = &[
        Case {
            name: "latency",
            help: "from a queue to its consumer, 1 to 4096",
            run: latency::run,
        },
        Case {
            name: "throughput",
            help: "all queues busy, and one among many",
            run: throughput::run,
        },
        Case { name: "idle", help: "a calistod with 1008 attached queues", run: idle::run },
        Case { name: "corunner", help: "a computation beside a waiter", run: corunner::run },
        Case { name: "tax", help: "time and polls that find nothing, by load", run: tax::run },
        Case { name: "hiccup", help: "own queues against shared ones", run: hiccup::run },
    ];
}

#[cfg(test)]
mod tests;
