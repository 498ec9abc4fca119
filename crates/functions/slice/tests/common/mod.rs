//! Two kernels with a namespace between them that has a wire to each: where slices work.

#![allow(dead_code, reason = "each test file is its own crate and uses its part")]

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use base::Nanos;
use calisto_slice::{Slice, SliceError, SliceSpec};
use port::PortSpec;
use testbed::{Side, Testbed, TestbedConfig};

/// left (10.77.0.1) - veth0 - middle - veth1 - right (10.77.0.3).
pub(crate) struct Middle {
    /// Its client is left, its server is the middle.
    left: Testbed,
    /// Its client is right; its server gave its end of the wire to the middle.
    right: Testbed,
}

impl Middle {
    pub(crate) fn new() -> Self {
        Self::with(TestbedConfig::default())
    }

    pub(crate) fn with(config: TestbedConfig) -> Self {
        let bed = |config| {
            Testbed::new(config).unwrap_or_else(|error| panic!("these tests run as root: {error}"))
        };
        let (left, right) = (bed(config.clone()), bed(config));
        let middle = left.server().namespace();
        ip(right.server(), "link set dev veth0 down");
        ip(right.server(), &format!("link set dev veth0 name veth1 netns {middle}"));
        ip(left.server(), "link set dev veth1 up");
        // Both clients were made alike.
        for line in [
            "link set dev veth0 down",
            "link set dev veth0 address 02:00:00:00:77:03",
            "address flush dev veth0",
            "link set dev veth0 up",
            "address add 10.77.0.3/24 dev veth0",
        ] {
            ip(right.client(), line);
        }
        for (side, name) in [
            (left.client(), "veth0"),
            (left.server(), "veth0"),
            (left.server(), "veth1"),
            (right.client(), "veth0"),
        ] {
            let wait = || sys::interface::wait_until_operational(name, Nanos::from_secs(20));
            side.enter(wait).expect("the namespace is there").expect("all ends are up");
        }
        Self { left, right }
    }

    pub(crate) fn left(&self) -> &Side {
        self.left.client()
    }

    pub(crate) fn middle(&self) -> &Side {
        self.left.server()
    }

    pub(crate) fn right(&self) -> &Side {
        self.right.client()
    }

    pub(crate) fn right_address(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 77, 0, 3], port))
    }

    /// Both ports of the middle, all queues of each.
    pub(crate) fn ports(&self) -> Vec<PortSpec> {
        ["xdp:veth0", "xdp:veth1"].map(|text| text.parse().expect("these are ports")).to_vec()
    }

    pub(crate) fn open(&self, spec: &SliceSpec) -> Result<Slice, SliceError> {
        self.middle().enter(|| Slice::open(spec)).expect("the namespace is there")
    }

    pub(crate) fn slice(&self, spec: SliceSpec) -> Slice {
        self.open(&spec).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn socket_left(&self, port: u16) -> UdpSocket {
        socket(self.left(), ([10, 77, 0, 1], port).into())
    }

    pub(crate) fn socket_right(&self, port: u16) -> UdpSocket {
        socket(self.right(), Self::right_address(port))
    }
}

/// Runs a line of ip(8) in the namespace of `side`.
pub(crate) fn ip(side: &Side, line: &str) {
    let output = side.command("ip").args(line.split(' ')).output().expect("ip is installed");
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A kernel socket in the namespace of `side` that gives up after some seconds.
pub(crate) fn socket(side: &Side, address: SocketAddr) -> UdpSocket {
    let socket = side.enter(|| UdpSocket::bind(address)).expect("the namespace is there");
    let socket = socket.expect("the address is there");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("ten seconds are a time");
    socket
}
