//! The server: an engine, its rings, and an application that sends back what it reads.

use std::hint::black_box;

use base::Nanos;
use tcp::{Buffers, Config, Engine, Event, FlowId, FlowOptions, Incoming, Output, Segment, Span};

use crate::client::{Frame, REQUEST, SERVER};

/// Rings of 1 KiB each way: what waits unread or unacknowledged is never more here.
const RING_LOG2: u8 = 10;
const RING: usize = 1 << RING_LOG2;

struct Rings {
    receive: Vec<u8>,
    send: Vec<u8>,
}

const fn place(flow: FlowId) -> std::ops::Range<usize> {
    flow.index() * RING..(flow.index() + 1) * RING
}

impl Buffers for Rings {
    #[inline]
    fn receive_ring(&mut self, flow: FlowId) -> &mut [u8] {
        &mut self.receive[place(flow)]
    }

    #[inline]
    fn send_ring(&self, flow: FlowId) -> &[u8] {
        &self.send[place(flow)]
    }
}

/// Segments are written where they will be sent from.
struct Sink {
    frames: Vec<Frame>,
    count: usize,
    readable: Vec<FlowId>,
}

impl Output for Sink {
    // Inlined it saves a tenth of the instructions: a segment is never put together in memory.
    #[inline(always)]
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        let Some(frame) = self.frames.get_mut(self.count) else { return false };
        let Some(len) = segment.write(&mut frame.bytes) else { return false };
        (frame.len, frame.flow) = (len, segment.route);
        self.count += 1;
        true
    }

    #[inline]
    fn event(&mut self, event: Event) {
        if let Event::Readable { flow } = event {
            self.readable.push(flow);
        }
    }
}

pub(crate) struct Server {
    pub(crate) engine: Engine,
    rings: Rings,
    sink: Sink,
}

impl Server {
    pub(crate) fn new(flows: u32, now: Nanos) -> Self {
        let options = FlowOptions {
            receive_ring_log2: RING_LOG2,
            receive_limit_log2: RING_LOG2,
            send_ring_log2: RING_LOG2,
            no_delay: true,
            ..FlowOptions::default()
        };
        let config = Config { flows_max: flows, ..Config::default() };
        let mut engine = Engine::new(config, [7; 16], now);
        engine.listen(SERVER.into(), flows, options).expect("nobody listens yet");
        let ring_bytes = flows as usize * RING;
        // Not zero: memory that was never written to is one page for all.
        let rings = Rings { receive: vec![1; ring_bytes], send: vec![1; ring_bytes] };
        let (frames, readable) = (vec![Frame::EMPTY; 256], Vec::with_capacity(64));
        Self { engine, rings, sink: Sink { frames, count: 0, readable } }
    }

    pub(crate) fn answers(&self) -> &[Frame] {
        &self.sink.frames[..self.sink.count]
    }

    pub(crate) fn forget_answers(&mut self) {
        self.sink.count = 0;
    }
}

#[inline(never)]
pub(crate) fn server_receive(server: &mut Server, now: Nanos, batch: &[Incoming<'_>]) {
    server.engine.receive(now, batch, &mut server.rings, &mut server.sink);
}

#[inline(never)]
pub(crate) fn server_expire(server: &mut Server, now: Nanos) {
    server.engine.expire(now, &mut server.sink);
}

/// What the application does: it reads the request and writes as many bytes back. Only what it asks
/// of the engine is in functions named `server_`.
#[inline(never)]
pub(crate) fn answer(server: &mut Server) {
    for at in 0..server.sink.readable.len() {
        let flow = server.sink.readable[at];
        let (unread, room) = server_spans(&mut server.engine, flow);
        let bytes = unread.bytes.min(room.bytes);
        let (from, to) = (&server.rings.receive[place(flow)], &mut server.rings.send[place(flow)]);
        match (from.get(unread.at..unread.at + REQUEST), to.get_mut(room.at..room.at + REQUEST)) {
            (Some(request), Some(response)) if bytes as usize == REQUEST => {
                response.copy_from_slice(request);
            }
            _ => copy(from, unread.at, to, room.at, bytes as usize),
        }
        black_box(server_take_reply(&mut server.engine, flow, bytes));
    }
    server.sink.readable.clear();
}

#[inline(never)]
fn server_spans(engine: &mut Engine, flow: FlowId) -> (Span, Span) {
    (engine.readable(flow), engine.room(flow))
}

#[inline(never)]
fn server_take_reply(engine: &mut Engine, flow: FlowId, bytes: u32) -> bool {
    engine.consume(flow, bytes).is_ok() && engine.send(flow, bytes).is_ok()
}

/// What wraps around the end of a ring, or is no request but a part of one, or more.
fn copy(from: &[u8], from_at: usize, to: &mut [u8], to_at: usize, bytes: usize) {
    let mut done = 0;
    while done < bytes {
        let (from_at, to_at) = ((from_at + done) % RING, (to_at + done) % RING);
        let count = (bytes - done).min(RING - from_at).min(RING - to_at);
        to[to_at..to_at + count].copy_from_slice(&from[from_at..from_at + count]);
        done += count;
    }
}

#[inline(never)]
pub(crate) fn server_transmit(server: &mut Server, now: Nanos) {
    server.engine.transmit(now, &mut server.rings, &mut server.sink);
}
