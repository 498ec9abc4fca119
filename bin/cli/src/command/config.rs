//! `calisto config`: the daemon's configuration as a file.

mod check;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Work on the daemon's configuration file.
#[derive(Args, Debug)]
#[command(
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = "Example:\n  calisto config check /etc/calisto/calisto.toml"
)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Check(check::Check),
}

impl Config {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        match &self.action {
            Action::Check(check) => check.run(json),
        }
    }
}
