//! `calisto config`: the daemon's configuration as a file.

mod check;
mod example;
mod save;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Work on the daemon's configuration file.
#[derive(Args, Debug)]
#[command(
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  calisto config example > calisto.toml\n  \
        calisto config check calisto.toml\n  \
        calisto config save calisto.toml"
)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Check(check::Check),
    Example(example::Example),
    Save(save::Save),
}

impl Config {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        match &self.action {
            Action::Check(check) => check.run(json),
            Action::Example(example) => example.run(json),
            Action::Save(save) => save.run(json),
        }
    }
}
