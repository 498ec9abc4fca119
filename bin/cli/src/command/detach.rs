//! `calisto detach`: throws an application out.

use admin::Command;
use clap::Args;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::target::Admin;

/// Throw an application out: one in packet mode, or a program whose sockets are accelerated.
///
/// Its packets are Linux's again. A program goes on: its connections are reset, it hears why on its
/// standard error, and what it listens on is the kernel's until it starts anew. Where a word
/// fits several, nothing is done, and all of them are named (exit code 1).
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto detach dns\n  \
    calisto detach 3                                      by its number, as `calisto apps` shows it\n  \
    calisto detach sockets:3                              the program, where packet:3 is there too")]
pub(crate) struct Detach {
    /// Its name or number; with `packet:` or `sockets:` before it where both kinds have one.
    app: String,
    #[command(flatten)]
    admin: Admin,
}

impl Detach {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        detach(Daemon::at(&self.admin.socket), &self.app, json)
    }
}

/// Asks the daemon to do it.
pub(super) fn detach(daemon: Daemon, app: &str, json: bool) -> Result<(), Failure> {
    daemon.about(Some(app)).tell(Command::Detach)?;
    output::done(&format!("{app} is detached"), json)
}
