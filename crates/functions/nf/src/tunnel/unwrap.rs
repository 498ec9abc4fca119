//! A packet on its way out of a tunnel.

use base::{ChecksumState, TxChecksum};
use shm::Frame;

use super::gre;
use super::link::Link;
use super::settings::Kind;
use crate::esp::outer;
use crate::esp::packet::{self, Packet};
use crate::esp::selector::Address;

/// Why a packet does not come out of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Fragment,
    BadHeader,
    BadPayload,
    ForeignSource,
    Congestion,
}

/// Takes the packet inside out of the tunnel `link`, which is one of `links`, unless it says that
/// it is from an end of ours or from one of `made`. On an error the frame is as it was.
#[inline]
pub(super) fn unwrap(
    frame: &mut Frame,
    outside: &Packet,
    link: &Link,
    (links, made): (&[Link], &[Address]),
) -> Result<(), Refused> {
    let &Packet { l3, header_bytes, total_bytes, protocol, is_fragment, tos, .. } = outside;
    if is_fragment {
        return Err(Refused::Fragment);
    }
    let bytes = frame.bytes_mut();
    let payload = bytes.get(l3 + header_bytes..l3 + total_bytes).unwrap_or_default();
    let (before, is_ipv4) = match link.kind {
        Kind::Gre => gre::read(payload, link.key).ok_or(Refused::BadHeader)?,
        Kind::Ipip => (0, protocol == Kind::Ipip.protocol(true)),
    };
    let inside = payload.get(before..).unwrap_or_default();
    let inside = if is_ipv4 { Packet::ipv4(inside, l3) } else { Packet::ipv6(inside, l3) };
    let inside = inside.ok_or(Refused::BadPayload)?;
    let is_behind = link.networks.iter().any(|network| network.contains(inside.from));
    // Behind this nobody can tell it from what a tunnel has made.
    let is_made = made.binary_search(&inside.from).is_ok();
    if !is_behind || is_made || links.iter().any(|link| link.local == inside.from) {
        return Err(Refused::ForeignSource);
    }
    let ecn = outer::ecn(tos, inside.tos).ok_or(Refused::Congestion)?;
    let start = l3 + header_bytes + before;
    if ecn != inside.tos & 3 {
        packet::set_ecn(&mut bytes[start..], is_ipv4, ecn);
    }
    bytes.copy_within(0..l3, start - l3);
    bytes[start - 2..start].copy_from_slice(&outer::ether_type(is_ipv4));
    let is_cut = frame.pull_front(start - l3) && frame.set_len(l3 + inside.total_bytes);
    debug_assert!(is_cut, "the packet inside lies in the frame");
    let meta = frame.meta_mut();
    // As of a packet that has just come: nobody has looked at what it carries.
    (meta.l3_offset, meta.l4_offset) = (l3 as u16, 0);
    meta.checksum = ChecksumState::Unknown;
    meta.tx_checksum = TxChecksum::Complete;
    Ok(())
}
