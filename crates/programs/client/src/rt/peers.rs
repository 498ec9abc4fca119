//! Where hosts are that packets came from: the way to send them something that is no answer.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};

use base::PortId;
use shm::Frame;
use wire::build::UdpPacket;
use wire::{ethernet, vlan};

/// Hosts remembered, each in the one place where its address hashes to: a program answers those
/// that asked a moment ago, and whoever floods it with invented addresses gets nothing but this
/// table.
const PLACES: usize = 1024;

/// How to reach a host: what is in front of the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    ours: [u8; 6],
    theirs: [u8; 6],
    pub(crate) port: PortId,
    /// The tag that the port stripped, and puts back.
    vlan_tci: u16,
    /// The tag that is in the packet itself.
    tag: Option<u16>,
    /// The address of ours that the host has sent to.
    pub(crate) local: SocketAddr,
}

impl Link {
    /// Back to where `frame`, a packet to `local`, came from.
    pub(crate) fn back(frame: &Frame, local: SocketAddr) -> Option<Self> {
        let header = ethernet::Header::parse(frame.bytes()).ok()?;
        let meta = frame.meta();
        Some(Self {
            ours: header.destination,
            theirs: header.source,
            port: meta.port,
            vlan_tci: meta.vlan_tci,
            tag: vlan::outer_tci(frame.bytes()),
            local,
        })
    }

    /// Writes a packet into an empty frame; false when it does not fit.
    #[must_use]
    pub(crate) fn write(
        &self,
        frame: &mut Frame,
        source: SocketAddr,
        destination: SocketAddr,
        payload: &[u8],
    ) -> bool {
        let packet = UdpPacket {
            source_mac: self.ours,
            destination_mac: self.theirs,
            source,
            destination,
            payload,
            vlan: self.tag,
        };
        if !frame.set_len(packet.len()) || packet.write(frame.bytes_mut()).is_none() {
            return false;
        }
        let meta = frame.meta_mut();
        (meta.port, meta.vlan_tci) = (self.port, self.vlan_tci);
        true
    }
}

/// The hosts that a worker has heard of last.
#[derive(Debug)]
pub(crate) struct Peers {
    places: Vec<Option<(IpAddr, Link)>>,
    /// Keyed, so that nobody outside knows which addresses share a place.
    hasher: RandomState,
}

impl Peers {
    pub(crate) fn new() -> Self {
        Self { places: vec![None; PLACES], hasher: RandomState::new() }
    }

    pub(crate) fn learn(&mut self, host: IpAddr, link: Link) {
        let place = self.place(host);
        self.places[place] = Some((host, link));
    }

    pub(crate) fn find(&self, host: IpAddr) -> Option<Link> {
        let (known, link) = self.places[self.place(host)].as_ref()?;
        (*known == host).then_some(*link)
    }

    fn place(&self, host: IpAddr) -> usize {
        self.hasher.hash_one(host) as usize % PLACES
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_last_way_to_a_host_is_known_and_invented_ones_fill_nothing_but_the_table() {
        let link = |last: u8| Link {
            ours: [2; 6],
            theirs: [2, 0, 0, 0, 0, last],
            port: PortId(0),
            vlan_tci: 0,
            tag: None,
            local: SocketAddr::from(([10, 0, 0, 9], 53)),
        };
        let mut peers = Peers::new();
        let host = IpAddr::from(Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(peers.find(host), None);
        peers.learn(host, link(1));
        peers.learn(host, link(2));
        assert_eq!(peers.find(host), Some(link(2)));
        for address in 0..100_000_u32 {
            peers.learn(IpAddr::from(Ipv4Addr::from(address)), link(3));
        }
        assert_eq!(peers.places.len(), PLACES);
        assert_ne!(peers.find(host), Some(link(2)), "its place was taken");
    }
}
