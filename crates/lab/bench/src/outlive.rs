//! `calisto bench outlive`: what connections notice of the daemon's end.
//!
//! `text.rs` is what a connection says and how a wrong byte is told, `callers.rs` who asks,
//! `death.rs` one end of a daemon under that, `figures.rs` what is printed.

mod callers;
mod death;
mod figures;
mod text;

use crate::cases::{Bench, Case, DeathSize, Plan};
use crate::error::{Error, OrNeeds};
use crate::limits;
use death::{Way, play};

/// Options that `calisto bench outlive` alone has.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Outlive {
    /// Connections at each death [default: 200, or 20 with --quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=30_000))]
    pub(crate) connections: Option<u64>,

    /// Requests a second of all connections together.
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
    pub(crate) per_second: u64,

    /// What sizes, pauses and times of death follow from; another one each time if none is given.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

impl Bench for Outlive {
    const NAME: &'static str = "outlive";
    const CASES: &'static [Case] = &[
        Case {
            name: "kill",
            help: "kill -9 at random times",
            run: |plan, report| play(Way::Kill, plan, report),
        },
        Case {
            name: "term",
            help: "an end in order (SIGTERM) at random times",
            run: |plan, report| play(Way::Term, plan, report),
        },
    ];
    const NEEDS_TWO_CPUS: bool = true;

    fn plan(&self, plan: Plan) -> Result<Plan, Error> {
        let seed = match self.seed {
            Some(seed) => seed,
            // A short one can be typed again.
            None => u32::from_le_bytes(sys::random::bytes().or_needs("seed")?).into(),
        };
        let connections = self.connections.unwrap_or(plan.pick(200, 20)) as usize;
        let most = limits::connections_max()?;
        if connections > most {
            let why = format!("this process may have {most}: raise its limit of open files");
            return Err(why).or_needs("descriptors for this many connections");
        }
        let death = DeathSize { connections, per_second: self.per_second, seed };
        Ok(Plan { death, ..plan })
    }
}

#[cfg(test)]
mod tests;
