//! What an application may send: from its own addresses and ports, by our own link address.
//!
//! Checked on a copy that the application cannot change any more. A VLAN tag is allowed when a
//! packet with that tag was delivered to it; two tags are not. A link address that it was told and
//! that has changed since is put right.

use std::net::IpAddr;
use std::sync::Arc;

use port::Stations;
use shm::Frame;
use wire::{Outcome, Protocol, ethernet, vlan};

use crate::counters::DispatchEvent;
use crate::listeners::Listener;

/// Bits of a tag that name the VLAN (IEEE 802.1Q).
const VLAN_ID: u16 = 0x0fff;

/// The rules for one application.
#[derive(Clone, Debug)]
pub struct Egress {
    listeners: Vec<Listener>,
    /// By port: the source link address that it was told.
    macs: Vec<[u8; 6]>,
    /// By port: those that are this host's now.
    stations: Vec<Arc<Stations>>,
    /// What "every address" stands for.
    host: Vec<IpAddr>,
    /// Bit n: packets of VLAN n were delivered to it.
    vlans: [u64; 64],
}

impl Egress {
    /// What follows from what it registered: `macs` by port, `host` what an unspecified address of
    /// a listener stands for. Without any, who listens on every address may send from none: an
    /// address that nobody vouches for would be somebody else's.
    pub fn new(listeners: Vec<Listener>, macs: Vec<[u8; 6]>, host: Vec<IpAddr>) -> Self {
        Self { listeners, macs, stations: Vec::new(), host, vlans: [0; 64] }
    }

    /// By port, where the link addresses are that are this host's at any moment: packets may come
    /// from each, and what comes from the one that the application was told leaves with the
    /// present one.
    pub(crate) fn follow(&mut self, stations: Vec<Arc<Stations>>) {
        self.stations = stations;
    }

    /// A packet is being delivered: answers may carry its tag.
    pub(crate) fn saw_tag_of(&mut self, frame: &Frame) {
        let tci = match frame.meta().vlan_tci {
            0 => vlan::outer_tci(frame.bytes()).unwrap_or(0),
            tci => tci,
        };
        let id = usize::from(tci & VLAN_ID);
        self.vlans[id / 64] |= 1 << (id % 64);
    }

    fn may_tag(&self, tci: u16) -> bool {
        let id = usize::from(tci & VLAN_ID);
        tci == 0 || self.vlans[id / 64] >> (id % 64) & 1 == 1
    }

    /// Whether the packet may leave; its link address is the port's then.
    ///
    /// # Errors
    /// Under which name it is dropped.
    #[inline]
    pub(crate) fn check(&self, frame: &mut Frame) -> Result<(), DispatchEvent> {
        let bytes = frame.bytes();
        let Outcome::Flow(flow) = wire::classify(bytes) else {
            return Err(DispatchEvent::AppNotAFlow);
        };
        let port = usize::from(frame.meta().port.0);
        let source = ethernet::source(bytes);
        let stations = self.stations.get(port).zip(source);
        let is_ours = stations.is_some_and(|(stations, source)| stations.has(source));
        let is_told = source.is_some() && self.macs.get(port) == source.as_ref();
        if !(is_ours || is_told) || !self.owns(flow.key.protocol(), flow.key.source()) {
            return Err(DispatchEvent::Spoofed);
        }
        let tags_inside = (flow.l3_offset - ethernet::HEADER_BYTES) / vlan::TAG_BYTES;
        let tag = match (tags_inside, frame.meta().vlan_tci) {
            (0, tci) => tci,
            (1, 0) => vlan::outer_tci(bytes).unwrap_or(u16::MAX),
            _ => return Err(DispatchEvent::Spoofed),
        };
        if !self.may_tag(tag) {
            return Err(DispatchEvent::Spoofed);
        }
        if let Some((stations, _)) = stations.filter(|_| !is_ours)
            && let Some(from) = frame.bytes_mut().get_mut(6..12)
        {
            from.copy_from_slice(&stations.own());
        }
        Ok(())
    }

    fn owns(&self, protocol: Protocol, source: std::net::SocketAddr) -> bool {
        self.listeners.iter().any(|listener| {
            let address = listener.address.ip();
            let port = listener.address.port();
            let anywhere = address.is_unspecified()
                && address.is_ipv4() == source.is_ipv4()
                && self.host.contains(&source.ip());
            listener.protocol == protocol
                && (port == source.port() || port == 0)
                && (address == source.ip() || anywhere)
        })
    }
}

#[cfg(test)]
mod tests;
