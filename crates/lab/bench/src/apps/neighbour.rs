//! Another process of this program that is attached to the daemon, as its parent sees it.

use std::net::SocketAddr;
use std::process::Command;

use rustix::process::Signal;

use super::harness::Harness;
use crate::error::{Error, OrNeeds};
use crate::helper::{self, Conduct, Kind};
use crate::process::Process;
use crate::programs;

/// Killed when dropped.
pub(super) struct Neighbour(Process);

impl Neighbour {
    /// Starts one on `cpu` and waits until it is attached.
    pub(super) fn start(
        harness: &Harness,
        conduct: Conduct,
        port: u16,
        cpu: usize,
    ) -> Result<Self, Error> {
        let (socket, listen) = (harness.socket(), harness.address(port));
        let client = SocketAddr::new(harness.client(), 9);
        let kind = Kind::Neighbour { conduct, socket, listen, client };
        let mut command = Command::new(programs::ourselves()?);
        command.args(kind.words());
        helper::start(command, cpu).map(|(process, _)| Self(process))
    }

    /// Stops it; how often it did what it should not.
    pub(super) fn stop(mut self) -> Result<u64, Error> {
        self.0.signal(Signal::TERM);
        self.0.heard("acts")?.parse().or_needs("neighbour's count")
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.0.kill();
    }
}
