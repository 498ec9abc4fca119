//! The engine's own work for a request of 64 bytes and its response, at the server.
//!
//!     cargo build --release -p tcp --example requests
//!     valgrind --tool=callgrind target/release/examples/requests 20000
//!     callgrind_annotate --inclusive=yes callgrind.out.* | grep server_
//!
//! What is counted is one segment in, the application's look at it, and one segment out, both
//! checksums and both copies included.

use base::{FlowHash, Nanos};
use tcp::{
    Buffers, Config, Engine, Event, FlowId, FlowOptions, Incoming, Output, Piece, ReadPiece,
    Segment,
};
use wire::FlowKey;

const RING: usize = 1 << 16;
const REQUEST: u32 = 64;

struct Rings {
    receive: Vec<u8>,
    send: Vec<u8>,
}

impl Buffers for Rings {
    #[inline]
    fn receive_ring(&mut self, _flow: FlowId) -> Piece<'_> {
        (&mut self.receive).into()
    }

    #[inline]
    fn send_ring(&self, _flow: FlowId) -> ReadPiece<'_> {
        (&self.send).into()
    }
}

/// One segment, written where it will be sent from.
struct Sink {
    bytes: [u8; 1536],
    len: usize,
    key: Option<FlowKey>,
    flow: Option<FlowId>,
}

impl Output for Sink {
    // A device's ring is written to in place; a call for it would be this example's cost, not the
    // engine's.
    #[inline(always)]
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        let Some(len) = segment.write(&mut self.bytes) else { return false };
        (self.len, self.key) = (len, Some(segment.key));
        true
    }

    #[inline]
    fn event(&mut self, event: Event) {
        if let Event::Connected { flow, .. } = event {
            self.flow = Some(flow);
        }
    }
}

struct Host {
    engine: Engine,
    rings: Rings,
    sink: Sink,
}

impl Host {
    fn new(key: u8, now: Nanos) -> Self {
        let config = Config { flows_max: 16, ..Config::default() };
        Self {
            engine: Engine::new(config, [key; 16], now),
            rings: Rings { receive: vec![1; RING], send: vec![1; RING] },
            sink: Sink { bytes: [0; 1536], len: 0, key: None, flow: None },
        }
    }

    #[inline]
    fn receive(&mut self, now: Nanos, from: &mut Sink, hash: FlowHash) {
        let Some(key) = from.key.take() else { return };
        let segment = &from.bytes[..from.len];
        let incoming = Incoming { key, hash, segment, ecn: 0, is_verified: false, route: 0 };
        self.engine.receive(now, &[incoming], &mut self.rings, &mut self.sink);
    }

    /// The application takes what has come, and writes as much.
    #[inline]
    fn exchange(&mut self, flow: FlowId) {
        let unread = self.engine.readable(flow).bytes;
        self.engine.consume(flow, unread).expect("it is there");
        self.engine.send(flow, REQUEST).expect("there is room");
    }

    #[inline]
    fn transmit(&mut self, now: Nanos) {
        self.engine.transmit(now, &mut self.rings, &mut self.sink);
    }
}

#[inline(never)]
fn server_receive(server: &mut Host, now: Nanos, from: &mut Sink, hash: FlowHash) {
    server.receive(now, from, hash);
}

#[inline(never)]
fn server_exchange(server: &mut Host, flow: FlowId) {
    server.exchange(flow);
}

#[inline(never)]
fn server_transmit(server: &mut Host, now: Nanos) {
    server.transmit(now);
}

fn main() {
    let requests: u64 =
        std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let options = FlowOptions::default();
    let mut now = Nanos::from_secs(1);
    let (mut client, mut server) = (Host::new(1, now), Host::new(2, now));
    let (near, far) = (([10, 0, 0, 1], 40_000).into(), ([10, 0, 0, 2], 7).into());
    server.engine.listen(far, 8, options).expect("nobody listens yet");
    let flow = client.engine.connect(now, near, far, options, 0).expect("there is room");
    let key = client.engine.key(flow).expect("it is there");
    let answer_hash = client.engine.hash_of(&key);
    let request_hash = server.engine.hash_of(&key.reversed());
    for _ in 0..2 {
        client.transmit(now);
        server.receive(now, &mut client.sink, request_hash);
        server.transmit(now);
        client.receive(now, &mut server.sink, answer_hash);
    }
    let accepted = server.sink.flow.expect("the connection stands");
    for _ in 0..requests {
        client.exchange(flow);
        client.transmit(now);
        now += Nanos::from_micros(50);
        server_receive(&mut server, now, &mut client.sink, request_hash);
        server_exchange(&mut server, accepted);
        server_transmit(&mut server, now);
        now += Nanos::from_micros(50);
        client.receive(now, &mut server.sink, answer_hash);
    }
    let counters = server.engine.counters();
    println!(
        "{} segments in, {} of them on the fast path, {} out",
        counters.received, counters.fast, counters.transmitted
    );
}
