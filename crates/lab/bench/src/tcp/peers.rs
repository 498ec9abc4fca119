//! Clients of many connections without an engine: what each sends next can be written beforehand,
//! so that nothing but the server's work lies between two looks at the clock.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::{FlowHash, Nanos};
use wire::checksum::Sum;
use wire::tcp::{ACK, Header, PSH, SYN, TcpOption};
use wire::{FlowKey, Protocol, Toeplitz};

use super::end::{End, Packet, REQUEST_BYTES};
use crate::error::{Error, OrNeeds};
use crate::flows::{SERVER, SplitMix, hash_key};

/// What every client says that it takes.
const WINDOW: u16 = 0xffff;

/// Ports of one client address.
const PORTS: u32 = 20_000;

/// From one client's handshake to the next one's.
const HANDSHAKE_EVERY: Nanos = Nanos::from_micros(1);

/// One client.
struct Peer {
    key: FlowKey,
    hash: FlowHash,
    sequence: u32,
    /// The next number it expects once what it has asked for is answered.
    acknowledgement: u32,
    /// The server's timestamp less the milliseconds of the clock.
    stamp_offset: u32,
}

/// Clients of one server, numbered from zero: the number is the route of their packets.
pub(super) struct Peers(Vec<Peer>);

impl Peers {
    /// Clients that all have their connection to `server`, which listens at [`SERVER`].
    pub(super) fn connected(count: u32, server: &mut End, now: &mut Nanos) -> Result<Self, Error> {
        let hasher = Toeplitz::new(hash_key());
        let mut random = SplitMix(crate::flows::SEED);
        let peer = |index| {
            let key = key_to(SERVER.into(), address(index))?;
            let (hash, sequence) = (hasher.hash(&key), random.next() as u32);
            Some(Peer { key, hash, sequence, acknowledgement: 0, stamp_offset: 0 })
        };
        let mut peers = Self((0..count).map_while(peer).collect());
        let mut answers = Vec::new();
        for index in 0..peers.0.len() {
            *now += HANDSHAKE_EVERY;
            for flags in [SYN, ACK] {
                let packet = peers.write(index, *now, flags, &[]).or_needs("packet of a client")?;
                server.receive(*now, &[packet]);
                server.transmit(*now);
                answers.extend_from_slice(server.out.packets());
                server.out.clear();
                if let Some(answer) = answers.pop() {
                    peers.heard(index, *now, &answer);
                }
                peers.0[index].sequence += u32::from(flags == SYN);
            }
        }
        server.out.events.clear();
        let connected = server.engine.counters().connected;
        if connected != u64::from(count) {
            return Err(format!("only {connected} stand")).or_needs("every connection in memory");
        }
        Ok(peers)
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The next request of a client, which acknowledges the response to the one before: as if that
    /// had come, and no sooner than it can have.
    pub(super) fn request(&mut self, index: usize, now: Nanos) -> Result<Packet, Error> {
        let packet = self.write(index, now, ACK | PSH, &[0x5a; REQUEST_BYTES]);
        let peer = &mut self.0[index];
        peer.sequence = peer.sequence.wrapping_add(REQUEST_BYTES as u32);
        peer.acknowledgement = peer.acknowledgement.wrapping_add(REQUEST_BYTES as u32);
        packet.or_needs("packet of a client")
    }

    /// Takes a request back that never reached the server.
    pub(super) fn take_back(&mut self, index: usize) {
        let peer = &mut self.0[index];
        peer.sequence = peer.sequence.wrapping_sub(REQUEST_BYTES as u32);
        peer.acknowledgement = peer.acknowledgement.wrapping_sub(REQUEST_BYTES as u32);
    }

    /// Learns from the SYN-ACK.
    fn heard(&mut self, index: usize, now: Nanos, packet: &Packet) {
        let Ok(header) = Header::parse(packet.segment()) else { return };
        let peer = &mut self.0[index];
        peer.acknowledgement = header.sequence.wrapping_add(1);
        for option in header.options(packet.segment()) {
            if let TcpOption::Timestamps { value, .. } = option {
                peer.stamp_offset = value.wrapping_sub(milliseconds(now));
            }
        }
    }

    fn write(
        &self,
        index: usize,
        now: Nanos,
        flags: u8,
        payload: &[u8],
    ) -> Result<Packet, &'static str> {
        let Peer { key, hash, sequence, acknowledgement, stamp_offset } = self.0[index];
        let clock = milliseconds(now);
        let segment = Written {
            sequence,
            acknowledgement: if flags & ACK == 0 { 0 } else { acknowledgement },
            flags,
            stamps: [clock, if flags & ACK == 0 { 0 } else { clock.wrapping_add(stamp_offset) }],
            payload,
        };
        let packet = Packet::new(key, index as u32, |out| segment.write(&key, out));
        let mut packet = packet.ok_or("it is too long")?;
        packet.hash = hash;
        Ok(packet)
    }
}

fn milliseconds(now: Nanos) -> u32 {
    (now.0 / 1_000_000) as u32
}

/// The address of the client of that number.
pub(super) fn address(index: u32) -> SocketAddr {
    let [_, _, high, low] = (index / PORTS + 1).to_be_bytes();
    let port = 10_000 + (index % PORTS) as u16;
    SocketAddr::from((Ipv4Addr::new(10, 1, high, low), port))
}

/// The flow from a client; nothing where the one is IPv4 and the other is not.
pub(super) fn key_to(server: SocketAddr, client: SocketAddr) -> Option<FlowKey> {
    FlowKey::new(Protocol::Tcp, client, server)
}

/// A segment as Linux would lay it out.
pub(super) struct Written<'a> {
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) flags: u8,
    /// Value and echo.
    pub(super) stamps: [u32; 2],
    pub(super) payload: &'a [u8],
}

impl Written<'_> {
    /// Writes it with its checksum and returns its length; nothing when it does not fit.
    pub(super) fn write(&self, key: &FlowKey, out: &mut [u8]) -> Option<usize> {
        let Self { sequence, acknowledgement, flags, stamps: [value, echo], payload } = *self;
        let is_syn = flags & SYN != 0;
        let header_bytes = if is_syn { 40 } else { 32 };
        let out = out.get_mut(..header_bytes + payload.len())?;
        let (source, destination) = (key.source(), key.destination());
        out[0..2].copy_from_slice(&source.port().to_be_bytes());
        out[2..4].copy_from_slice(&destination.port().to_be_bytes());
        out[4..8].copy_from_slice(&sequence.to_be_bytes());
        out[8..12].copy_from_slice(&acknowledgement.to_be_bytes());
        out[12..14].copy_from_slice(&[(header_bytes as u8 / 4) << 4, flags]);
        out[14..16].copy_from_slice(&WINDOW.to_be_bytes());
        out[16..20].fill(0);
        // MSS and SACK before the timestamps of a SYN, a window shift of zero behind them.
        let before: &[u8] = if is_syn { &[2, 4, 5, 180, 4, 2, 8, 10] } else { &[1, 1, 8, 10] };
        let at = 20 + before.len();
        out[20..at].copy_from_slice(before);
        out[at..at + 4].copy_from_slice(&value.to_be_bytes());
        out[at + 4..at + 8].copy_from_slice(&echo.to_be_bytes());
        if is_syn {
            out[at + 8..at + 12].copy_from_slice(&[1, 3, 3, 0]);
        }
        out[header_bytes..].copy_from_slice(payload);
        let bytes = u16::try_from(out.len()).ok()?;
        let (IpAddr::V4(from), IpAddr::V4(to)) = (source.ip(), destination.ip()) else {
            return None;
        };
        let sum = Sum::ZERO.pseudo_ipv4(from.octets(), to.octets(), wire::ipv4::TCP, bytes);
        let checksum = sum.bytes(out).checksum();
        out[16..18].copy_from_slice(&checksum.to_be_bytes());
        Some(out.len())
    }
}
