//! `calisto bench`: every figure of the project's documents, with its baseline.

use clap::Args;
use cli::failure::Failure;

/// Measure, each figure beside its baseline in the same run.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  calisto bench steer --quick")]
pub(crate) struct Bench {
    #[command(flatten)]
    command: bench::Command,
}

impl Bench {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        // Ctrl-C is noticed between two rounds, so that the namespaces of a round are removed.
        testbed::on_interrupt().map_err(Failure::new)?;
        self.command.run(json, &mut std::io::stdout().lock()).map_err(Failure::new)
    }
}
