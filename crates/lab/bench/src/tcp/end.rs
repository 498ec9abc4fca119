//! One end of connections in memory: an engine, its rings, and the segments that it wants sent.
//!
//! A packet's first bytes are room for an IPv4 header, which is written where somebody reads it.

use std::net::SocketAddr;

use arrayvec::ArrayVec;
use base::{BURST, FlowHash, Nanos};
use tcp::{
    Buffers, Config, ConnectError, Engine, Event, FlowId, FlowOptions, Incoming, Output, Piece,
    ReadPiece, Segment,
};
use wire::{FlowKey, Toeplitz, checksum, ipv4};

use crate::flows::hash_key;

/// Payload of a request, and of its response.
pub(super) const REQUEST_BYTES: usize = 64;

/// Room for the headers and [`REQUEST_BYTES`] twice over.
pub(super) const PACKET_BYTES: usize = 192;

const IPV4_BYTES: usize = ipv4::MIN_HEADER_BYTES as usize;

/// A packet that lies in memory.
#[derive(Clone, Copy)]
pub(super) struct Packet {
    /// As its receiver sees it: the sender is the source.
    pub(super) key: FlowKey,
    /// Set by [`Outbox::hash`].
    pub(super) hash: FlowHash,
    /// What the receiver of the flow's segments said it was.
    pub(super) route: u32,
    end: usize,
    bytes: [u8; PACKET_BYTES],
}

impl Packet {
    /// One whose segment `write` writes, returning its length; nothing when it does not fit.
    #[inline]
    pub(super) fn new(
        key: FlowKey,
        route: u32,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<Self> {
        let hash = FlowHash(0);
        let mut packet = Self { key, hash, route, end: 0, bytes: [0; PACKET_BYTES] };
        packet.fill(key, route, write).then_some(packet)
    }

    /// One that came with an IPv4 header; nothing when it is not TCP over IPv4.
    pub(super) fn with_ipv4(bytes: &[u8]) -> Option<Self> {
        let key = key_of(bytes)?;
        let segment = bytes.get(IPV4_BYTES..)?;
        Self::new(key, 0, |out| {
            out.get_mut(..segment.len())?.copy_from_slice(segment);
            Some(segment.len())
        })
    }

    // Part of `Output::segment`, as what builds a frame is in the data path.
    #[inline(always)]
    fn fill(
        &mut self,
        key: FlowKey,
        route: u32,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> bool {
        let Some(len) = write(&mut self.bytes[IPV4_BYTES..]) else { return false };
        (self.key, self.route, self.end) = (key, route, IPV4_BYTES + len);
        true
    }

    /// Everything from the IPv4 header on.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    /// The TCP segment.
    #[inline]
    pub(super) fn segment(&self) -> &[u8] {
        &self.bytes[IPV4_BYTES..self.end]
    }

    /// It, as the engine takes it in.
    #[inline]
    pub(super) fn incoming(&self) -> Incoming<'_> {
        Incoming {
            key: self.key,
            hash: self.hash,
            segment: self.segment(),
            ecn: 0,
            is_verified: false,
            route: self.route,
        }
    }

    /// Writes the header in front of the segment.
    #[inline]
    fn write_ipv4(&mut self) {
        let (source, destination) = (self.key.source().ip(), self.key.destination().ip());
        let (std::net::IpAddr::V4(source), std::net::IpAddr::V4(destination)) =
            (source, destination)
        else {
            return;
        };
        let [high, low] = (self.end as u16).to_be_bytes();
        let ([a, b, c, d], [e, f, g, h]) = (source.octets(), destination.octets());
        let mut header =
            [0x45, 0, high, low, 0, 0, 0x40, 0, 64, ipv4::TCP, 0, 0, a, b, c, d, e, f, g, h];
        let sum = checksum::of(&header).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        self.bytes[..IPV4_BYTES].copy_from_slice(&header);
    }
}

/// The flow of a packet without Ethernet around it, if its IPv4 header is right and has no options.
#[inline]
pub(super) fn key_of(bytes: &[u8]) -> Option<FlowKey> {
    let header = ipv4::Header::parse(bytes).ok()?;
    let is_plain = usize::from(header.header_bytes) == IPV4_BYTES
        && header.protocol == ipv4::TCP
        && !header.is_fragment;
    if !is_plain || checksum::of(&bytes[..IPV4_BYTES]) != 0 {
        return None;
    }
    let ports = bytes.get(IPV4_BYTES..)?.first_chunk::<4>()?;
    let source = SocketAddr::from((header.source, u16::from_be_bytes([ports[0], ports[1]])));
    let destination =
        SocketAddr::from((header.destination, u16::from_be_bytes([ports[2], ports[3]])));
    FlowKey::new(wire::Protocol::Tcp, source, destination)
}

/// Copies from one ring to another of the same length: `count` bytes from where each index points
/// to.
#[inline]
pub(super) fn copy_ring(from: &[u8], from_at: usize, to: &mut [u8], to_at: usize, count: usize) {
    match (from.get(from_at..from_at + count), to.get_mut(to_at..to_at + count)) {
        (Some(from), Some(to)) => to.copy_from_slice(from),
        // One of them goes around its ring's end.
        _ => {
            let ring = from.len();
            for offset in 0..count {
                to[(to_at + offset) % ring] = from[(from_at + offset) % ring];
            }
        }
    }
}

/// Rings of all flows, of one length.
pub(super) struct Rings {
    log2: u8,
    receive: Vec<u8>,
    send: Vec<u8>,
}

impl Rings {
    fn new(flows_max: u32, log2: u8) -> Self {
        // Untouched pages of it cost nothing.
        let bytes = (flows_max as usize) << log2;
        Self { log2, receive: vec![0; bytes], send: vec![0; bytes] }
    }

    #[inline]
    fn range(&self, flow: FlowId) -> std::ops::Range<usize> {
        let start = flow.index() << self.log2;
        start..start + (1 << self.log2)
    }
}

impl Buffers for Rings {
    #[inline]
    fn receive_ring(&mut self, flow: FlowId) -> Piece<'_> {
        let range = self.range(flow);
        (&mut self.receive[range]).into()
    }

    #[inline]
    fn send_ring(&self, flow: FlowId) -> ReadPiece<'_> {
        (&self.send[self.range(flow)]).into()
    }
}

/// Packets to be sent and events to be looked at.
pub(super) struct Outbox {
    packets: Vec<Packet>,
    used: usize,
    /// Whether each packet gets its IPv4 header.
    has_ipv4: bool,
    pub(super) events: Vec<Event>,
}

impl Outbox {
    fn new(packets: usize, has_ipv4: bool) -> Self {
        let key = FlowKey::new(
            wire::Protocol::Tcp,
            SocketAddr::from(([0, 0, 0, 0], 0)),
            SocketAddr::from(([0, 0, 0, 0], 0)),
        );
        let empty = key.and_then(|key| Packet::new(key, 0, |_| Some(0)));
        let packets = empty.map_or_else(Vec::new, |empty| vec![empty; packets]);
        let events = Vec::with_capacity(2 * BURST);
        Self { packets, used: 0, has_ipv4, events }
    }

    /// What was sent since [`Self::clear`].
    #[inline]
    pub(super) fn packets(&self) -> &[Packet] {
        &self.packets[..self.used]
    }

    /// Forgets what was sent.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    /// Does what the receiver's dispatcher would have done: the hashes.
    pub(super) fn hash(&mut self, hasher: &Toeplitz) {
        for packet in &mut self.packets[..self.used] {
            packet.hash = hasher.hash(&packet.key);
        }
    }
}

impl Output for Outbox {
    // As in the data path.
    #[inline(always)]
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        let Some(packet) = self.packets.get_mut(self.used) else { return false };
        if !packet.fill(segment.key, segment.route, |out| segment.write(out)) {
            return false;
        }
        if self.has_ipv4 {
            packet.write_ipv4();
        }
        self.used += 1;
        true
    }

    #[inline]
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// What differs between ends.
#[derive(Clone)]
pub(super) struct EndConfig {
    /// Of the engine; its key of the flow hash is [`hash_key`] whatever this says.
    pub(super) engine: Config,
    /// Base-2 logarithm of the bytes in each ring.
    pub(super) ring_log2: u8,
    /// Packets that fit into the outbox.
    pub(super) packets: usize,
    /// Whether packets get an IPv4 header.
    pub(super) has_ipv4: bool,
}

/// One end.
pub(super) struct End {
    pub(super) engine: Engine,
    pub(super) rings: Rings,
    pub(super) out: Outbox,
}

impl End {
    /// An end without flows. `secret` makes it another than its peer.
    pub(super) fn new(config: &EndConfig, secret: u8, now: Nanos) -> Self {
        let EndConfig { engine, ring_log2, packets, has_ipv4 } = config.clone();
        let flows_max = engine.flows_max;
        let engine = Config { hash_key: hash_key(), ..engine };
        Self {
            engine: Engine::new(engine, [secret; 16], now),
            rings: Rings::new(flows_max, ring_log2),
            out: Outbox::new(packets, has_ipv4),
        }
    }

    /// The settings of its flows: rings of its size, and nothing waits for more.
    pub(super) fn options(&self) -> FlowOptions {
        FlowOptions {
            receive_ring_log2: self.rings.log2,
            receive_limit_log2: self.rings.log2,
            send_ring_log2: self.rings.log2,
            no_delay: true,
            ..FlowOptions::default()
        }
    }

    /// Opens a connection.
    pub(super) fn connect(
        &mut self,
        now: Nanos,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<FlowId, ConnectError> {
        let options = self.options();
        self.engine.connect(now, local, remote, options, 0)
    }

    /// Takes packets in whose keys and hashes are known.
    #[inline]
    pub(super) fn receive(&mut self, now: Nanos, packets: &[Packet]) {
        for packets in packets.chunks(BURST) {
            let batch: ArrayVec<Incoming<'_>, BURST> =
                packets.iter().map(Packet::incoming).collect();
            self.engine.receive(now, &batch, &mut self.rings, &mut self.out);
        }
    }

    /// Sends what is to be sent.
    #[inline]
    pub(super) fn transmit(&mut self, now: Nanos) {
        self.engine.transmit(now, &mut self.rings, &mut self.out);
    }

    /// What an echo server's application does: it reads and writes as many bytes back. Whether
    /// there were any.
    #[inline]
    pub(super) fn echo(&mut self, flow: FlowId) -> bool {
        let (unread, room) = (self.engine.readable(flow), self.engine.room(flow));
        let bytes = unread.bytes.min(room.bytes);
        if bytes == 0 {
            return false;
        }
        let Rings { log2, receive, send } = &mut self.rings;
        let (start, ring, count) = (flow.index() << *log2, 1 << *log2, bytes as usize);
        let (from, to) = (&receive[start..start + ring], &mut send[start..start + ring]);
        copy_ring(from, unread.at, to, room.at, count);
        self.engine.consume(flow, bytes).is_ok() && self.engine.send(flow, bytes).is_ok()
    }

    /// The application's whole turn: everything that can be read is written back.
    #[inline]
    pub(super) fn echo_all(&mut self) {
        while let Some(event) = self.out.events.pop() {
            if let Event::Readable { flow } = event {
                self.echo(flow);
            }
        }
    }
}
