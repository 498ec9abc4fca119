//! Two wires: one from the generator to whoever forwards, one from there to the sink.
//!
//! Both outer ends are in one namespace, both inner ones in another: `veth0` of each is the first
//! wire, `veth1` of each the second.

use std::process::Stdio;

use sys::ethtool::{self, Offload};
use testbed::{Side, Testbed, TestbedConfig};

use crate::error::{Error, OrNeeds};
use crate::tcp::harness::set;

/// The wire that packets come by, at both of its ends.
pub(super) const IN: &str = "veth0";
/// The wire that they leave by, at both of its ends.
pub(super) const OUT: &str = "veth1";

/// Where packets of the generator are for, [`DESTINATION_BITS`] of it: behind the sink.
pub(super) const DESTINATION: &str = "10.99.0.0";
pub(super) const DESTINATION_BITS: u8 = 16;

/// The sink, to whoever routes.
pub(super) const SINK: &str = "10.77.1.1";

/// Link addresses of the second wire: the sink's and the forwarder's.
pub(super) const SINK_MAC: [u8; 6] = [2, 0, 0, 0x77, 1, 1];
const OUT_MAC: [u8; 6] = [2, 0, 0, 0x77, 1, 2];

/// Those of the forwarder's ends; the first is the testbed's.
pub(super) const INNER_MACS: [[u8; 6]; 2] = [[2, 0, 0, 0x77, 0, 2], OUT_MAC];

/// Gone with this value.
pub(super) struct Wires(Testbed);

impl Wires {
    /// Makes them.
    pub(super) fn new() -> Result<Self, Error> {
        let bed = Testbed::new(TestbedConfig::default()).or_needs("pair of namespaces")?;
        let wires = Self(bed);
        let (outer, inner) = (wires.outer(), wires.inner());
        let (near_mac, far_mac) = (mac_text(SINK_MAC), mac_text(OUT_MAC));
        let far = format!("peer name {OUT} address {far_mac} netns {}", inner.namespace());
        ip(outer, &format!("link add {OUT} address {near_mac} type veth {far}"))?;
        for side in [outer, inner] {
            let off = || {
                let offloads = [Offload::Tso, Offload::Gso, Offload::Gro, Offload::TxChecksum];
                offloads.into_iter().try_for_each(|offload| ethtool::set(OUT, offload, false))
            };
            side.enter(off).or_needs("thread in a namespace")?.or_needs("veth without offloads")?;
        }
        ip(outer, &format!("link set dev {OUT} up"))?;
        // Frames of XDP reach an end that polls, and an end without XDP polls for GRO's sake.
        let poll = || ethtool::set(IN, Offload::Gro, true);
        inner.enter(poll).or_needs("thread in a namespace")?.or_needs("veth that polls")?;
        wires.restore()?;
        Ok(wires)
    }

    /// Where the generator and the sink are.
    pub(super) fn outer(&self) -> &Side {
        self.0.client()
    }

    /// Where it is forwarded.
    pub(super) fn inner(&self) -> &Side {
        self.0.server()
    }

    /// Brings back what a forwarder may have taken with it, and takes away what it may have left:
    /// DPDK sets a link down when it closes it, and with that go routes and neighbours; where it is
    /// killed, its XDP program stays.
    pub(super) fn restore(&self) -> Result<(), Error> {
        let inner = self.inner();
        for link in [IN, OUT] {
            ip(inner, &format!("link set dev {link} xdp off"))?;
            ip(inner, &format!("link set dev {link} up"))?;
        }
        ip(inner, &format!("address replace 10.77.1.2/24 dev {OUT}"))?;
        let known = format!("lladdr {} dev {OUT} nud permanent", mac_text(SINK_MAC));
        ip(inner, &format!("neighbour replace {SINK} {known}"))?;
        ip(inner, &format!("route replace {DESTINATION}/{DESTINATION_BITS} via {SINK} dev {OUT}"))
    }

    /// Whether the kernel forwards.
    pub(super) fn let_kernel_forward(&self, forwards: bool) -> Result<(), Error> {
        set(self.inner(), "net/ipv4/ip_forward", if forwards { "1" } else { "0" })
    }
}

/// As ip(8) writes it.
pub(super) fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Runs `ip WORDS` there.
fn ip(side: &Side, words: &str) -> Result<(), Error> {
    let mut command = side.command("ip");
    command.args(words.split_ascii_whitespace()).stdin(Stdio::null());
    let output = command.output().or_needs("ip(8)")?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("`ip {words}`: {said}")).or_needs("second wire")
}
