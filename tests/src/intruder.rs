//! Segments in others' names, from a raw socket, and what an intruder has to overhear for that.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with,
};
use testbed::Side;
use wire::build::TcpSegment;
use wire::tcp::Header;
use wire::{Outcome, Protocol, ipv4};

use crate::sniffer::Sniffer;

/// Bytes of an Ethernet header, which the kernel writes for a raw socket.
const LINK: usize = 14;

/// A raw socket of the client's namespace.
#[derive(Debug)]
pub struct Intruder {
    socket: OwnedFd,
}

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
    /// Bytes of options, a multiple of four, at most 40; they need not make sense.
    pub options: &'a [u8],
    /// What it carries.
    pub payload: &'a [u8],
    /// What its checksum is off by.
    pub checksum_error: u16,
}

/// How far an idle connection has come.
#[derive(Clone, Copy, Debug)]
pub struct Overheard {
    /// The next number that the server expects.
    pub to_server: u32,
    /// The next number that the client expects.
    pub to_client: u32,
}

impl Intruder {
    /// One at `side`.
    ///
    /// # Panics
    /// The kernel gives no raw socket: this needs root.
    pub fn new(side: &Side) -> Self {
        let open = || {
            let raw = Some(ipproto::RAW);
            socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, raw)
        };
        let socket = side.enter(open).expect("the namespace is there");
        Self { socket: socket.expect("this test needs root") }
    }

    /// Sends a segment.
    ///
    /// # Panics
    /// The kernel refuses it, or it makes no packet.
    pub fn send(&self, forged: &Forged<'_>) {
        self.send_packet(&forged.packet(), forged.destination);
    }

    /// Sends a packet as it is, from its IP header on.
    ///
    /// # Panics
    /// The kernel refuses it.
    pub fn send_packet(&self, packet: &[u8], destination: SocketAddrV4) {
        let to = SocketAddr::V4(destination);
        let sent = sendto(&self.socket, packet, SendFlags::empty(), &to);
        assert_eq!(sent, Ok(packet.len()), "{packet:?}");
    }

    /// Sends bare SYNs from that many addresses that nobody has (RFC 2544 appendix C.2.2).
    pub fn flood(&self, destination: SocketAddrV4, count: u32) {
        for number in 0..count {
            let [_, _, high, low] = number.to_be_bytes();
            let source = SocketAddrV4::new(Ipv4Addr::new(198, 18, high, low), 1024 + low as u16);
            let syn = Forged {
                sequence: number.wrapping_mul(0x9e37_79b9),
                flags: wire::tcp::SYN,
                options: &[2, 4, 5, 0xb4],
                ..Forged::between(source, destination)
            };
            self.send(&syn);
            if number % 128 == 127 {
                // A wire of 256 slots is to carry all of them.
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    }
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
            options: &[],
            payload: &[],
            checksum_error: 0,
        }
    }

    /// From the IP header on.
    fn packet(&self) -> Vec<u8> {
        let behind = [self.options, self.payload].concat();
        let segment = TcpSegment {
            source_mac: [0; 6],
            destination_mac: [0; 6],
            source: self.source.into(),
            destination: self.destination.into(),
            sequence: self.sequence,
            acknowledgement: self.acknowledgement,
            flags: self.flags,
            window: 1000,
            payload: &behind,
            vlan: None,
        };
        let mut frame = vec![0; segment.len()];
        segment.write(&mut frame).expect("it fits into a packet");
        let mut packet = frame.split_off(LINK);
        let (header, tcp) = packet.split_at_mut(20);
        tcp[12] = ((20 + self.options.len()) as u8 / 4) << 4;
        tcp[16..18].fill(0);
        let (from, to) = (self.source.ip().octets(), self.destination.ip().octets());
        let pseudo = wire::checksum::Sum::ZERO.pseudo_ipv4(from, to, ipv4::TCP, tcp.len() as u16);
        let sum = pseudo.bytes(tcp).checksum() ^ self.checksum_error;
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        debug_assert_eq!(header[9], ipv4::TCP);
        packet
    }
}

impl Overheard {
    /// Listens to the idle connection of `client` until it was heard both ways.
    ///
    /// # Panics
    /// Nothing of it is heard.
    pub fn of(sniffer: &Sniffer, client: SocketAddr) -> Self {
        let (mut to_server, mut to_client) = (None, None);
        for packet in sniffer.packets() {
            let Outcome::Flow(flow) = wire::classify(&packet) else { continue };
            let segment = packet.get(usize::from(flow.l4_offset)..).unwrap_or_default();
            let Ok(header) = Header::parse(segment) else { continue };
            if flow.key.protocol() != Protocol::Tcp {
                continue;
            }
            let flags = u32::from(header.flags & (wire::tcp::SYN | wire::tcp::FIN) != 0);
            let next =
                header.sequence.wrapping_add(u32::from(flow.payload_len)).wrapping_add(flags);
            let own = if flow.key.source() == client {
                &mut to_server
            } else if flow.key.destination() == client {
                &mut to_client
            } else {
                continue;
            };
            // What is sent again, or late, does not take it back.
            if own.is_none_or(|own| next.wrapping_sub(own) < 1 << 31) {
                *own = Some(next);
            }
        }
        let heard = "the connection was heard both ways";
        Self { to_server: to_server.expect(heard), to_client: to_client.expect(heard) }
    }
}
