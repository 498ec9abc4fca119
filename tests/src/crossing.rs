//! Two hosts with `calisto wire` between them, as bad as a test wants it.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testbed::{Side, Testbed, TestbedConfig};

use crate::process::{binary, run, signal_to, wait_for, wait_for_end};

/// The address of the far host.
const FAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 9);

/// Two hosts, whose wires come together in one namespace.
#[derive(Debug)]
pub struct Crossing {
    near: Testbed,
    far: Testbed,
}

/// A running `calisto wire`; dropped, it is ended.
#[derive(Debug)]
pub struct BadWire {
    process: Child,
}

impl Crossing {
    /// Makes both hosts. Nothing joins them yet.
    ///
    /// # Panics
    /// Without root or ip(8).
    pub fn new() -> Self {
        let bed = || {
            let config = TestbedConfig { static_neighbours: false, ..TestbedConfig::default() };
            Testbed::new(config).expect("this test needs root and the ip command")
        };
        let crossing = Self { near: bed(), far: bed() };
        let Self { near, far } = &crossing;
        let middle = far.server();
        ip(near.server(), &format!("link set veth0 netns {} name near0", middle.namespace()));
        ip(middle, "addr flush dev veth0");
        ip(middle, "link set near0 up");
        // Every bed has the same addresses.
        ip(far.client(), "link set dev veth0 address 02:00:00:77:00:09");
        ip(far.client(), "addr flush dev veth0");
        ip(far.client(), &format!("addr add {FAR}/24 dev veth0"));
        crossing
    }

    /// The host on this side, 10.77.0.1.
    pub fn near(&self) -> &Side {
        self.near.client()
    }

    /// The host on the other side: its own idea of its address is another than this one's.
    pub fn far(&self) -> &Side {
        self.far.client()
    }

    /// Where a port of that is.
    pub fn address(&self, port: u16) -> SocketAddr {
        (FAR, port).into()
    }

    /// Joins them by a wire with these options, and waits until it carries packets.
    ///
    /// # Panics
    /// It does not.
    pub fn join(&self, options: &str) -> BadWire {
        let mut command = self.far.server().command(binary("calisto"));
        command.args(["wire", "af_packet:near0", "af_packet:veth0", "--seconds", "300", "-j"]);
        command.args(options.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::piped());
        let process = command.stderr(Stdio::null()).spawn().expect("calisto is there");
        let wire = BadWire { process };
        // A port where nobody listens: the far kernel's refusal has crossed it both ways.
        let nobody = SocketAddr::from((FAR, 1));
        wait_for("a wire that carries packets", || {
            let attempt = || TcpStream::connect_timeout(&nobody, Duration::from_millis(300));
            match self.near().enter(attempt).expect("the namespace is there") {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        wire
    }
}

impl Default for Crossing {
    fn default() -> Self {
        Self::new()
    }
}

impl BadWire {
    /// Ends it; what it has done to the packets on their way there, and back.
    ///
    /// # Panics
    /// It does not say.
    pub fn end(mut self) -> [Value; 2] {
        signal_to(&self.process, Signal::INT);
        wait_for_end("the wire", &mut self.process);
        let out = self.process.stdout.take().expect("it is piped");
        let report: Value = serde_json::from_reader(out).expect("a report in JSON");
        [report["a_to_b"].clone(), report["b_to_a"].clone()]
    }
}

impl Drop for BadWire {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn ip(side: &Side, arguments: &str) {
    let (status, _, said) = run(side.command("ip").args(arguments.split(' ')));
    assert!(status.success(), "ip {arguments}: {said}");
}
