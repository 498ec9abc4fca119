//! The functions that are measured, each made for two ports: what comes in at the first leaves by
//! the second.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use base::{Nanos, PortId};
use calisto_nf::esp::{self, Algorithm, Association, Gateway, Others, Secret, Tunnel};
use calisto_nf::fib::Interface;
use calisto_nf::l2::Link;
use calisto_nf::router::RouterSettings;
use calisto_nf::{Esp, L2, Neighbour, NextHop, Prefix, Rib, Router};
use crypto::IpsecMb;

use super::table::{NEXT_HOPS, Route};
use super::wires::{DESTINATION, DESTINATION_BITS, INNER_MACS, SINK, SINK_MAC};
use crate::error::{Error, OrNeeds};

pub(super) const LEFT: PortId = PortId(0);
pub(super) const RIGHT: PortId = PortId(1);

/// What comes in at either of two ports leaves by the other.
pub(super) fn bridge() -> Result<L2, Error> {
    let link = |from, to| Link { from, to, source: None, destination: None };
    L2::new(&[link(LEFT, RIGHT), link(RIGHT, LEFT)]).or_needs("bridge")
}

/// Routes what the generator sends to the sink.
pub(super) fn router() -> Result<Router, Error> {
    let mut rib = Rib::new();
    let address: IpAddr = SINK.parse().or_needs("address of the sink")?;
    let prefix = format!("{DESTINATION}/{DESTINATION_BITS}").parse().or_needs("prefix")?;
    let to = NextHop::Gateway { port: RIGHT, address };
    rib.load(prefix, to).or_needs("room in the tables")?;
    rib.set_neighbour(RIGHT, address, Some(Neighbour::At(SINK_MAC)), &mut Vec::new());
    interfaces(&mut rib, INNER_MACS);
    Ok(Router::new(rib.fib(1), &RouterSettings::default()))
}

/// Both ports, as a router knows them.
pub(super) fn interfaces(rib: &mut Rib, macs: [[u8; 6]; 2]) {
    for (port, mac) in [LEFT, RIGHT].into_iter().zip(macs) {
        let four = Some(Ipv4Addr::new(192, 0, 2, port.0 as u8));
        let interface = Interface { mac, mtu: 1500, four, six: None };
        rib.set_interface(port, Some(interface), &mut Vec::new());
    }
}

/// A next hop of a table: its address, on the link of the second port, and its link address.
pub(super) fn gateway(number: u16) -> (NextHop, [u8; 6]) {
    let address = gateway_address(number).into();
    (NextHop::Gateway { port: RIGHT, address }, [2, 0, 0, 0, 1, number as u8])
}

fn gateway_address(number: u16) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, number as u8)
}

/// All `routes`, the neighbours of their next hops, and a route for everything else.
pub(super) fn whole_table(routes: &[Route], macs: [[u8; 6]; 2]) -> Result<Rib, Error> {
    let mut rib = Rib::new();
    let v6 = Prefix::new(Ipv6Addr::UNSPECIFIED.into(), 0).or_needs("prefix")?;
    let others = [(Prefix::ALL_IPV4, 1), (v6, 1)];
    for &(prefix, hop) in others.iter().chain(routes) {
        rib.load(prefix, gateway(hop).0).or_needs("room in the tables")?;
    }
    for number in 1..=NEXT_HOPS {
        let (mac, address) = (gateway(number).1, gateway_address(number).into());
        rib.set_neighbour(RIGHT, address, Some(Neighbour::At(mac)), &mut Vec::new());
    }
    interfaces(&mut rib, macs);
    Ok(rib)
}

/// Encrypts what goes from 10.1/16 to 10.2/16; the keys protect nothing.
pub(super) fn tunnel(algorithm: Algorithm) -> Result<Esp<IpsecMb>, Error> {
    let association = |number: u8| {
        let drawn = |bytes: usize, salt: usize| -> Vec<u8> {
            (0..bytes).map(|at| (at * at * 7 + salt) as u8 ^ number).collect()
        };
        let (key, auth) = (drawn(algorithm.key_bytes(), 3), drawn(algorithm.auth_bytes(), 99));
        let secret = Secret::new(algorithm, &key, &auth).or_needs("key")?;
        Ok(Association { spi: 256 + u32::from(number), secret })
    };
    let network = |second| vec![Prefix::of(Ipv4Addr::new(10, second, 0, 0).into(), 16)];
    let tunnel = Tunnel {
        name: "bench".to_owned(),
        local: Ipv4Addr::new(192, 0, 2, 1).into(),
        remote: Ipv4Addr::new(192, 0, 2, 2).into(),
        local_networks: network(1),
        remote_networks: network(2),
        outbound: association(1)?,
        inbound: association(2)?,
        mtu: 1500,
        replay_window: esp::WINDOW_MIN,
        is_extended: true,
        address_ipv4: None,
        address_ipv6: None,
    };
    let gateway = Gateway::new(vec![tunnel], Nanos::ZERO).or_needs("tunnel")?;
    let cipher = IpsecMb::open().or_needs("library that encrypts")?;
    Ok(Esp::new(Arc::new(gateway), Others::Drop, cipher))
}
