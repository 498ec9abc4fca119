//! The engine's own work for a full segment of a bulk transfer, at its sender and at its receiver.
//!
//!     cargo build --release -p tcp --example bulk
//!     valgrind --tool=callgrind target/release/examples/bulk 20000
//!     callgrind_annotate --inclusive=yes callgrind.out.* | grep -E 'sender_|receiver_'
//!
//! Both checksums and the copies from and to the rings are part of it: they alone are some 350
//! instructions for each sum and, with the C library's copying, some 60 for each copy.

use base::{FlowHash, Nanos};
use tcp::{
    Buffers, Config, Engine, Event, FlowId, FlowOptions, Incoming, Output, Piece, ReadPiece,
    Segment,
};
use wire::FlowKey;

const RING_LOG2: u8 = 20;
const RING: usize = 1 << RING_LOG2;
const BATCH: usize = 32;

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

#[derive(Clone, Copy)]
struct Frame {
    bytes: [u8; 1536],
    len: usize,
    key: Option<FlowKey>,
}

/// Segments are written where they will be sent from.
struct Sink {
    frames: Vec<Frame>,
    count: usize,
    flow: Option<FlowId>,
}

impl Output for Sink {
    // As in `requests`.
    #[inline(always)]
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        let Some(frame) = self.frames.get_mut(self.count) else { return false };
        let Some(len) = segment.write(&mut frame.bytes) else { return false };
        (frame.len, frame.key) = (len, Some(segment.key));
        self.count += 1;
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
        let frame = Frame { bytes: [0; 1536], len: 0, key: None };
        Self {
            engine: Engine::new(config, [key; 16], now),
            rings: Rings { receive: vec![1; RING], send: vec![1; RING] },
            sink: Sink { frames: vec![frame; BATCH], count: 0, flow: None },
        }
    }

    fn receive(&mut self, now: Nanos, from: &mut Sink, hash: FlowHash) {
        let frames = &from.frames[..from.count];
        let incoming = frames.iter().filter_map(|frame| {
            let segment = &frame.bytes[..frame.len];
            let key = frame.key?;
            Some(Incoming { key, hash, segment, ecn: 0, is_verified: false, route: 0 })
        });
        let batch: Vec<Incoming<'_>> = incoming.collect();
        take(self, now, &batch);
        from.count = 0;
    }
}

#[inline(never)]
fn take(host: &mut Host, now: Nanos, batch: &[Incoming<'_>]) {
    host.engine.receive(now, batch, &mut host.rings, &mut host.sink);
}

#[inline(never)]
fn sender_receive(sender: &mut Host, now: Nanos, from: &mut Sink, hash: FlowHash) {
    sender.receive(now, from, hash);
}

/// The application always has as much to send as there is room for.
#[inline(never)]
fn sender_transmit(sender: &mut Host, now: Nanos, flow: FlowId) {
    let room = sender.engine.room(flow).bytes;
    sender.engine.send(flow, room).expect("there is room");
    sender.engine.transmit(now, &mut sender.rings, &mut sender.sink);
}

#[inline(never)]
fn receiver_receive(receiver: &mut Host, now: Nanos, from: &mut Sink, hash: FlowHash) {
    receiver.receive(now, from, hash);
}

/// The application takes all there is.
#[inline(never)]
fn receiver_transmit(receiver: &mut Host, now: Nanos) {
    if let Some(flow) = receiver.sink.flow {
        let unread = receiver.engine.readable(flow).bytes;
        receiver.engine.consume(flow, unread).expect("it is there");
    }
    receiver.engine.transmit(now, &mut receiver.rings, &mut receiver.sink);
}

fn main() {
    let segments: u64 =
        std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let options = FlowOptions {
        receive_ring_log2: RING_LOG2,
        receive_limit_log2: RING_LOG2,
        send_ring_log2: RING_LOG2,
        ..FlowOptions::default()
    };
    let mut now = Nanos::from_secs(1);
    let (mut sender, mut receiver) = (Host::new(1, now), Host::new(2, now));
    let (near, far) = (([10, 0, 0, 1], 40_000).into(), ([10, 0, 0, 2], 7).into());
    receiver.engine.listen(far, 8, options).expect("nobody listens yet");
    let flow = sender.engine.connect(now, near, far, options, 0).expect("there is room");
    let hash = |engine: &Engine| engine.key(flow).map(|key| engine.hash_of(&key));
    let answer_hash = hash(&sender.engine).expect("it is there");
    let key = sender.engine.key(flow).expect("it is there").reversed();
    let data_hash = receiver.engine.hash_of(&key);
    while sender.engine.counters().transmitted < segments {
        now += Nanos::from_micros(100);
        sender_transmit(&mut sender, now, flow);
        now += Nanos::from_micros(100);
        receiver_receive(&mut receiver, now, &mut sender.sink, data_hash);
        receiver_transmit(&mut receiver, now);
        sender_receive(&mut sender, now, &mut receiver.sink, answer_hash);
    }
    for (name, host) in [("sender", &sender), ("receiver", &receiver)] {
        let counters = host.engine.counters();
        println!(
            "{name}: {} segments in, {} of them on the fast path, {} out",
            counters.received, counters.fast, counters.transmitted
        );
    }
}
