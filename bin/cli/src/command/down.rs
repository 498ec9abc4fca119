//! `calisto down`: ends the daemon after everything under way has left.

use admin::Command;
use clap::Args;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::target::Admin;

/// End the daemon; what is under way leaves first, and traffic returns to Linux.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  calisto down")]
pub(crate) struct Down {
    #[command(flatten)]
    admin: Admin,
}

impl Down {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        Daemon::at(&self.admin.socket).tell(Command::Stop)?;
        output::done("the daemon is ending", json)
    }
}
