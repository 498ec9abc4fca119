//! A host in memory: one engine, rings for its flows, what it sent and what it said.
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod connection;
pub(crate) mod script;

use std::collections::{BTreeMap, VecDeque};

use base::{FlowHash, Nanos};
use tcp::{
    Buffers, Config, Engine, Event, FlowId, FlowOptions, Incoming, ListenerId, Output, Piece,
    ReadPiece, Segment,
};
use wire::FlowKey;

/// A segment on the link, as bytes.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) key: FlowKey,
    pub(crate) bytes: Vec<u8>,
    pub(crate) ecn: u8,
    /// By which it was sent, or comes.
    pub(crate) route: u32,
}

#[derive(Debug)]
pub(crate) struct Rings {
    pub(crate) receive: BTreeMap<FlowId, Vec<u8>>,
    pub(crate) send: BTreeMap<FlowId, Vec<u8>>,
    pub(crate) receive_bytes: usize,
    pub(crate) send_bytes: usize,
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

/// Collects what an engine has to say; takes at most `room` segments a call.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) packets: VecDeque<Packet>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) room: usize,
    /// Somebody else finishes the checksums.
    pub(crate) is_partial: bool,
    /// Nobody takes another connection.
    pub(crate) is_full: bool,
    /// No peer is behind this route.
    pub(crate) elsewhere: Option<u32>,
}

impl Output for Sink {
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        if self.packets.len() >= self.room {
            return false;
        }
        let mut bytes = vec![0; segment.len()];
        let written = match self.is_partial {
            true => segment.write_partial(&mut bytes),
            false => segment.write(&mut bytes),
        };
        assert_eq!(written, Some(segment.len()));
        self.packets.push_back(Packet {
            key: segment.key,
            bytes,
            ecn: segment.ecn,
            route: segment.route,
        });
        true
    }

    fn event(&mut self, event: Event) {
        self.events.push_back(event);
    }

    fn may_come(&self, _: &FlowKey, route: u32) -> bool {
        self.elsewhere != Some(route)
    }

    fn may_accept(&self, _: ListenerId, _: FlowHash) -> bool {
        !self.is_full
    }
}

/// An engine with everything it needs.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) engine: Engine,
    pub(crate) rings: Rings,
    pub(crate) sink: Sink,
}

impl Host {
    pub(crate) fn new(config: Config, options: &FlowOptions, key: u8, now: Nanos) -> Self {
        Self {
            engine: Engine::new(config, [key; 16], now),
            rings: Rings {
                receive: BTreeMap::new(),
                send: BTreeMap::new(),
                receive_bytes: 1 << options.receive_ring_log2,
                send_bytes: 1 << options.send_ring_log2,
            },
            sink: Sink {
                packets: VecDeque::new(),
                events: VecDeque::new(),
                room: usize::MAX,
                is_partial: false,
                is_full: false,
                elsewhere: None,
            },
        }
    }

    pub(crate) fn receive(&mut self, now: Nanos, packet: &Packet) {
        let incoming = Incoming {
            key: packet.key,
            hash: self.engine.hash_of(&packet.key),
            segment: &packet.bytes,
            ecn: packet.ecn,
            is_verified: false,
            route: packet.route,
        };
        self.engine.receive(now, &[incoming], &mut self.rings, &mut self.sink);
    }

    /// Timers, then everything that may leave.
    pub(crate) fn turn(&mut self, now: Nanos) {
        self.engine.expire(now, &mut self.sink);
        for _ in 0..1000 {
            self.engine.transmit(now, &mut self.rings, &mut self.sink);
            let is_waiting = self.engine.next_deadline() == Some(Nanos::ZERO);
            if !is_waiting || self.sink.packets.len() >= self.sink.room {
                break;
            }
        }
    }

    /// Writes as much of `data` as there is room for; returns how much.
    pub(crate) fn write(&mut self, flow: FlowId, data: &[u8]) -> usize {
        let span = self.engine.room(flow);
        let count = data.len().min(span.bytes as usize);
        if count == 0 {
            return 0;
        }
        let bytes = self.rings.send_bytes;
        let ring = self.rings.send.entry(flow).or_insert_with(|| vec![0; bytes]);
        for (offset, byte) in data[..count].iter().enumerate() {
            ring[(span.at + offset) % bytes] = *byte;
        }
        self.engine.send(flow, count as u32).expect("there is room");
        count
    }

    /// Reads at most `limit` bytes.
    pub(crate) fn read(&mut self, flow: FlowId, limit: usize) -> Vec<u8> {
        let span = self.engine.readable(flow);
        let count = limit.min(span.bytes as usize);
        let Some(ring) = self.rings.receive.get(&flow) else {
            assert_eq!(count, 0);
            return Vec::new();
        };
        let data = (0..count).map(|offset| ring[(span.at + offset) % ring.len()]).collect();
        if count > 0 {
            self.engine.consume(flow, count as u32).expect("they are readable");
        }
        data
    }
}
