//! A client: an engine whose connections ask, wait for the answer, compare, and ask again.

use std::net::SocketAddr;

use base::Nanos;
use tcp::{Buffers, Config, Engine, Event, FlowId, FlowOptions, Output, Piece, ReadPiece, Segment};
use wire::Toeplitz;

use super::frames;

/// A connection.
#[derive(Debug, Default)]
struct Talk {
    /// Requests that were begun, and bytes of the last one that are not yet handed over.
    begun: u32,
    unsent: u32,
    /// Bytes of its answer that have come.
    answered: u32,
    begun_at: Nanos,
    is_done: bool,
}

/// Rings of a client's connections.
#[derive(Debug)]
struct Rings {
    receive: Vec<Vec<u8>>,
    send: Vec<Vec<u8>>,
    bytes: usize,
}

impl Rings {
    fn of(rings: &mut Vec<Vec<u8>>, flow: FlowId, bytes: usize) -> &mut Vec<u8> {
        if rings.len() <= flow.index() {
            rings.resize_with(flow.index() + 1, Vec::new);
        }
        let ring = &mut rings[flow.index()];
        if ring.is_empty() {
            ring.resize(bytes, 0);
        }
        ring
    }
}

impl Buffers for Rings {
    fn receive_ring(&mut self, flow: FlowId) -> Piece<'_> {
        Self::of(&mut self.receive, flow, self.bytes).into()
    }

    fn send_ring(&self, flow: FlowId) -> ReadPiece<'_> {
        self.send.get(flow.index()).map(ReadPiece::from).unwrap_or_default()
    }
}

/// What an engine has said and sent.
#[derive(Debug, Default)]
struct Said {
    client: u32,
    events: Vec<Event>,
    frames: Vec<Vec<u8>>,
}

impl Output for Said {
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        self.frames.extend(frames::frame(segment, self.client));
        true
    }

    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// What clients have in common.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) requests: u32,
    pub(super) request_bytes: u32,
    pub(super) options: FlowOptions,
    pub(super) server: SocketAddr,
    pub(super) toeplitz: Toeplitz,
    /// How long requests took.
    pub(super) latencies: Vec<Nanos>,
    pub(super) wrong_bytes: u64,
    /// Connections that have not had all their answers.
    pub(super) open: u32,
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    number: u32,
    engine: Engine,
    rings: Rings,
    talks: Vec<Talk>,
    said: Said,
    pub(super) look_at: Nanos,
}

impl Client {
    pub(super) fn new(
        number: u32,
        connections: u32,
        options: &FlowOptions,
        hash_key: [u8; 40],
        seed: u64,
    ) -> Self {
        let mut key = [1; 16];
        key[..8].copy_from_slice(&seed.to_be_bytes());
        key[8..12].copy_from_slice(&number.to_be_bytes());
        let config = Config {
            flows_max: 2 * connections + 8,
            sent_max: connections * 64 + 64,
            ranges_max: connections * 64 + 64,
            hash_key,
            ..Config::default()
        };
        let said = Said { client: number, ..Said::default() };
        let (receive, send) = (Vec::new(), Vec::new());
        Self {
            number,
            engine: Engine::new(config, key, Nanos::ZERO),
            rings: Rings { receive, send, bytes: 1 << options.send_ring_log2 },
            talks: Vec::new(),
            said,
            look_at: Nanos::FAR_FUTURE,
        }
    }

    /// Opens a connection and asks.
    pub(super) fn open(&mut self, now: Nanos, asking: &mut Asking) {
        let [_, _, high, low] = (self.number + 256).to_be_bytes();
        let local = ([10, 0, high, low], 1024 + self.talks.len() as u16).into();
        let options = asking.options;
        let opened = self.engine.connect(now, local, asking.server, options, 0);
        let Ok(id) = opened else {
            debug_assert!(false, "there is room for all connections: {opened:?}");
            return;
        };
        if self.talks.len() <= id.index() {
            self.talks.resize_with(id.index() + 1, Talk::default);
        }
        asking.open += 1;
        Rings::of(&mut self.rings.send, id, self.rings.bytes);
        self.ask(now, id, asking);
    }

    /// A frame has come.
    pub(super) fn receive(&mut self, now: Nanos, frame: &[u8], asking: &mut Asking) {
        if let Some(incoming) = frames::segment(frame, &asking.toeplitz) {
            self.engine.receive(now, &[incoming], &mut self.rings, &mut self.said);
        }
        self.turn(now, asking);
    }

    pub(super) fn turn(&mut self, now: Nanos, asking: &mut Asking) {
        self.engine.expire(now, &mut self.said);
        loop {
            self.act(now, asking);
            self.engine.transmit(now, &mut self.rings, &mut self.said);
            let has_more = self.engine.next_deadline() == Some(Nanos::ZERO);
            if self.said.events.is_empty() && !has_more {
                return;
            }
        }
    }

    /// What it has sent since the last call.
    pub(super) fn take_frames(&mut self) -> std::vec::Drain<'_, Vec<u8>> {
        self.said.frames.drain(..)
    }

    pub(super) fn next_look(&self) -> Option<Nanos> {
        self.engine.next_deadline()
    }

    pub(super) fn retransmitted(&self) -> u64 {
        self.engine.counters().retransmitted
    }

    fn act(&mut self, now: Nanos, asking: &mut Asking) {
        let mut next = 0;
        while let Some(event) = self.said.events.get(next).copied() {
            next += 1;
            match event {
                Event::Readable { flow } => self.read(now, flow, asking),
                Event::Writable { flow } => self.write(flow),
                Event::PeerClosed { flow } => {
                    // That it is gone already is no error.
                    let _ = self.engine.close(flow, &mut self.said);
                }
                Event::Closed { flow, .. } => {
                    let talk = &mut self.talks[flow.index()];
                    asking.open -= u32::from(!talk.is_done);
                    talk.is_done = true;
                }
                Event::Connected { .. } | Event::Urgent { .. } => {}
            }
        }
        self.said.events.clear();
    }

    /// Begins the next request; after the last one the connection's end.
    fn ask(&mut self, now: Nanos, id: FlowId, asking: &mut Asking) {
        let talk = &mut self.talks[id.index()];
        if talk.begun == asking.requests {
            talk.is_done = true;
            asking.open -= 1;
            // Nobody has shut it down before.
            let _ = self.engine.shutdown(id);
            return;
        }
        talk.begun += 1;
        (talk.unsent, talk.answered, talk.begun_at) = (asking.request_bytes, 0, now);
        self.write(id);
    }

    fn write(&mut self, id: FlowId) {
        let talk = &mut self.talks[id.index()];
        if talk.unsent == 0 {
            return;
        }
        let room = self.engine.room(id);
        let count = room.bytes.min(talk.unsent);
        // The number of a byte counts down to the request's end.
        let ring = &mut self.rings.send[id.index()];
        for offset in 0..count {
            let left = talk.unsent - offset;
            ring[(room.at + offset as usize) % self.rings.bytes] =
                content(self.number, id, talk.begun, left);
        }
        if self.engine.send(id, count).is_ok() {
            talk.unsent -= count;
        }
        if talk.unsent > 0 {
            self.engine.want_room(id);
        }
    }

    fn read(&mut self, now: Nanos, id: FlowId, asking: &mut Asking) {
        let span = self.engine.readable(id);
        let talk = &mut self.talks[id.index()];
        let ring = &self.rings.receive[id.index()];
        for offset in 0..span.bytes {
            let found = ring[(span.at + offset as usize) % self.rings.bytes];
            // An answer longer than its request is wrong to its last byte.
            let left = asking.request_bytes.saturating_sub(talk.answered + offset);
            let is_right = left > 0 && found == content(self.number, id, talk.begun, left);
            asking.wrong_bytes += u64::from(!is_right);
        }
        talk.answered += span.bytes;
        let consumed = self.engine.consume(id, span.bytes);
        debug_assert!(consumed.is_ok(), "so much was readable just now");
        if !talk.is_done && span.bytes > 0 && talk.answered >= asking.request_bytes {
            asking.latencies.push(now.since(talk.begun_at));
            self.ask(now, id, asking);
        }
    }
}

/// A byte of a request: all requests differ.
fn content(client: u32, id: FlowId, request: u32, left: u32) -> u8 {
    let word = client ^ (id.index() as u32).rotate_left(8) ^ request.rotate_left(16);
    (word.wrapping_add(left).wrapping_mul(0x9e37_79b1) >> 24) as u8
}
