//! Two hosts with `calisto wire` between them: Linux at one end, the daemon and Linux at the other.

use std::process::{Command, Stdio};

use serde_json::Value;
use testbed::{Service, Side, Testbed, TestbedConfig};

use super::harness::serve;
use crate::apps::harness::Harness;
use crate::error::{Error, OrNeeds};
use crate::place::Cpus;
use crate::process::Process;
use crate::programs;

/// Longer than any measurement: the wire ends by itself when nobody is left to end it.
const SECONDS_MAX: &str = "300";

/// The two hosts, and the namespace between them.
pub(super) struct Line {
    outer: Testbed,
    pub(super) harness: Harness,
    cpu: usize,
}

impl Line {
    /// A daemon with chargen at `port`, and no wire yet; `settings` are lines of its section
    /// `[tcp]`.
    pub(super) fn new(cpus: Cpus, port: u16, settings: &str) -> Result<Self, Error> {
        let outer = Testbed::new(TestbedConfig::default()).or_needs("pair of namespaces")?;
        let harness = serve(cpus, Service::Chargen, port..port + 1, settings)?;
        // The ends that face each other come together in one namespace, without addresses.
        let middle = outer.server();
        let name = middle.namespace();
        ip(harness.bed.client(), &format!("link set veth0 netns {name} name inner0"))?;
        ip(middle, "addr flush dev veth0")?;
        ip(middle, "link set inner0 up")?;
        Ok(Self { outer, harness, cpu: cpus.client })
    }

    /// The client's end.
    pub(super) fn client(&self) -> &Side {
        self.outer.client()
    }

    /// The end of both servers.
    pub(super) fn server(&self) -> &Side {
        self.harness.bed.server()
    }

    /// Joins the two by a wire with these options.
    pub(super) fn join(&self, options: &[&str]) -> Result<Wire, Error> {
        let mut command = self.outer.server().command(programs::command()?);
        command.args(["wire", "xdp:veth0,take=all", "xdp:inner0,take=all", "--json"]);
        command.args(["--seconds", SECONDS_MAX]).args(options);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(Wire(Process::start(command, self.cpu)?))
    }
}

fn ip(side: &Side, arguments: &str) -> Result<(), Error> {
    let mut command: Command = side.command("ip");
    let output = command.args(arguments.split(' ')).output().or_needs("ip(8)")?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()).or_needs("place for a wire")
}

/// A wire, gone when dropped.
pub(super) struct Wire(Process);

impl Wire {
    /// Ends it; what happened on the way from the servers to the client.
    pub(super) fn end(mut self) -> Result<Value, Error> {
        self.0.end();
        let said: Value = serde_json::from_str(&self.0.rest()?).or_needs("words of the wire")?;
        Ok(said["b_to_a"].clone())
    }
}
