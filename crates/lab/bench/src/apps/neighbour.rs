//! Another process of this program that is attached to the daemon, as its parent sees it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout};

use rustix::process::{Pid, Signal};

use super::harness::{Harness, ourselves};
use super::helper::Kind;
use crate::error::{Error, OrNeeds};
use crate::helper::word;
use crate::place::on_cpu;

/// Killed when dropped.
pub(super) struct Neighbour {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Neighbour {
    /// Starts one on `cpu` and waits until it is attached.
    pub(super) fn start(
        harness: &Harness,
        kind: Kind,
        port: u16,
        cpu: usize,
    ) -> Result<Self, Error> {
        let mut command = ourselves()?;
        let client = SocketAddr::new(harness.client(), 9);
        command.args(["--helper", &word(kind)]).arg("--helper-socket").arg(harness.socket());
        command.arg("--helper-listen").arg(harness.address(port).to_string());
        command.arg("--helper-client").arg(client.to_string());
        // A process inherits the CPU of the thread that starts it.
        let mut child = on_cpu(cpu, || command.spawn().or_needs("second process"))?;
        let output = child.stdout.take().ok_or("it has no output").or_needs("second process")?;
        let mut neighbour = Self { child, output: BufReader::new(output) };
        match neighbour.line()?.as_str() {
            "attached" => Ok(neighbour),
            other => Err(format!("it says {other:?}")).or_needs("attached neighbour"),
        }
    }

    fn line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        self.output.read_line(&mut line).or_needs("neighbour's words")?;
        Ok(line.trim_end().to_owned())
    }

    /// Stops it; how often it did what it should not.
    pub(super) fn stop(mut self) -> Result<u64, Error> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or("its id is not one").or_needs("neighbour")?;
        rustix::process::kill_process(pid, Signal::TERM).or_needs("neighbour")?;
        let line = self.line()?;
        let acts = line.strip_prefix("acts ").and_then(|count| count.parse().ok());
        acts.ok_or_else(|| format!("it says {line:?}")).or_needs("neighbour's count")
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // SIGKILL; it may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
