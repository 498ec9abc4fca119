//! The host under test: the engine, memory for its rings, the clock, and what it has sent.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base::Nanos;
use tcp::{Buffers, Engine, Event, FlowId, Incoming, Output, Piece, ReadPiece, Segment, Seq};
use wire::{FlowKey, Protocol, tcp as header};

use crate::inbound::THEIR_FIRST;
use crate::script::Icmp;
use crate::settings::Settings;

/// A segment that the engine has sent.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) at: Nanos,
    pub(crate) bytes: Vec<u8>,
    pub(crate) ecn: u8,
}

/// How the script's numbers and those on the wire belong together.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    /// Our first number, once a SYN of ours has left.
    our_first: Option<Seq>,
    /// A timestamp in the script, and the one on the wire that it stands for.
    stamp: Option<(u32, u32)>,
}

impl Numbers {
    pub(crate) fn ours(&self, number: u32) -> Seq {
        self.our_first.unwrap_or(Seq(0)) + number
    }

    pub(crate) fn of_ours(&self, number: Seq) -> u32 {
        number.since(self.our_first.unwrap_or(Seq(0)))
    }

    pub(crate) fn theirs(&self, number: u32) -> Seq {
        THEIR_FIRST + number
    }

    pub(crate) fn of_theirs(&self, number: Seq) -> u32 {
        number.since(THEIR_FIRST)
    }

    /// What the peer echoes; zero stands for nothing seen yet.
    pub(crate) fn our_stamp(&self, echo: u32) -> u32 {
        match (echo, self.stamp) {
            (0, _) | (_, None) => echo,
            (echo, Some((script, live))) => live.wrapping_add(echo.wrapping_sub(script)),
        }
    }

    /// A timestamp of ours as the script has it; the first one that is compared sets the scale.
    pub(crate) fn stamp_in_script(&mut self, expected: u32, live: u32) -> u32 {
        let (script, first) = *self.stamp.get_or_insert((expected, live));
        script.wrapping_add(live.wrapping_sub(first))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Rings {
    receive: BTreeMap<FlowId, Vec<u8>>,
    send: BTreeMap<FlowId, Vec<u8>>,
    receive_bytes: usize,
    send_bytes: usize,
}

impl Buffers for Rings {
    fn receive_ring(&mut self, flow: FlowId) -> Piece<'_> {
        let bytes = self.receive_bytes;
        self.receive.entry(flow).or_insert_with(|| vec![0; bytes]).into()
    }

    fn send_ring(&self, flow: FlowId) -> ReadPiece<'_> {
        self.send.get(&flow).map(ReadPiece::from).unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct Sink {
    now: Nanos,
    frames: VecDeque<Frame>,
    events: VecDeque<Event>,
}

impl Output for Sink {
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        let mut bytes = vec![0; segment.len()];
        let is_whole = segment.write(&mut bytes).is_some();
        self.frames.push_back(Frame { at: self.now, bytes, ecn: segment.ecn });
        is_whole
    }

    fn event(&mut self, event: Event) {
        self.events.push_back(event);
    }
}

/// The host.
#[derive(Debug)]
pub(crate) struct Testbed {
    pub(crate) now: Nanos,
    pub(crate) engine: Engine,
    pub(crate) numbers: Numbers,
    pub(crate) settings: Settings,
    /// As segments that come in have it: the peer is the source.
    pub(crate) key: FlowKey,
    rings: Rings,
    sink: Sink,
}

/// The host, and its peer.
const ENDS_V4: [(IpAddr, u16); 2] = [
    (IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1)), 8080),
    (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 34_567),
];
const ENDS_V6: [(IpAddr, u16); 2] = [
    (IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)), 8080),
    (IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)), 34_567),
];
/// When scripts begin: late enough for every clock to have something before it.
pub(crate) const START: Nanos = Nanos::from_secs(1000);

impl Testbed {
    pub(crate) fn new(settings: Settings) -> Option<Self> {
        let ends = if settings.is_v6 { ENDS_V6 } else { ENDS_V4 };
        let [local, remote] = ends.map(|(address, port)| SocketAddr::new(address, port));
        Some(Self {
            now: START,
            engine: Engine::new(settings.config.clone(), *b"packetdrill key!", START),
            numbers: Numbers { our_first: None, stamp: None },
            key: FlowKey::new(Protocol::Tcp, remote, local)?,
            rings: Rings {
                receive_bytes: 1 << settings.flow.receive_ring_log2,
                send_bytes: 1 << settings.flow.send_ring_log2,
                ..Rings::default()
            },
            sink: Sink::default(),
            settings,
        })
    }

    /// Brings a segment to the engine.
    pub(crate) fn inject(&mut self, bytes: &[u8], ecn: u8) {
        self.sink.now = self.now;
        let (key, hash) = (self.key, self.engine.hash_of(&self.key));
        let incoming = Incoming { key, hash, segment: bytes, ecn, is_verified: false, route: 0 };
        self.engine.receive(self.now, &[incoming], &mut self.rings, &mut self.sink);
    }

    /// Brings an ICMP error to the engine, as the transport layer gets it.
    pub(crate) fn icmp(&mut self, icmp: Icmp) {
        let sequence = self.numbers.ours(icmp.start);
        self.engine.too_big(&self.key, sequence, icmp.mtu);
    }

    /// Timers, then everything that may leave.
    pub(crate) fn turn(&mut self) {
        self.sink.now = self.now;
        self.engine.expire(self.now, &mut self.sink);
        // A flow with very much to send does so in several turns.
        for _ in 0..1000 {
            self.engine.transmit(self.now, &mut self.rings, &mut self.sink);
            if self.engine.next_deadline() != Some(Nanos::ZERO) {
                break;
            }
        }
        if self.numbers.our_first.is_none() {
            self.numbers.our_first = self.sink.frames.iter().find_map(|frame| {
                let header = header::Header::parse(&frame.bytes).ok()?;
                (header.flags & header::SYN != 0).then_some(Seq(header.sequence))
            });
        }
    }

    /// When something happens by itself.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        self.engine.next_deadline()
    }

    pub(crate) fn frames(&mut self) -> &mut VecDeque<Frame> {
        &mut self.sink.frames
    }

    pub(crate) fn take_events(&mut self) -> VecDeque<Event> {
        std::mem::take(&mut self.sink.events)
    }

    /// Writes `bytes` of application data, the first of which has `number` in the script.
    pub(crate) fn write(&mut self, flow: FlowId, number: u32, bytes: u32) -> bool {
        let span = self.engine.room(flow);
        let ring_bytes = self.rings.send_bytes;
        let ring = self.rings.send.entry(flow).or_insert_with(|| vec![0; ring_bytes]);
        for offset in 0..bytes.min(span.bytes) {
            let byte = crate::inbound::content(number.wrapping_add(offset));
            ring[(span.at + offset as usize) % ring_bytes] = byte;
        }
        self.engine.send(flow, bytes).is_ok()
    }

    /// Reads at most `limit` bytes. The error says which byte is not what the peer has sent.
    pub(crate) fn read(&mut self, flow: FlowId, number: u32, limit: u32) -> Result<u32, String> {
        let span = self.engine.readable(flow);
        let count = span.bytes.min(limit);
        if let Some(ring) = self.rings.receive.get(&flow) {
            for offset in 0..count {
                let byte = ring[(span.at + offset as usize) % ring.len()];
                let number = number.wrapping_add(offset);
                if byte != crate::inbound::content(number) {
                    return Err(format!("byte {number} is not what the peer has sent"));
                }
            }
        }
        if count > 0 && self.engine.consume(flow, count).is_err() {
            return Err("the engine does not let go of what it offered".into());
        }
        Ok(count)
    }

    pub(crate) fn close(&mut self, flow: FlowId) {
        // An error: it was over already.
        let _ = self.engine.close(flow, &mut self.sink);
    }
}
