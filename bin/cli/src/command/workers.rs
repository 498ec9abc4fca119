//! `calisto workers`: how many workers there are to be.

use admin::Command;
use clap::Args;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::target::Admin;

/// Set the number of workers while traffic runs; the policy decides which flows move.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  calisto workers 5 && calisto status")]
pub(crate) struct Workers {
    /// How many there are to be.
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    count: u16,
    #[command(flatten)]
    admin: Admin,
}

impl Workers {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let Self { count, admin } = self;
        Daemon::at(&admin.socket).tell(Command::Workers { count: *count })?;
        let workers = if *count == 1 { "worker" } else { "workers" };
        output::done(&format!("{count} {workers} from now on"), json)
    }
}
