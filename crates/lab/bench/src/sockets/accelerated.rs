//! The daemon with its sockets, and how an ordinary program is started on them.

use std::path::Path;
use std::process::Command;

use crate::apps::harness::Harness;
use crate::error::Error;
use crate::place::Cpus;
use crate::programs;

/// How a program that waits is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Whoever waits spins a little first.
    Latency,
    /// Nobody spins.
    Safe,
}

impl Profile {
    fn word(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Safe => "safe",
        }
    }
}

/// A daemon on one end of a wire, whose workers serve the sockets of programs.
pub(crate) struct Accelerated {
    pub(crate) harness: Harness,
}

impl Accelerated {
    /// Starts the daemon, all of its threads on the server's CPU; `sections` are more of its
    /// configuration.
    pub(crate) fn new(cpus: Cpus, sections: &str) -> Result<Self, Error> {
        let sections = format!("[workers]\njob = \"sockets\"\n{sections}");
        Ok(Self { harness: Harness::start_with(cpus, &sections)? })
    }

    /// A command that will run `program` here, with its sockets accelerated or not at all.
    pub(crate) fn command(&self, profile: Profile, program: &Path) -> Result<Command, Error> {
        let mut command = self.harness.bed.server().command(programs::command()?);
        command.env("CALISTO_APPS", self.harness.socket());
        command.args(["run", "--strict", "--profile", profile.word(), "--"]).arg(program);
        Ok(command)
    }
}
