//! A packet on its way into a tunnel.

use std::net::IpAddr;

use base::ChecksumState;
use shm::Frame;
use wire::checksum;

use super::gre;
use super::settings::{Kind, TunnelSettings};
use crate::esp::outer;
use crate::esp::packet::{self, Packet};

const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const TTL: u8 = 64;
const DONT_FRAGMENT: u8 = 0x40;

/// Why a packet does not go into its tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    TtlExceeded,
    TooLong,
    NoRoom,
}

/// What stands before each packet of a tunnel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    kind: Kind,
    local: IpAddr,
    remote: IpAddr,
    key: Option<u32>,
}

impl Head {
    pub(super) fn new(tunnel: &TunnelSettings) -> Self {
        let TunnelSettings { kind, local, remote, key, .. } = *tunnel;
        Self { kind, local, remote, key }
    }

    const fn ip_bytes(&self) -> usize {
        if self.local.is_ipv4() { IPV4_BYTES } else { IPV6_BYTES }
    }

    /// Bytes of it.
    pub(super) const fn bytes(&self) -> u16 {
        let behind = match self.kind {
            Kind::Ipip => 0,
            Kind::Gre => gre::bytes(self.key),
        };
        (self.ip_bytes() + behind) as u16
    }

    /// Writes it to the start of `out`, for a packet with that type of service or traffic class:
    /// DSCP is copied, and ECN (RFC 6040 section 4.1).
    #[inline]
    fn write(&self, out: &mut [u8], packet: &Packet) {
        let total = usize::from(self.bytes()) + packet.total_bytes;
        let protocol = self.kind.protocol(packet.is_ipv4);
        let tos = packet.tos;
        match (self.local, self.remote) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let [l0, l1] = (total as u16).to_be_bytes();
                // Never in pieces, so that it needs no identification (RFC 6864 section 4).
                let start = [0x45, tos, l0, l1, 0, 0, DONT_FRAGMENT, 0, TTL, protocol, 0, 0];
                out[..12].copy_from_slice(&start);
                out[12..16].copy_from_slice(&from.octets());
                out[16..20].copy_from_slice(&to.octets());
                let sum = checksum::of(&out[..IPV4_BYTES]);
                out[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let [l0, l1] = ((total - IPV6_BYTES) as u16).to_be_bytes();
                out[..8].copy_from_slice(&[0x60 | tos >> 4, tos << 4, 0, 0, l0, l1, protocol, TTL]);
                out[8..24].copy_from_slice(&from.octets());
                out[24..40].copy_from_slice(&to.octets());
            }
            _ => debug_assert!(false, "a tunnel's ends are of one version"),
        }
        if self.kind == Kind::Gre {
            gre::write(&mut out[self.ip_bytes()..], self.key, packet.is_ipv4);
        }
    }
}

const _: () = assert!(IPV6_BYTES + gre::BYTES_MAX <= 48);

/// Puts the packet of `frame` behind the head of a tunnel that takes `inner_mtu` bytes. On an error
/// the frame is as it was, but when there is no room.
#[inline]
pub(super) fn wrap(
    frame: &mut Frame,
    packet: &Packet,
    head: &Head,
    inner_mtu: u16,
) -> Result<(), Refused> {
    let &Packet { l3, is_ipv4, total_bytes, ttl, .. } = packet;
    // RFC 2003 section 3.1: who puts a packet into a tunnel forwards it.
    if ttl <= 1 {
        return Err(Refused::TtlExceeded);
    }
    if total_bytes > usize::from(inner_mtu) {
        return Err(Refused::TooLong);
    }
    // Nobody can complete what is inside later on.
    crate::checksum::complete_here(frame);
    let before = usize::from(head.bytes());
    if !frame.set_len(l3 + total_bytes) || !frame.push_front(before) {
        return Err(Refused::NoRoom);
    }
    let bytes = frame.bytes_mut();
    packet::lower_ttl(&mut bytes[l3 + before..], is_ipv4);
    bytes.copy_within(before..before + l3, 0);
    bytes[l3 - 2..l3].copy_from_slice(&outer::ether_type(head.local.is_ipv4()));
    head.write(&mut bytes[l3..], packet);
    let meta = frame.meta_mut();
    // The link header and tags are short.
    (meta.l3_offset, meta.l4_offset) = (l3 as u16, (l3 + head.ip_bytes()) as u16);
    meta.checksum = ChecksumState::Verified;
    Ok(())
}
