//! The commands of the laboratory, one file each.

pub(crate) mod bench;
pub(crate) mod demo;
pub(crate) mod load;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod sim;

use calisto::failure::Failure;
use calisto::{Completions, Man};
use clap::Subcommand;

/// What the laboratory can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Load(load::Load),
    Replay(replay::Replay),
    Sim(sim::Sim),
    Report(report::Report),
    Bench(bench::Bench),
    Demo(demo::Demo),
    #[command(hide = true)]
    Completions(Completions),
    #[command(hide = true)]
    Man(Man),
}

impl Command {
    /// Does what the command line asks for. `whole` is the definition of all of `calisto`'s, for
    /// the commands that describe it.
    pub(crate) fn run(&self, json: bool, mut whole: clap::Command) -> Result<(), Failure> {
        match self {
            Self::Load(load) => load.run(json),
            Self::Replay(replay) => replay.run(json),
            Self::Sim(sim) => sim.run(json),
            Self::Report(report) => report.run(json),
            Self::Bench(bench) => bench.run(json),
            Self::Demo(demo) => demo.run(json),
            Self::Completions(completions) => completions.run(&mut whole),
            Self::Man(man) => man.run(whole, json),
        }
    }
}
