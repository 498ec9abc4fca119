//! What a packet says of itself, for people and scripts.

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;
use wire::{ethernet, icmp, ipv4, ipv6, tcp, vlan};

/// The headers of a packet, as far as they can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketFigures {
    /// Bytes of the frame.
    pub bytes: usize,
    /// The link address that it comes from.
    pub link_source: String,
    /// The one that it is for.
    pub link_destination: String,
    /// The number of its VLAN; of two the outer one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// The Ethernet type behind the tags.
    pub ether_type: u16,
    /// What it says of IP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<IpFigures>,
}

/// The headers of an IP packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IpFigures {
    /// From whom.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// Bytes of header and payload.
    pub bytes: usize,
    /// Routers that it may still pass.
    pub ttl: u8,
    /// The class that it asks for (RFC 2474).
    pub dscp: u8,
    /// What it says of congestion (RFC 3168).
    pub ecn: u8,
    /// Whether nobody may cut it.
    pub do_not_fragment: bool,
    /// Where in the whole this piece begins, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragment: Option<u32>,
    /// What it carries.
    pub protocol: u8,
    /// Ports, of a protocol that has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<(u16, u16)>,
    /// Flags of TCP, as tcpdump writes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_flags: Option<String>,
    /// Type and code of ICMP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp: Option<(u8, u8)>,
    /// The packet inside, of IP in IP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<Box<Self>>,
}

const IP_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
/// Packets in packets that are shown.
const DEPTH_MAX: u8 = 3;

impl PacketFigures {
    /// Reads the packet in `frame`.
    pub fn of(frame: &[u8]) -> Self {
        let mut figures = Self { bytes: frame.len(), ..Self::default() };
        let Some((addresses, rest)) = frame.split_first_chunk::<12>() else { return figures };
        (figures.link_destination, figures.link_source) =
            (mac(&addresses[..6]), mac(&addresses[6..]));
        let Some(first) = rest.first_chunk().map(|bytes| u16::from_be_bytes(*bytes)) else {
            return figures;
        };
        figures.vlan = vlan::outer_tci(frame).map(|tci| tci & 0x0fff);
        figures.ether_type = first;
        if let Ok(payload) = vlan::skip_tags(frame, first) {
            figures.ether_type = payload.ether_type;
            let packet = frame.get(usize::from(payload.offset)..).unwrap_or_default();
            figures.ip = match payload.ether_type {
                ethernet::IPV4 | ethernet::IPV6 => IpFigures::of(packet, 0),
                _ => None,
            };
        }
        figures
    }
}

impl IpFigures {
    fn of(packet: &[u8], depth: u8) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::of4(packet, depth),
            6 => Self::of6(packet, depth),
            _ => None,
        }
    }

    fn of4(packet: &[u8], depth: u8) -> Option<Self> {
        const DO_NOT_FRAGMENT: u16 = 0x4000;
        let header = ipv4::Header::parse(packet).ok()?;
        let &[_, service, _, _, _, _, f0, f1, ttl, ..] = packet.first_chunk::<20>()?;
        let flags = u16::from_be_bytes([f0, f1]);
        let figures = Self {
            source: header.source.into(),
            destination: header.destination.into(),
            bytes: header.total_bytes.into(),
            ttl,
            dscp: service >> 2,
            ecn: service & 3,
            do_not_fragment: flags & DO_NOT_FRAGMENT != 0,
            fragment: header.is_fragment.then_some(u32::from(flags & 0x1fff) * 8),
            protocol: header.protocol,
            ports: None,
            tcp_flags: None,
            icmp: None,
            inside: None,
        };
        let payload = packet.get(header.header_bytes.into()..header.total_bytes.into())?;
        Some(figures.with(payload, depth))
    }

    fn of6(packet: &[u8], depth: u8) -> Option<Self> {
        let header = ipv6::Header::parse(packet).ok()?;
        let class = packet[0] << 4 | packet[1] >> 4;
        let figures = Self {
            source: header.source.into(),
            destination: header.destination.into(),
            bytes: header.total_bytes(),
            ttl: header.hop_limit,
            dscp: class >> 2,
            ecn: class & 3,
            do_not_fragment: true,
            fragment: None,
            protocol: header.next_header,
            ports: None,
            tcp_flags: None,
            icmp: None,
            inside: None,
        };
        let payload = packet.get(usize::from(ipv6::HEADER_BYTES)..header.total_bytes())?;
        // What stands behind headers that nobody follows is not shown.
        let Ok(last) = ipv6::walk(payload, header.next_header) else { return Some(figures) };
        let figures = Self { protocol: last.protocol, ..figures };
        Some(figures.with(payload.get(last.extension_bytes.into()..)?, depth))
    }

    /// The same with what the payload says.
    fn with(mut self, payload: &[u8], depth: u8) -> Self {
        if self.fragment.is_some_and(|offset| offset > 0) {
            return self;
        }
        let ports = || {
            let &[s0, s1, d0, d1] = payload.first_chunk()?;
            Some((u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])))
        };
        match self.protocol {
            ipv4::TCP => {
                self.ports = ports();
                self.tcp_flags = payload.get(13).map(|flags| flags_of(*flags));
            }
            ipv4::UDP | 33 | 132 | 136 => self.ports = ports(),
            ipv4::ICMP | ipv6::ICMPV6 => {
                let header = icmp::Header::parse(payload).ok();
                self.icmp = header.map(|header| (header.kind, header.code));
            }
            IP_IN_IP | IPV6_IN_IP if depth < DEPTH_MAX => {
                self.inside = Self::of(payload, depth + 1).map(Box::new);
            }
            _ => {}
        }
        self
    }
}

/// As tcpdump writes them: `S.` is a SYN with an acknowledgement.
fn flags_of(flags: u8) -> String {
    let names = [
        (tcp::FIN, 'F'),
        (tcp::SYN, 'S'),
        (tcp::RST, 'R'),
        (tcp::PSH, 'P'),
        (tcp::ACK, '.'),
        (tcp::URG, 'U'),
        (tcp::ECE, 'E'),
        (tcp::CWR, 'W'),
    ];
    names.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| name).collect()
}

pub(super) fn mac(octets: &[u8]) -> String {
    let octets: Vec<String> = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    octets.join(":")
}

impl fmt::Display for PacketFigures {
    /// `10.0.0.1:5000 > 10.0.1.2:80 tcp S, ttl 64, 60 bytes`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(vlan) = self.vlan {
            write!(f, "vlan {vlan}, ")?;
        }
        match &self.ip {
            Some(ip) => ip.fmt(f),
            None => write!(
                f,
                "{} > {}, Ethernet type 0x{:04x}, {} bytes",
                self.link_source, self.link_destination, self.ether_type, self.bytes
            ),
        }
    }
}

impl fmt::Display for IpFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |address: IpAddr, port: Option<u16>| match (address, port) {
            (address, None) => address.to_string(),
            (IpAddr::V4(address), Some(port)) => format!("{address}:{port}"),
            (IpAddr::V6(address), Some(port)) => format!("[{address}]:{port}"),
        };
        let source = end(self.source, self.ports.map(|(source, _)| source));
        let destination = end(self.destination, self.ports.map(|(_, destination)| destination));
        write!(f, "{source} > {destination} ")?;
        match self.protocol {
            ipv4::TCP => f.write_str("tcp")?,
            ipv4::UDP => f.write_str("udp")?,
            ipv4::ICMP => f.write_str("icmp")?,
            ipv6::ICMPV6 => f.write_str("icmpv6")?,
            ipv4::ESP => f.write_str("esp")?,
            other => write!(f, "protocol {other}")?,
        }
        if let Some(flags) = &self.tcp_flags {
            write!(f, " {flags}")?;
        }
        if let Some((kind, code)) = self.icmp {
            write!(f, " {kind}/{code}")?;
        }
        write!(f, ", ttl {}", self.ttl)?;
        if self.dscp != 0 {
            write!(f, ", dscp {}", self.dscp)?;
        }
        if self.ecn != 0 {
            write!(f, ", ecn {}", self.ecn)?;
        }
        if let Some(offset) = self.fragment {
            write!(f, ", piece from byte {offset}")?;
        }
        write!(f, ", {} bytes", self.bytes)?;
        match &self.inside {
            Some(inside) => write!(f, " ({inside})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

    fn ipv4(protocol: u8, flags: u16, payload: &[u8]) -> Vec<u8> {
        let total = 20 + payload.len() as u16;
        let [t0, t1] = total.to_be_bytes();
        let [f0, f1] = flags.to_be_bytes();
        let fixed = [0x45, 0xb9, t0, t1, 0, 7, f0, f1, 64, protocol, 0, 0];
        [&fixed[..], &[10, 0, 0, 1], &[10, 0, 1, 2], payload].concat()
    }

    fn said(ether_type: &[u8], packet: &[u8]) -> String {
        PacketFigures::of(&[&LINK[..], ether_type, packet].concat()).to_string()
    }

    #[test]
    fn a_packet_is_told_in_one_line_as_far_as_it_can_be_read() {
        let four = &[0x08, 0x00][..];
        let udp = [0x13, 0x88, 0, 80, 0, 8, 0, 0];
        let mut syn = [0; 20];
        (syn[1], syn[3], syn[12], syn[13]) = (9, 80, 0x50, 0x12);
        let six =
            [&[0x60, 0, 0, 0, 0, 8, 58, 9][..], &[0xfd; 32], &[128, 0, 0, 0, 0, 0, 0, 0]].concat();
        let cases = [
            (
                four,
                ipv4(17, 0, &udp),
                "10.0.0.1:5000 > 10.0.1.2:80 udp, ttl 64, dscp 46, ecn 1, 28 bytes",
            ),
            (
                four,
                ipv4(6, 0, &syn),
                "10.0.0.1:9 > 10.0.1.2:80 tcp S., ttl 64, dscp 46, ecn 1, 40 bytes",
            ),
            (
                four,
                ipv4(17, 3, &udp),
                "10.0.0.1 > 10.0.1.2 udp, ttl 64, dscp 46, ecn 1, piece from byte 24, 28 bytes",
            ),
            (
                four,
                ipv4(17, 0, &udp)[..27].to_vec(),
                "02:00:00:00:00:02 > 02:00:00:00:00:01, Ethernet type 0x0800, 41 bytes",
            ),
            (
                &[0x81, 0, 0, 5, 0x08, 6],
                vec![0; 28],
                "vlan 5, 02:00:00:00:00:02 > 02:00:00:00:00:01, Ethernet type 0x0806, 46 bytes",
            ),
        ];
        for (ether_type, packet, expected) in cases {
            assert_eq!(said(ether_type, &packet), expected);
        }
        assert!(said(&[0x86, 0xdd], &six).ends_with(" icmpv6 128/0, ttl 9, 48 bytes"));
        let nested = ipv4(4, 0, &ipv4(4, 0, &ipv4(4, 0, &ipv4(4, 0, &ipv4(17, 0, &udp)))));
        assert_eq!(said(four, &nested).matches(" > ").count(), 4, "no deeper");
        for len in 0..14 {
            assert_eq!(PacketFigures::of(&LINK[..len.min(12)]).ip, None);
        }
    }
}
