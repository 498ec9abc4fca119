//! A port opened for requests: frames, addresses, and what the port has to be told is ours.

use base::PortId;
use port::xdp::{Destination, Protocol};
use port::{AnyPort, Opener, Port, PortSpec};
use shm::FramePool;
use shm::pool::PoolConfig;

use super::{Args, next_hop};
use crate::transport::packets::{Packets, PacketsConfig};
use crate::transport::sources::{Prefix, Spread};
use crate::{Error, Plan};

/// Fill ring, transmit ring and batches of both directions, with as much again for bursts.
const FRAMES: u32 = 8192;

/// Opens the port that `spec` names and makes requests travel by it.
pub(super) fn open(
    args: &Args,
    plan: &Plan,
    spec: &PortSpec,
    sources: Prefix,
) -> Result<Packets<AnyPort>, Error> {
    let config = PoolConfig { frames: FRAMES, ..PoolConfig::default() };
    let mut pool = FramePool::new(config).map_err(|error| Error::Failed(error.to_string()))?;
    let port = Opener::new(&pool).open(spec, PortId(0), &mut pool)?;
    if let Some(xdp) = port.as_xdp() {
        let spread = Spread::new(plan.flows, sources.hosts());
        for destination in ours(sources, spread, args.source_port) {
            xdp.interface().ours().add(destination)?;
        }
    }
    // A port without a link address of its own (a file) gets one that nobody else has: locally
    // administered, IEEE 802 section 8.
    let source_mac = port.capabilities().mac.unwrap_or([2, 0, 0, 0x63, 0x6c, 1]);
    let next_hop_mac = match args.next_hop {
        Some(mac) => mac,
        None => next_hop::find(args.target, spec.interface())?,
    };
    let config = PacketsConfig {
        target: args.target,
        sources,
        first_port: args.source_port,
        source_mac,
        next_hop_mac,
        flows: plan.flows,
        payload_bytes: plan.payload_bytes,
    };
    Packets::new(port, pool, config)
}

/// What replies are addressed to: the one address with each port, or every port of each address,
/// so that no more of the machine's traffic is taken than must be.
fn ours(sources: Prefix, spread: Spread, first_port: u16) -> impl Iterator<Item = Destination> {
    let Spread { addresses, ports } = spread;
    let protocol = Protocol::Udp;
    let one = addresses == 1;
    let number_of = if one { ports } else { addresses };
    (0..number_of).map(move |number| match one {
        true => Destination {
            protocol,
            address: Some(sources.nth(0)),
            port: Some(first_port.wrapping_add(number as u16)),
        },
        false => Destination { protocol, address: Some(sources.nth(number)), port: None },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_takes_its_ports_and_many_addresses_take_all_of_theirs() {
        let prefix: Prefix = "10.78.0.0/16".parse().expect("it is a prefix");
        let one = Prefix::host(prefix.nth(0));
        let taken: Vec<_> = ours(one, Spread::new(3, 1), 10_000).collect();
        assert_eq!(
            taken.iter().map(|to| to.port).collect::<Vec<_>>(),
            [10_000, 10_001, 10_002].map(Some)
        );
        let taken: Vec<_> = ours(prefix, Spread::new(100_000, prefix.hosts()), 10_000).collect();
        assert_eq!(taken.len(), 65_534);
        assert!(taken.iter().all(|to| to.port.is_none()));
    }
}
