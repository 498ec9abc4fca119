//! From nothing to a wire that is up and silent.

use std::io;
use std::path::Path;

use base::Nanos;
use sys::ethtool::{self, Offload};
use sys::interface;

use crate::ip::{ip, ip_in};
use crate::name::INTERFACE;
use crate::{Side, TestbedConfig, TestbedError};

/// What must be off for every packet on the wire to be complete and within the MTU: the kernel
/// leaves sums and cuts to the "hardware" of a veth, and that has none.
const OFFLOADS: [Offload; 4] = [Offload::Tso, Offload::Gso, Offload::Gro, Offload::TxChecksum];

/// How long the kernel may take to notice that a wire is whole.
const TIMEOUT: Nanos = Nanos::from_secs(20);

/// IPv6 of a bed without IPv6.
const IPV6_OFF: &[(&str, &str)] = &[("disable_ipv6", "1")];

/// IPv6 of a bed with it: addresses are usable at once, and nobody asks for a router.
const IPV6_QUIET: &[(&str, &str)] = &[
    ("disable_ipv6", "0"),
    ("accept_dad", "0"),
    ("accept_ra", "0"),
    ("autoconf", "0"),
    ("router_solicitations", "0"),
];

/// Builds what `config` asks for. Stops at the first error; the caller cleans up.
pub(crate) fn build(
    client: &Side,
    server: &Side,
    config: &TestbedConfig,
) -> Result<(), TestbedError> {
    for side in [client, server] {
        ip(["netns", "add", side.namespace()])?;
        // Before there is an interface that could speak: new ones copy "default".
        ipv6(side, config)?;
    }
    wire(client, server, config)?;
    for (side, peer) in [(client, server), (server, client)] {
        if !config.offloads {
            side.enter(switch_offloads_off)??;
        }
        addresses(side, config)?;
        let namespace = side.namespace();
        ip_in(namespace, "link set dev lo up")?;
        ip_in(namespace, &format!("link set dev {INTERFACE} up"))?;
        if config.static_neighbours {
            neighbour(side, peer, config)?;
        }
    }
    for side in [client, server] {
        side.enter(|| interface::wait_until_operational(INTERFACE, TIMEOUT))??;
    }
    Ok(())
}

fn ipv6(side: &Side, config: &TestbedConfig) -> Result<(), TestbedError> {
    let settings = if config.ipv6 { IPV6_QUIET } else { IPV6_OFF };
    side.enter(|| {
        for scope in ["all", "default"] {
            for (name, value) in settings {
                // /proc/sys/net shows the namespace of the thread that looks.
                let path = Path::new("/proc/sys/net/ipv6/conf").join(scope).join(name);
                match std::fs::write(&path, value) {
                    // A kernel without IPv6 is as quiet as can be.
                    Err(error) if error.kind() == io::ErrorKind::NotFound && !config.ipv6 => {}
                    Err(error) => return Err(TestbedError::Proc { path, error }),
                    Ok(()) => {}
                }
            }
        }
        Ok(())
    })?
}

/// Makes both ends at once, each in its namespace: neither is ever visible to the host.
fn wire(client: &Side, server: &Side, config: &TestbedConfig) -> Result<(), TestbedError> {
    let TestbedConfig { queues, mtu, .. } = config;
    let end = |side: &Side| {
        let address = mac_text(side.mac());
        let queues = format!("numrxqueues {queues} numtxqueues {queues}");
        format!("{INTERFACE} address {address} mtu {mtu} {queues}")
    };
    let (near, far, there) = (end(client), end(server), server.namespace());
    let line = format!("link add {near} type veth peer name {far} netns {there}");
    ip_in(client.namespace(), &line).map(drop)
}

fn switch_offloads_off() -> Result<(), TestbedError> {
    OFFLOADS.iter().try_for_each(|&offload| Ok(ethtool::set(INTERFACE, offload, false)?))
}

fn addresses(side: &Side, config: &TestbedConfig) -> Result<(), TestbedError> {
    let namespace = side.namespace();
    let (ipv4, bits) = (side.ipv4(), Side::IPV4_PREFIX);
    ip_in(namespace, &format!("address add {ipv4}/{bits} dev {INTERFACE}"))?;
    if config.ipv6 {
        let (ipv6, bits) = (side.ipv6(), Side::IPV6_PREFIX);
        ip_in(namespace, &format!("-6 address add {ipv6}/{bits} dev {INTERFACE} nodad"))?;
    }
    Ok(())
}

fn neighbour(side: &Side, peer: &Side, config: &TestbedConfig) -> Result<(), TestbedError> {
    let known = format!("lladdr {} dev {INTERFACE} nud permanent", mac_text(peer.mac()));
    ip_in(side.namespace(), &format!("neighbour replace {} {known}", peer.ipv4()))?;
    if config.ipv6 {
        ip_in(side.namespace(), &format!("-6 neighbour replace {} {known}", peer.ipv6()))?;
    }
    Ok(())
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
