//! The commands of the laboratory, one file each.

#[cfg(feature = "measurements")]
pub(crate) mod bench;
pub(crate) mod demo;
pub(crate) mod load;
#[cfg(feature = "measurements")]
mod own_load;
#[cfg(feature = "measurements")]
pub(crate) mod plan;
#[cfg(feature = "measurements")]
pub(crate) mod replay;
#[cfg(feature = "measurements")]
pub(crate) mod report;
#[cfg(feature = "measurements")]
pub(crate) mod sim;

#[cfg(not(feature = "measurements"))]
use std::ffi::OsString;

use clap::Subcommand;
use cli::failure::Failure;
use cli::{Completions, Man};

/// What the laboratory can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Load(load::Load),
    #[cfg(feature = "measurements")]
    Replay(replay::Replay),
    #[cfg(feature = "measurements")]
    Sim(sim::Sim),
    #[cfg(feature = "measurements")]
    Plan(plan::Plan),
    #[cfg(feature = "measurements")]
    Report(report::Report),
    #[cfg(feature = "measurements")]
    Bench(bench::Bench),
    Demo(demo::Demo),
    #[command(hide = true)]
    Completions(Completions),
    #[command(hide = true)]
    Man(Man),
    /// A command that was left out of this build.
    #[cfg(not(feature = "measurements"))]
    #[command(external_subcommand)]
    LeftOut(Vec<OsString>),
}

impl Command {
    /// Does what the command line asks for. `whole` is the definition of all of `calisto`'s, for
    /// the commands that describe it.
    pub(crate) fn run(&self, json: bool, mut whole: clap::Command) -> Result<(), Failure> {
        match self {
            Self::Load(load) => load.run(json),
            #[cfg(feature = "measurements")]
            Self::Replay(replay) => replay.run(json),
            #[cfg(feature = "measurements")]
            Self::Sim(sim) => sim.run(json),
            #[cfg(feature = "measurements")]
            Self::Plan(plan) => plan.run(json),
            #[cfg(feature = "measurements")]
            Self::Report(report) => report.run(json),
            #[cfg(feature = "measurements")]
            Self::Bench(bench) => bench.run(json),
            Self::Demo(demo) => demo.run(json),
            Self::Completions(completions) => completions.run(&mut whole),
            Self::Man(man) => man.run(whole, json),
            #[cfg(not(feature = "measurements"))]
            Self::LeftOut(words) => Err(Failure::usage(format!(
                "this laboratory was built for the demo alone, without `{}`: `cargo build --release \
                 -p calisto-lab` builds all of it",
                words.first().map_or_else(Default::default, |word| word.to_string_lossy())
            ))),
        }
    }
}
