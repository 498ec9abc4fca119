//! The way of every packet: from a frame to its flow, or to the reason why it has none.

use crate::flow_key::{FlowKey, Protocol};
use crate::{Malformed, NotOurs, Reject, arp, ethernet, icmp, ipv4, ipv6, tcp, udp, vlan};

/// How a frame is classified.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// A whole TCP or UDP packet from one host to one host.
    Flow(Flow),
    /// Valid, for somebody else.
    NotOurs(NotOurs),
    /// To be counted and dropped.
    Malformed(Malformed),
}

/// The flow of a packet and where its parts are, in bytes from the frame's start.
///
/// `14 <= l3_offset < l4_offset < payload_offset`, and `payload_offset + payload_len` is within
/// the frame. The lengths are those of the IP and transport headers: padding of a short Ethernet
/// frame is not payload. Checksums have not been looked at: [`crate::checksum::verify`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Its 5-tuple.
    pub key: FlowKey,
    /// The IP header.
    pub l3_offset: u16,
    /// The UDP or TCP header.
    pub l4_offset: u16,
    /// What the program gets.
    pub payload_offset: u16,
    /// Its bytes.
    pub payload_len: u16,
}

/// Classifies `frame`: its flow, or the reason why it has none.
#[inline]
pub fn classify(frame: &[u8]) -> Outcome {
    match find_flow(frame) {
        Ok(flow) => Outcome::Flow(flow),
        Err(Reject::NotOurs(reason)) => Outcome::NotOurs(reason),
        Err(Reject::Malformed(reason)) => Outcome::Malformed(reason),
    }
}

// Always inlined, as are the steps below: a `Flow` that is written once, where the caller wants it,
// instead of copied from step to step, makes 13 ns 9 ns (plain IPv4) and 19 ns 13 ns (IPv6).
#[inline(always)]
fn find_flow(frame: &[u8]) -> Result<Flow, Reject> {
    let link = ethernet::Header::parse(frame)?;
    let network = vlan::skip_tags(frame, link.ether_type)?;
    let packet = frame.get(usize::from(network.offset)..).unwrap_or_default();
    let flow = match network.ether_type {
        ethernet::IPV4 => find_ipv4(packet, network.offset)?,
        ethernet::IPV6 => find_ipv6(packet, network.offset)?,
        ethernet::ARP => {
            arp::Packet::parse(packet)?;
            return Err(NotOurs::Arp.into());
        }
        0..ethernet::FIRST_TYPE => return Err(NotOurs::LlcFrame.into()),
        _ => return Err(NotOurs::Ethertype.into()),
    };
    // A packet to one host in a frame to many must not be answered (RFC 1122 section 3.3.6).
    if ethernet::is_group(link.destination) {
        return Err(if link.destination == ethernet::BROADCAST {
            NotOurs::Broadcast.into()
        } else {
            NotOurs::Multicast.into()
        });
    }
    Ok(flow)
}

#[inline(always)]
fn find_ipv4(packet: &[u8], l3_offset: u16) -> Result<Flow, Reject> {
    let header = ipv4::Header::parse(packet)?;
    if header.is_fragment {
        return Err(NotOurs::Fragment.into());
    }
    let segment = packet
        .get(usize::from(header.header_bytes)..usize::from(header.total_bytes))
        .unwrap_or_default();
    let Some(protocol) = Protocol::from_number(header.protocol) else {
        return Err(match header.protocol {
            ipv4::ICMP => icmp::reject_ipv4(segment),
            ipv4::ESP => NotOurs::Esp.into(),
            _ => NotOurs::IpProtocol.into(),
        });
    };
    header.check_addresses()?;
    let segment_bytes = header.total_bytes - header.header_bytes;
    let part = find_transport(protocol, segment, segment_bytes)?;
    let l4_offset = l3_offset + header.header_bytes;
    Ok(Flow {
        key: FlowKey::from_ipv4(protocol, header.source, header.destination, part.ports),
        l3_offset,
        l4_offset,
        payload_offset: l4_offset + part.header_bytes,
        payload_len: part.payload_bytes,
    })
}

#[inline(always)]
fn find_ipv6(packet: &[u8], l3_offset: u16) -> Result<Flow, Reject> {
    let header = ipv6::Header::parse(packet)?;
    let payload =
        packet.get(usize::from(ipv6::HEADER_BYTES)..header.total_bytes()).unwrap_or_default();
    let transport = ipv6::walk(payload, header.next_header)?;
    let segment = payload.get(usize::from(transport.extension_bytes)..).unwrap_or_default();
    let Some(protocol) = Protocol::from_number(transport.protocol) else {
        return Err(match transport.protocol {
            ipv6::ICMPV6 => icmp::reject_ipv6(segment, &header),
            ipv4::ESP => NotOurs::Esp.into(),
            _ => NotOurs::IpProtocol.into(),
        });
    };
    header.check_addresses()?;
    let segment_bytes = header.payload_bytes.saturating_sub(transport.extension_bytes);
    let part = find_transport(protocol, segment, segment_bytes)?;
    let l4_offset = l3_offset + ipv6::HEADER_BYTES + transport.extension_bytes;
    Ok(Flow {
        key: FlowKey::from_ipv6(protocol, header.source, header.destination, part.ports),
        l3_offset,
        l4_offset,
        payload_offset: l4_offset + part.header_bytes,
        payload_len: part.payload_bytes,
    })
}

/// What classification needs of a transport header.
struct Part {
    ports: (u16, u16),
    header_bytes: u16,
    payload_bytes: u16,
}

/// Reads the header of `segment`, which has `segment_bytes` bytes.
#[inline(always)]
fn find_transport(protocol: Protocol, segment: &[u8], segment_bytes: u16) -> Result<Part, Reject> {
    match protocol {
        Protocol::Udp => {
            let header = udp::Header::parse(segment)?;
            Ok(Part {
                ports: (header.source_port, header.destination_port),
                header_bytes: udp::HEADER_BYTES,
                payload_bytes: header.payload_bytes(),
            })
        }
        Protocol::Tcp => {
            let header = tcp::Header::parse(segment)?;
            Ok(Part {
                ports: (header.source_port, header.destination_port),
                header_bytes: header.header_bytes,
                payload_bytes: segment_bytes.saturating_sub(header.header_bytes),
            })
        }
    }
}

#[cfg(test)]
mod tests;
