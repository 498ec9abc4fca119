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

use crate::cases::{AttackSize, Bench, Case, Plan};
use crate::error::Error;
use crate::limits;

/// Options that `calisto bench abuse` alone has.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Abuse {
    /// Aborted connections in a round, of all four servers together [default: 8000, or 400 with
    /// --quick]; a million take half an hour at 2000 a second.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(8..=100_000_000))]
    pub(crate) connections: Option<u64>,

    /// Connections that are begun in a second where they are aborted.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) per_second: u64,
}

impl Bench for Abuse {
    const NAME: &'static str = "abuse";
    const ROUNDS: u32 = 1;
    const CASES: &'static [Case] = &[
        Case { name: "aborts", help: "connections aborted in every way", run: aborts::run },
        Case {
            name: "slow",
            help: "readers that take a few bytes now and then",
            run: floods::slow,
        },
        Case { name: "syns", help: "SYNs without an end", run: floods::syns },
        Case {
            name: "silent",
            help: "eight connections of tiny segments, then silence",
            run: floods::silent,
        },
        Case {
            name: "sacks",
            help: "a thousand SACKs a second on a large flow",
            run: floods::sacks,
        },
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
    const NEEDS_TWO_CPUS: bool = true;

    fn plan(&self, plan: Plan) -> Result<Plan, Error> {
        limits::connections_max()?;
        let connections = self.connections.unwrap_or(plan.pick(8000, 400));
        Ok(Plan { attack: AttackSize { connections, per_second: self.per_second }, ..plan })
    }
}
