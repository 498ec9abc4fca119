//! `calisto bench`: every figure of the project's documents, with its baseline.

use clap::Args;
use cli::failure::Failure;

/// Measure, each figure beside its baseline in the same run.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        calisto bench steer --quick\n  \
        calisto bench --costs mine.toml && calisto sim calisto-6 --costs mine.toml\n      what things cost \
        on your machine (root for some of it), and a figure with that"
)]
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
