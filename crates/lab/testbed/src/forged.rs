//! TCP segments with whatever in them, true or not: for peers that keep to no rule.

use std::net::SocketAddrV4;

use wire::build::TcpSegment;
use wire::checksum::Sum;
use wire::ipv4;

/// Bytes of an Ethernet header.
const LINK_BYTES: usize = 14;

/// Bytes of an IPv4 header without options, which is what is written here.
const NETWORK_BYTES: usize = 20;

/// A segment to be forged.
#[derive(Clone, Copy, Debug)]
pub struct Forged<'a> {
    /// In whose name.
    pub source: SocketAddrV4,
    /// To whom.
    pub destination: SocketAddrV4,
    /// Number of its first byte.
    pub sequence: u32,
    /// What it acknowledges, if its flags say so.
    pub acknowledgement: u32,
    /// [`wire::tcp::FIN`] and so on.
    pub flags: u8,
    /// Unscaled receive window.
    pub window: u16,
    /// Bytes of options, a multiple of four, at most 40; they need not make sense.
    pub options: &'a [u8],
    /// What it carries.
    pub payload: &'a [u8],
    /// What its checksum is off by.
    pub checksum_error: u16,
}

impl Forged<'_> {
    /// A bare one, to be filled in.
    pub fn between(source: SocketAddrV4, destination: SocketAddrV4) -> Self {
        Self {
            source,
            destination,
            sequence: 0,
            acknowledgement: 0,
            flags: wire::tcp::ACK,
            window: 1000,
            options: &[],
            payload: &[],
            checksum_error: 0,
        }
    }

    /// From the IP header on.
    ///
    /// # Panics
    /// It is longer than a packet can be.
    pub fn packet(&self) -> Vec<u8> {
        self.frame([0; 6], [0; 6]).split_off(LINK_BYTES)
    }

    /// From the Ethernet header on.
    ///
    /// # Panics
    /// As [`Self::packet`].
    pub fn frame(&self, source_mac: [u8; 6], destination_mac: [u8; 6]) -> Vec<u8> {
        let behind = [self.options, self.payload].concat();
        let segment = TcpSegment {
            source_mac,
            destination_mac,
            source: self.source.into(),
            destination: self.destination.into(),
            sequence: self.sequence,
            acknowledgement: self.acknowledgement,
            flags: self.flags,
            window: self.window,
            payload: &behind,
            vlan: None,
        };
        let mut frame = vec![0; segment.len()];
        segment.write(&mut frame).expect("it fits into a packet");
        let tcp = &mut frame[LINK_BYTES + NETWORK_BYTES..];
        tcp[12] = ((20 + self.options.len()) as u8 / 4) << 4;
        tcp[16..18].fill(0);
        let (from, to) = (self.source.ip().octets(), self.destination.ip().octets());
        let pseudo = Sum::ZERO.pseudo_ipv4(from, to, ipv4::TCP, tcp.len() as u16);
        let sum = pseudo.bytes(tcp).checksum() ^ self.checksum_error;
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        frame
    }
}
