//! IPv6 neighbour solicitations, and the advertisement built where one stands (RFC 4861).

use std::net::Ipv6Addr;

use super::{NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION};
use crate::bytes::{array, put};
use crate::checksum::Sum;
use crate::{Malformed, ethernet, ipv6, vlan};

/// RFC 4861 section 4.3: what comes from off the link has a smaller one.
const HOP_LIMIT: u8 = 255;
/// ICMPv6 header and target; an advertisement has the same size.
const FIXED_BYTES: usize = 24;
/// Type, length and a MAC address.
const LINK_OPTION_BYTES: usize = 8;
const SOURCE_LINK_OPTION: u8 = 1;
const TARGET_LINK_OPTION: u8 = 2;
/// Bytes of advertisement behind the IPv6 header.
const ADVERTISEMENT_BYTES: u16 = 32;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
const ALL_NODES: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const ALL_NODES_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];

/// A neighbour solicitation: which host has this address?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicitation {
    /// The address in question.
    pub target: Ipv6Addr,
    /// Link address that the sender wants the answer at.
    pub source_mac: Option<[u8; 6]>,
}

impl Solicitation {
    /// Reads the ICMPv6 `message` of a packet with the header `network`, with every check of
    /// RFC 4861 section 7.1.1.
    pub fn parse(message: &[u8], network: &ipv6::Header) -> Result<Self, Malformed> {
        Self::parse_checked(message, network).ok_or(Malformed::NeighbourSolicitation)
    }

    fn parse_checked(message: &[u8], network: &ipv6::Header) -> Option<Self> {
        let [kind, code, ..] = *message.first_chunk::<8>()?;
        let target: [u8; 16] = array(message, 8)?;
        let is_duplicate_detection = network.source == [0; 16];
        let is_destination_right = network.destination == solicited_node(target)
            || (network.destination == target && !is_duplicate_detection);
        if kind != NEIGHBOUR_SOLICITATION
            || code != 0
            || network.hop_limit != HOP_LIMIT
            || ipv6::is_multicast(target)
            || !is_destination_right
            || !(is_duplicate_detection || ipv6::is_host(network.source))
        {
            return None;
        }
        let length = u16::try_from(message.len()).ok()?;
        let sum = Sum::ZERO
            .pseudo_ipv6(network.source, network.destination, ipv6::ICMPV6, length)
            .bytes(message);
        let source_mac = source_link_option(message.get(FIXED_BYTES..)?)?;
        if sum.fold() != 0xffff || (is_duplicate_detection && source_mac.is_some()) {
            return None;
        }
        Some(Self { target: Ipv6Addr::from(target), source_mac })
    }
}

/// Finds the source link-layer address among `options`; the outer nothing when one of them has
/// length zero or reaches beyond the message.
fn source_link_option(mut options: &[u8]) -> Option<Option<[u8; 6]>> {
    let mut source_mac = None;
    // Every round takes at least the eight bytes that a length of one stands for.
    while let [kind, words, ..] = options {
        let bytes = usize::from(*words) * 8;
        if bytes == 0 {
            return None;
        }
        let (option, behind) = options.split_at_checked(bytes)?;
        if *kind == SOURCE_LINK_OPTION {
            source_mac = source_mac.or(array(option, 2));
        }
        options = behind;
    }
    options.is_empty().then_some(source_mac)
}

/// The group that listens for questions about `target` (RFC 4291 section 2.7.1).
fn solicited_node(target: [u8; 16]) -> [u8; 16] {
    let [.., a, b, c] = target;
    [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]
}

/// Turns the neighbour solicitation in `frame` for an address of ours into its advertisement, in
/// place, and returns the advertisement's length; nothing, and the frame as it was, when there is
/// nothing to answer.
///
/// The advertisement carries our link address and so may be longer than the question: `frame`
/// should be the packet with room behind it, up to 72 bytes from the start of the IPv6 header (86
/// bytes without, 90 and 94 with one and two VLAN tags). With less room a question that is shorter
/// than that (one without a link address, as duplicate address detection sends) gets no answer.
pub fn answer_solicitation(
    frame: &mut [u8],
    ours: impl Fn(Ipv6Addr) -> bool,
    mac: [u8; 6],
) -> Option<usize> {
    let network = vlan::network(frame)?;
    if network.ether_type != ethernet::IPV6 {
        return None;
    }
    let l3 = usize::from(network.offset);
    let icmp = l3 + usize::from(ipv6::HEADER_BYTES);
    let packet = frame.get(l3..)?;
    let header = ipv6::Header::parse(packet).ok()?;
    if header.next_header != ipv6::ICMPV6 {
        return None;
    }
    let message = packet.get(usize::from(ipv6::HEADER_BYTES)..header.total_bytes())?;
    let question = Solicitation::parse(message, &header).ok()?;
    let asker_mac = question.source_mac.or_else(|| ethernet::source(frame))?;
    let end = icmp + usize::from(ADVERTISEMENT_BYTES);
    if ethernet::is_group(asker_mac) || frame.len() < end || !ours(question.target) {
        return None;
    }

    // RFC 4861 section 7.2.4: who has no address yet cannot be answered alone.
    let target = question.target.octets();
    let (to, to_mac, flags) = if header.source == [0; 16] {
        (ALL_NODES, ALL_NODES_MAC, OVERRIDE)
    } else {
        (header.source, asker_mac, SOLICITED | OVERRIDE)
    };
    let option: [u8; LINK_OPTION_BYTES] =
        [TARGET_LINK_OPTION, 1, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]];
    let length = ADVERTISEMENT_BYTES.to_be_bytes();
    let sum = Sum::ZERO
        .pseudo_ipv6(target, to, ipv6::ICMPV6, ADVERTISEMENT_BYTES)
        .bytes(&[NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0])
        .bytes(&target)
        .bytes(&option);
    let [c0, c1] = sum.checksum().to_be_bytes();
    let is_written = put(frame, 0, to_mac)
        && put(frame, 6, mac)
        && put(frame, l3, [0x60, 0, 0, 0, length[0], length[1], ipv6::ICMPV6, HOP_LIMIT])
        && put(frame, l3 + 8, target)
        && put(frame, l3 + 24, to)
        && put(frame, icmp, [NEIGHBOUR_ADVERTISEMENT, 0, c0, c1, flags, 0, 0, 0])
        && put(frame, icmp + 8, target)
        && put(frame, icmp + FIXED_BYTES, option);
    is_written.then_some(end)
}
