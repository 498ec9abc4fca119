//! `calisto config example`: a configuration file to begin with.

use clap::Args;

use crate::failure::Failure;
use crate::output;

/// Print a configuration file to begin with: every key, explained, with its default, as comments.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  calisto config example > /etc/calisto/calisto.toml")]
pub(crate) struct Example {}

impl Example {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        match json {
            true => output::json(&config::Config::default()),
            false => output::text(&config::example()),
        }
    }
}
