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

use crate::cases::{Bench, Case};

pub(crate) use echo::bare;
pub(crate) use memory::resident_bytes;
pub use memory::{print_resident, steady_state_allocations};

/// Options that `calisto bench steer` alone has.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Steer {}

impl Bench for Steer {
    const NAME: &'static str = "steer";
    const CASES: &'static [Case] = &[
        Case { name: "moves", help: "how many flows move when workers come", run: moves::run },
        Case {
            name: "cost",
            help: "owner table, rte_hash and hashbrown per packet",
            run: cost::run,
        },
        Case { name: "state", help: "what a move makes cold", run: state::run },
        Case { name: "rate", help: "packets a second, and testpmd's", run: rate::run },
        Case { name: "echo", help: "UDP echo over veth, and a bare loop's", run: echo::run },
        Case { name: "table", help: "a new table for every group under load", run: table::run },
        Case { name: "memory", help: "resident bytes and allocations", run: memory::run },
    ];
}

#[cfg(test)]
mod tests;
