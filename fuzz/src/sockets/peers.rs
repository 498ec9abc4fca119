//! The peers: an engine at the other end of the wire, and what each of its connections has said.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use base::Nanos;
use port::Port;
use shm::{Batch, Frame};
use tcp::{
    Buffers, Config, Engine, Event, FlowId, FlowOptions, Incoming, Output, Piece, ReadPiece,
    Segment,
};
use wire::{Outcome, Toeplitz};

use super::data_path::{DataPath, OUR_MAC};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const RING_LOG2: u8 = 14;
const RING: usize = 1 << RING_LOG2;

/// An engine aborts a connection whose rings are not as long as it was told.
fn options() -> FlowOptions {
    FlowOptions {
        receive_ring_log2: RING_LOG2,
        receive_limit_log2: RING_LOG2,
        send_ring_log2: RING_LOG2,
        ..FlowOptions::default()
    }
}

#[derive(Default)]
struct Rings {
    receive: BTreeMap<FlowId, Vec<u8>>,
    send: BTreeMap<FlowId, Vec<u8>>,
}

impl Buffers for Rings {
    fn receive_ring(&mut self, flow: FlowId) -> Piece<'_> {
        self.receive.entry(flow).or_insert_with(|| vec![0; RING]).into()
    }

    fn send_ring(&self, flow: FlowId) -> ReadPiece<'_> {
        self.send.get(&flow).map(ReadPiece::from).unwrap_or_default()
    }
}

#[derive(Default)]
struct Said {
    events: Vec<Event>,
    frames: Vec<Vec<u8>>,
}

impl Output for Said {
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        let (SocketAddr::V4(from), SocketAddr::V4(to)) =
            (segment.key.source(), segment.key.destination())
        else {
            return true;
        };
        let mut ip = [0; 20];
        (ip[0], ip[6], ip[8], ip[9]) = (0x45, 0x40, 64, 6);
        ip[2..4].copy_from_slice(&((20 + segment.len()) as u16).to_be_bytes());
        ip[12..16].copy_from_slice(&from.ip().octets());
        ip[16..20].copy_from_slice(&to.ip().octets());
        let sum = wire::checksum::of(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut frame = [&OUR_MAC[..], &MAC[..], &[8, 0], &ip].concat();
        let at = frame.len();
        frame.resize(at + segment.len(), 0);
        assert_eq!(segment.write(&mut frame[at..]), Some(segment.len()));
        self.frames.push(frame);
        true
    }

    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// One connection of a peer, and its two streams of bytes.
pub(super) struct Connection {
    pub(super) flow: FlowId,
    /// The program at its other end.
    pub(super) port: u16,
    pub(super) local: u16,
    pub(super) written: u64,
    pub(super) read: u64,
    may_write: bool,
}

/// All peers of all programs.
pub(super) struct Peers {
    engine: Engine,
    rings: Rings,
    said: Said,
    toeplitz: Toeplitz,
    pub(super) connections: Vec<Connection>,
    pub(super) opened: usize,
}

/// The byte at a place of a connection's stream, in one of both directions.
pub(super) fn content(local: u16, from_peer: bool, at: u64) -> u8 {
    let mixed = at.wrapping_mul(0x9e37_79b9).wrapping_add(u64::from(local) << 7);
    (mixed >> 11) as u8 ^ u8::from(from_peer)
}

impl Peers {
    pub(super) fn new(now: Nanos) -> Self {
        let hash_key = Toeplitz::MICROSOFT_KEY;
        let config = Config { flows_max: 64, hash_key, ..Config::default() };
        Self {
            engine: Engine::new(config, [3; 16], now),
            rings: Rings::default(),
            said: Said::default(),
            toeplitz: Toeplitz::new(hash_key),
            connections: Vec::new(),
            opened: 0,
        }
    }

    /// A connection is opened to a program's port.
    pub(super) fn connect(&mut self, port: u16, now: Nanos) {
        let local = 20_000 + self.opened as u16;
        let ends = [([10, 0, 0, 1], local).into(), ([10, 0, 0, 2], port).into()];
        let [from, to] = ends;
        let Ok(flow) = self.engine.connect(now, from, to, options(), 0) else {
            return;
        };
        self.opened += 1;
        self.rings.receive.remove(&flow);
        self.rings.send.insert(flow, vec![0; RING]);
        let (written, read, may_write) = (0, 0, true);
        self.connections.push(Connection { flow, port, local, written, read, may_write });
    }

    fn pick(&self, number: usize) -> Option<usize> {
        (!self.connections.is_empty()).then(|| number % self.connections.len())
    }

    /// A peer writes, as much as there is room for.
    pub(super) fn write(&mut self, number: usize, bytes: usize) {
        let Some(at) = self.pick(number) else { return };
        let connection = &mut self.connections[at];
        if !connection.may_write {
            return;
        }
        assert_eq!(self.engine.counters().bad_ring, 0, "the rings are as long as was said");
        let room = self.engine.room(connection.flow);
        let count = bytes.min(room.bytes as usize);
        let Some(ring) = self.rings.send.get_mut(&connection.flow) else { return };
        for offset in 0..count {
            let byte = content(connection.local, true, connection.written + offset as u64);
            ring[(room.at + offset) % RING] = byte;
        }
        if self.engine.send(connection.flow, count as u32).is_ok() {
            connection.written += count as u64;
        }
    }

    /// A peer reads what has come: each byte is the one that the program wrote.
    pub(super) fn read(&mut self, number: usize) {
        let Some(at) = self.pick(number) else { return };
        let connection = &mut self.connections[at];
        let unread = self.engine.readable(connection.flow);
        if unread.bytes == 0 {
            return;
        }
        let ring = self.rings.receive_ring(connection.flow).read();
        for offset in 0..unread.bytes as usize {
            // What a hostile program says is its own affair.
            if connection.port == 7 {
                let byte = ring.byte((unread.at + offset) % RING);
                let expected = content(connection.local, false, connection.read + offset as u64);
                assert_eq!(byte, Some(expected), "a byte that the program did not write");
            }
        }
        connection.read += u64::from(unread.bytes);
        self.engine.consume(connection.flow, unread.bytes).expect("it is there");
    }

    /// A peer resets its connection, with whatever there is unread.
    pub(super) fn abort(&mut self, number: usize) {
        let Some(at) = self.pick(number) else { return };
        let _ = self.engine.abort(self.connections.swap_remove(at).flow);
    }

    /// A peer says that it writes no more.
    pub(super) fn shutdown(&mut self, number: usize) {
        let Some(at) = self.pick(number) else { return };
        self.connections[at].may_write = false;
        let _ = self.engine.shutdown(self.connections[at].flow);
    }

    /// A peer closes: with bytes unread this is a reset.
    pub(super) fn close(&mut self, number: usize) {
        let Some(at) = self.pick(number) else { return };
        let _ = self.engine.close(self.connections.swap_remove(at).flow, &mut self.said);
    }

    /// What the peers have to say goes in, but for each of the frames whose bit is set in `lost`.
    pub(super) fn say(&mut self, data_path: &mut DataPath, lost: u8, now: Nanos) {
        self.engine.expire(now, &mut self.said);
        self.engine.transmit(now, &mut self.rings, &mut self.said);
        let (_, pool) = data_path.dispatcher.ports_and_pool();
        for (number, packet) in self.said.frames.drain(..).enumerate() {
            if lost >> (number % 8) & 1 != 0 {
                continue;
            }
            let Some(mut frame) = pool.take() else { continue };
            assert!(frame.fill(&packet));
            let mut batch = Batch::new();
            batch.push(frame);
            data_path.port.tx(pool, &mut batch, now);
            batch.drain(..).for_each(|frame| pool.give(frame));
        }
    }

    /// What the data path has sent comes, but for what is lost.
    pub(super) fn hear(&mut self, data_path: &mut DataPath, lost: u8, now: Nanos) {
        let (_, pool) = data_path.dispatcher.ports_and_pool();
        let (mut batch, mut number) = (Batch::new(), 0);
        while data_path.port.rx(pool, &mut batch, now) > 0 {
            for frame in batch.drain(..) {
                if lost >> (number % 8) & 1 == 0
                    && let Some(incoming) = incoming(&frame, &self.toeplitz)
                {
                    self.engine.receive(now, &[incoming], &mut self.rings, &mut self.said);
                }
                number += 1;
                pool.give(frame);
            }
        }
        for event in self.said.events.drain(..) {
            if let Event::Closed { flow, .. } = event {
                self.connections.retain(|connection| connection.flow != flow);
                self.rings.receive.remove(&flow);
                self.rings.send.remove(&flow);
            }
        }
    }
}

/// What a frame of the data path says to the engine.
fn incoming<'a>(frame: &'a Frame, toeplitz: &Toeplitz) -> Option<Incoming<'a>> {
    let Outcome::Flow(flow) = wire::classify(frame.bytes()) else { return None };
    assert!(wire::checksum::verify(frame.bytes(), &flow), "a wrong checksum");
    let end = usize::from(flow.payload_offset + flow.payload_len);
    Some(Incoming {
        key: flow.key,
        hash: toeplitz.hash(&flow.key),
        segment: &frame.bytes()[usize::from(flow.l4_offset)..end],
        ecn: 0,
        is_verified: false,
        route: 0,
    })
}
