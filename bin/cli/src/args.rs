//! The command line as a whole: which commands there are.

use clap::{CommandFactory, Parser};

use crate::command::Command;
use crate::failure::Failure;

/// A user-space network data plane that keeps every flow on its core.
#[derive(Debug, Parser)]
#[command(
    name = "calisto",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        calisto demo                                          see it work; no NIC, no configuration\n  \
        calisto up --port xdp:eth1 --listen udp:10.0.0.2:7    run the data plane\n  \
        calisto status                                        ask it how it is\n  \
        calisto steer set modulo                              change its mind while traffic runs\n\n\
        Every command explains itself: calisto help COMMAND."
)]
pub struct Cli {
    /// Print JSON instead of text for people.
    #[arg(short = 'j', long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Does what the command line asks for.
    ///
    /// # Errors
    ///
    /// Says in a sentence what did not work.
    pub fn run(&self) -> Result<(), Failure> {
        self.command.run(self.json, Self::command())
    }
}

#[cfg(test)]
mod tests;
