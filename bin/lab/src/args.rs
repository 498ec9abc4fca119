//! The laboratory's part of the command line, and the whole of it.

use clap::{CommandFactory, Parser};

use crate::command::Command;

/// The laboratory of Calisto: makes load, measures, simulates, replays and shows.
#[derive(Debug, Parser)]
#[command(
    name = "calisto",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Example:\n  calisto bench steer --quick\n\n\
        `calisto` hands these commands over; it has all the others."
)]
pub(crate) struct Cli {
    /// Print JSON instead of text for people.
    #[arg(short = 'j', long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The command line of `calisto` with the laboratory's commands in their places: what completions
/// and manual pages are made of.
pub(crate) fn whole() -> clap::Command {
    let own = Cli::command();
    cli::Cli::command().mut_subcommands(|named| match own.find_subcommand(named.get_name()) {
        Some(command) if !command.is_hide_set() => {
            command.clone().display_order(named.get_display_order())
        }
        _ => named,
    })
}

#[cfg(all(test, feature = "measurements"))]
mod tests;
