//! `calisto bench slice`: what a slice forwards, and what others do on the same wires.
//!
//! One file per case. `wires.rs` is what packets cross, `generator.rs` and `sink.rs` its two ends,
//! `forwarder.rs` whoever stands between them; `memory.rs` a slice without any of that, `works.rs`
//! the functions that are measured there; `tables.rs` the forwarding tables of other crates,
//! `ciphers.rs` programs that only encrypt.

mod absent;
mod carry;
mod change;
mod ciphers;
mod cycles;
mod esp;
mod forward;
mod forwarder;
mod functions;
mod generator;
mod hook;
mod hooked;
mod in_process;
mod memory;
mod overload;
mod rig;
mod router;
mod sink;
mod table;
mod tables;
mod tools;
mod wires;
mod works;

use std::path::PathBuf;

use crate::cases::{Bench, Case, Plan};
use crate::error::Error;

pub(crate) use hook::Hook;

/// Options that `calisto bench slice` alone has.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Slice {
    /// Slices of case cores, each on a CPU of its own.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub(crate) cores: u16,

    /// Routes of the cases router, cycles and cores: lines of a prefix and a number [default: the
    /// one of the crate iptrie, where cargo has its source].
    #[arg(long, value_name = "FILE")]
    pub(crate) table: Option<PathBuf>,
}

impl Bench for Slice {
    const NAME: &'static str = "slice";
    const CASES: &'static [Case] = &[
        Case { name: "forward", help: "packets a second between two wires", run: forward::run },
        Case { name: "overload", help: "twice as many as can be forwarded", run: overload::run },
        Case { name: "router", help: "tables of the Internet's routes", run: router::run },
        Case { name: "esp", help: "encryption on one core", run: esp::run },
        Case { name: "cycles", help: "what a function costs by itself", run: cycles::cycles },
        Case { name: "cores", help: "slices on several cores, and one", run: cycles::cores },
    ];
    const NEEDS_TWO_CPUS: bool = true;

    fn plan(&self, plan: Plan) -> Result<Plan, Error> {
        Ok(Plan { cores: self.cores.into(), table: self.table.clone(), ..plan })
    }
}

#[cfg(test)]
mod tests;
