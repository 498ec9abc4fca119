//! More connections at once than a 16-bit number tells apart, and more half open than a listener
//! keeps: each is one of its own, and none leaves anything behind.

use std::collections::BTreeMap;

use base::Nanos;
use tcp::{
    Buffers, CloseReason, Config, Counters, Engine, Event, FlowId, FlowOptions, Incoming, Output,
    Piece, ReadPiece, Segment,
};
use wire::FlowKey;

/// Bytes of each ring.
const RING: usize = 256;

#[derive(Default)]
struct Rings(BTreeMap<FlowId, [Vec<u8>; 2]>);

impl Rings {
    fn of(&mut self, flow: FlowId) -> &mut [Vec<u8>; 2] {
        self.0.entry(flow).or_insert_with(|| [vec![0; RING], vec![0; RING]])
    }
}

impl Buffers for Rings {
    fn receive_ring(&mut self, flow: FlowId) -> Piece<'_> {
        (&mut self.of(flow)[0]).into()
    }

    fn send_ring(&self, flow: FlowId) -> ReadPiece<'_> {
        self.0.get(&flow).map(|rings| ReadPiece::from(&rings[1])).unwrap_or_default()
    }
}

#[derive(Default)]
struct Out {
    sent: Vec<(FlowKey, Vec<u8>)>,
    connected: Vec<FlowId>,
    peer_closed: Vec<FlowId>,
    finished: usize,
}

/// All that is due, in as many turns as that takes.
fn expire_all(host: &mut Host, now: Nanos) {
    for _ in 0..100 {
        host.engine.expire(now, &mut host.out);
    }
}

impl Output for Out {
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        let mut bytes = vec![0; segment.len()];
        segment.write(&mut bytes).expect("it is long enough");
        self.sent.push((segment.key, bytes));
        true
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Connected { flow, .. } => self.connected.push(flow),
            Event::PeerClosed { flow } => self.peer_closed.push(flow),
            Event::Closed { reason, .. } => {
                assert_eq!(reason, CloseReason::Finished);
                self.finished += 1;
            }
            Event::Readable { .. } | Event::Writable { .. } | Event::Urgent { .. } => {}
        }
    }
}

struct Host {
    engine: Engine,
    rings: Rings,
    out: Out,
}

impl Host {
    fn write(&mut self, flow: FlowId, text: &str) {
        let room = self.engine.room(flow);
        let ring = &mut self.rings.of(flow)[1];
        for (offset, byte) in text.bytes().enumerate() {
            ring[(room.at + offset) % RING] = byte;
        }
        self.engine.send(flow, text.len() as u32).expect("there is room");
    }

    fn read(&mut self, flow: FlowId) -> String {
        let span = self.engine.readable(flow);
        let ring = &self.rings.of(flow)[0];
        let bytes = (0..span.bytes as usize).map(|offset| ring[(span.at + offset) % RING]);
        let text = String::from_utf8(bytes.collect()).expect("it is text");
        self.engine.consume(flow, span.bytes).expect("they are there");
        text
    }

    /// Flows, segments on their way and out-of-order ranges that hold memory.
    fn in_use(&self) -> (usize, (u32, u32)) {
        (self.engine.flows_in_use(), self.engine.records_in_use())
    }
}

/// A client and a server that listens on port 7 of 10.0.0.2; what one sends the other gets at once.
struct Pair {
    client: Host,
    server: Host,
    now: Nanos,
}

impl Pair {
    fn new(flows_max: u32, backlog: u32) -> Self {
        let now = Nanos::from_secs(1);
        let host = |key| Host {
            engine: Engine::new(Config { flows_max, ..Config::default() }, [key; 16], now),
            rings: Rings::default(),
            out: Out::default(),
        };
        let mut pair = Self { client: host(1), server: host(2), now };
        let local = "10.0.0.2:7".parse().expect("it is an address");
        pair.server.engine.listen(local, backlog, options()).expect("nobody else listens");
        pair
    }

    fn connect(&mut self, flows: u32) {
        for number in 0..flows {
            let [_, high, middle, low] = number.to_be_bytes();
            let local = ([10, 1, high, middle], 1024 + u16::from(low)).into();
            let remote = "10.0.0.2:7".parse().expect("it is an address");
            let engine = &mut self.client.engine;
            engine.connect(self.now, local, remote, options(), 0).expect("there is room");
        }
    }

    /// Carries over what either has to say.
    fn exchange(&mut self, times: usize) {
        for _ in 0..times {
            carry(&mut self.client, &mut self.server, self.now);
            carry(&mut self.server, &mut self.client, self.now);
        }
    }

    /// On every connection the client says its name; the server finds it to be its own, turned
    /// around, and says the name back on every seventh.
    fn check_names(&mut self) {
        let flows = self.client.out.connected.clone();
        for flow in &flows {
            let key = self.client.engine.key(*flow).expect("it stands");
            self.client.write(*flow, &key.to_string());
        }
        self.exchange(2);
        for flow in self.server.out.connected.clone() {
            let text = self.server.read(flow);
            let key: FlowKey = text.parse().expect("a name");
            assert_eq!(self.server.engine.key(flow), Some(key.reversed()));
            if flow.index() % 7 == 0 {
                self.server.write(flow, &text);
            }
        }
        self.exchange(2);
        let mut echoes = 0;
        for flow in flows {
            let text = self.client.read(flow);
            if !text.is_empty() {
                let key = self.client.engine.key(flow).expect("it stands");
                assert_eq!(text, key.to_string());
                echoes += 1;
            }
        }
        assert_eq!(echoes, self.server.out.connected.len().div_ceil(7));
    }

    /// The client closes every connection, the server follows; afterwards nothing is left.
    fn close(&mut self) {
        let count = self.client.out.connected.len();
        for flow in std::mem::take(&mut self.client.out.connected) {
            self.client.engine.close(flow, &mut self.client.out).expect("it stands");
        }
        self.exchange(1);
        assert_eq!(self.server.out.peer_closed.len(), count);
        for flow in std::mem::take(&mut self.server.out.peer_closed) {
            self.server.engine.close(flow, &mut self.server.out).expect("it stands");
        }
        self.exchange(2);
        assert_eq!((self.client.out.finished, self.server.out.finished), (count, count));
        assert_eq!(self.server.in_use(), (0, (0, 0)));
        assert_eq!(self.client.in_use(), (count, (0, 0)), "TIME-WAIT");
        self.now += Nanos::from_secs(61);
        for host in [&mut self.client, &mut self.server] {
            expire_all(host, self.now);
            host.engine.transmit(self.now, &mut host.rings, &mut host.out);
            assert_eq!(host.in_use(), (0, (0, 0)));
            assert_eq!(host.engine.next_deadline(), None);
            host.out = Out::default();
            host.rings = Rings::default();
        }
    }
}

fn carry(from: &mut Host, to: &mut Host, now: Nanos) {
    from.engine.transmit(now, &mut from.rings, &mut from.out);
    let sent = std::mem::take(&mut from.out.sent);
    let hashes: Vec<_> = sent.iter().map(|(key, _)| to.engine.hash_of(key)).collect();
    let batch: Vec<_> = sent
        .iter()
        .zip(hashes)
        .map(|((key, segment), hash)| Incoming {
            key: *key,
            hash,
            segment,
            ecn: 0,
            is_verified: false,
            route: 0,
        })
        .collect();
    to.engine.receive(now, &batch, &mut to.rings, &mut to.out);
}

fn options() -> FlowOptions {
    FlowOptions { receive_ring_log2: 8, send_ring_log2: 8, ..FlowOptions::default() }
}

#[test]
fn seventy_thousand_connections_stand_at_once_each_has_its_own_bytes_and_all_memory_comes_back() {
    const FLOWS: u32 = 70_000;
    let mut pair = Pair::new(FLOWS, u32::MAX);
    // The second time all places were used before.
    for round in 1..=2 {
        pair.connect(FLOWS);
        pair.exchange(3);
        for host in [&pair.client, &pair.server] {
            assert_eq!(host.out.connected.len(), FLOWS as usize, "round {round}");
            assert_eq!(host.in_use(), (FLOWS as usize, (0, 0)));
        }
        pair.check_names();
        pair.close();
    }
    for host in [&pair.client, &pair.server] {
        let counters = host.engine.counters();
        let Counters { retransmitted, resets_sent, flows_full, malformed, .. } = *counters;
        assert_eq!((retransmitted, resets_sent, flows_full, malformed), (0, 0, 0, 0));
        assert_eq!(counters.connected, 2 * u64::from(FLOWS));
    }
}

#[test]
fn of_ten_thousand_half_open_connections_a_listener_keeps_its_backlog_and_loses_none() {
    // RFC 4987 section 3.6: the others are in the cookies, not in memory.
    const BACKLOG: u32 = 128;
    const FLOWS: u32 = BACKLOG + 10_000;
    let mut pair = Pair::new(FLOWS, BACKLOG);
    pair.connect(FLOWS);
    carry(&mut pair.client, &mut pair.server, pair.now);
    assert_eq!(pair.server.in_use(), (BACKLOG as usize, (0, 0)));
    assert_eq!(pair.server.engine.counters().cookies_sent, 10_000);
    assert!(pair.server.out.connected.is_empty());
    // The answers are lost. Asked again, the kept ones are still the same, and nobody else got a
    // place.
    pair.server.out.sent.clear();
    pair.now += Nanos::from_millis(1100);
    expire_all(&mut pair.client, pair.now);
    expire_all(&mut pair.server, pair.now);
    carry(&mut pair.client, &mut pair.server, pair.now);
    assert_eq!(pair.server.in_use(), (BACKLOG as usize, (0, 0)));
    assert_eq!(pair.server.engine.counters().cookies_sent, 20_000);
    pair.exchange(3);
    assert_eq!(pair.server.out.connected.len(), FLOWS as usize);
    assert_eq!(pair.client.out.connected.len(), FLOWS as usize);
    assert_eq!(pair.server.engine.counters().cookies_accepted, 10_000);
    assert_eq!(pair.server.engine.counters().cookies_rejected, 0);
    pair.check_names();
    pair.close();
}
