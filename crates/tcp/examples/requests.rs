//! The engine's own work for a request and its response, to be counted by callgrind.
//!
//!     cargo build --release -p tcp --example requests
//!     valgrind --tool=callgrind --dump-instr=no target/release/examples/requests 20000
//!     callgrind_annotate --inclusive=yes callgrind.out.* | grep server_
//!
//! The functions named `server_` are what a server pays: one segment of 64 bytes in, its bytes
//! delivered, 64 bytes back, one segment out.

use std::collections::VecDeque;
use std::hint::black_box;

use base::{FlowHash, Nanos};
use tcp::{Buffers, Config, Engine, Event, FlowId, FlowOptions, Incoming, Output, Segment};
use wire::{FlowKey, Toeplitz};

const RING_LOG2: u8 = 12;
const RING: usize = 1 << RING_LOG2;
const REQUEST: usize = 64;

/// Rings of a single flow.
struct Rings {
    receive: Vec<u8>,
    send: Vec<u8>,
}

impl Buffers for Rings {
    fn receive_ring(&mut self, _flow: FlowId) -> &mut [u8] {
        &mut self.receive
    }

    fn send_ring(&self, _flow: FlowId) -> &[u8] {
        &self.send
    }
}

/// A segment on the wire.
struct Frame {
    bytes: [u8; 256],
    len: usize,
    key: FlowKey,
    /// Computed by whoever spreads packets over workers: no part of the engine's work.
    hash: FlowHash,
}

/// Segments as bytes, in frames that are used again and again.
#[derive(Default)]
struct Sink {
    frames: Vec<Frame>,
    flow: Option<FlowId>,
    events: VecDeque<Event>,
}

impl Output for Sink {
    #[inline(never)]
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        let mut bytes = [0; 256];
        let Some(len) = segment.write(&mut bytes) else { return false };
        self.frames.push(Frame { bytes, len, key: segment.key, hash: FlowHash(0) });
        true
    }

    fn event(&mut self, event: Event) {
        if let Event::Connected { flow, .. } = event {
            self.flow = Some(flow);
        }
        self.events.push_back(event);
    }
}

struct Host {
    engine: Engine,
    rings: Rings,
    sink: Sink,
}

impl Host {
    fn new(key: u8) -> Self {
        let config = Config { flows_max: 16, ..Config::default() };
        Self {
            engine: Engine::new(config, [key; 16], Nanos::ZERO),
            rings: Rings { receive: vec![0; RING], send: vec![0; RING] },
            sink: Sink::default(),
        }
    }

    fn take(&mut self, now: Nanos, frames: &mut Vec<Frame>) {
        for Frame { bytes, len, key, hash } in frames.drain(..) {
            let segment = &bytes[..len];
            let incoming = Incoming { key, hash, segment, ecn: 0, is_verified: false, route: 0 };
            self.engine.receive(now, &[incoming], &mut self.rings, &mut self.sink);
        }
    }
}

#[inline(never)]
fn server_receive(server: &mut Host, now: Nanos, frames: &mut Vec<Frame>) {
    server.take(now, frames);
}

/// What the application does: it reads the request and writes as many bytes back.
#[inline(never)]
fn server_answer(server: &mut Host, flow: FlowId) {
    let unread = server.engine.readable(flow);
    let room = server.engine.room(flow);
    let bytes = unread.bytes.min(room.bytes);
    for offset in 0..bytes as usize {
        let byte = server.rings.receive[(unread.at + offset) % RING];
        server.rings.send[(room.at + offset) % RING] = byte;
    }
    let is_done =
        server.engine.consume(flow, bytes).is_ok() && server.engine.send(flow, bytes).is_ok();
    black_box(is_done);
}

#[inline(never)]
fn server_transmit(server: &mut Host, now: Nanos) {
    server.engine.transmit(now, &mut server.rings, &mut server.sink);
}

fn main() {
    let rounds: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let options = FlowOptions {
        receive_ring_log2: RING_LOG2,
        receive_limit_log2: RING_LOG2,
        send_ring_log2: RING_LOG2,
        no_delay: true,
        ..FlowOptions::default()
    };
    let (mut client, mut server) = (Host::new(1), Host::new(2));
    let client_end = ([10, 0, 0, 1], 40_000).into();
    let server_end = ([10, 0, 0, 2], 7).into();
    let mut now = Nanos::from_secs(1);
    server.engine.listen(server_end, 8, options).expect("nobody listens yet");
    let flow = client.engine.connect(now, client_end, server_end, options, 0);
    let client_flow = flow.expect("there is no such flow yet");
    let mut wire = Vec::new();
    let toeplitz = Toeplitz::new(Config::default().hash_key);
    let hash = |frames: &mut Vec<Frame>| {
        frames.iter_mut().for_each(|frame| frame.hash = toeplitz.hash(&frame.key));
    };
    let mut responses = 0_u64;
    for _ in 0..rounds + 4 {
        now += Nanos::from_micros(20);
        // The client: it reads the response and asks again.
        client.take(now, &mut wire);
        client.engine.expire(now, &mut client.sink);
        if client.sink.flow.is_some() {
            let unread = client.engine.readable(client_flow).bytes;
            responses += u64::from(unread / REQUEST as u32);
            client.engine.consume(client_flow, unread).expect("it is there");
            client.engine.send(client_flow, REQUEST as u32).expect("there is room");
        }
        client.engine.transmit(now, &mut client.rings, &mut client.sink);
        std::mem::swap(&mut wire, &mut client.sink.frames);
        hash(&mut wire);
        now += Nanos::from_micros(20);
        server.engine.expire(now, &mut server.sink);
        server_receive(&mut server, now, &mut wire);
        if let Some(flow) = server.sink.flow {
            server_answer(&mut server, flow);
        }
        server_transmit(&mut server, now);
        std::mem::swap(&mut wire, &mut server.sink.frames);
        hash(&mut wire);
        client.sink.events.clear();
        server.sink.events.clear();
    }
    let counters = server.engine.counters();
    println!(
        "{responses} responses; the server: {} segments in, {} of them on the fast path, {} out",
        counters.received, counters.fast, counters.transmitted
    );
}
