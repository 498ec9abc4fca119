//! Segments in others' names, from a raw socket, and what an intruder has to overhear for that.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with,
};
use testbed::{Forged, Side};
use wire::tcp::Header;
use wire::{Outcome, Protocol};

use crate::line::Host;
use crate::sniffer::Sniffer;

/// A raw socket of the client's namespace.
#[derive(Debug)]
pub struct Intruder {
    socket: OwnedFd,
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
        let socket = side.enter(Self::open).expect("the namespace is there");
        Self { socket: socket.expect("this test needs root") }
    }

    /// One on a host of a line.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn on(host: &Host) -> Self {
        Self { socket: host.enter(Self::open).expect("this test needs root") }
    }

    fn open() -> rustix::io::Result<OwnedFd> {
        let raw = Some(ipproto::RAW);
        socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, raw)
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
