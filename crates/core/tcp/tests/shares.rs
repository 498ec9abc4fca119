//! What an engine's flows have in common is shared so that none can take it from the others.

use std::num::NonZeroU16;

use crate::support::Host;
use base::Nanos;
use tcp::{Config, Event, FlowId, FlowOptions};

/// A round trip.
const TICK: Nanos = Nanos::from_millis(1);
const SEND_RING_LOG2: u8 = 18;
/// Records for one flow alone: a send ring's worth of segments is some 180 for an honest peer and
/// 7000 for one that takes 36 bytes a segment.
const SENT_MAX: u32 = 1 << 11;

/// A client with one connection.
struct Client {
    host: Host,
    flow: FlowId,
    received: u64,
}

/// A server that has always more to send to everybody.
struct World {
    server: Host,
    accepted: Vec<FlowId>,
    clients: Vec<Client>,
    now: Nanos,
}

impl World {
    fn new() -> Self {
        let now = Nanos::from_secs(1);
        let options = FlowOptions { send_ring_log2: SEND_RING_LOG2, ..FlowOptions::default() };
        let config = Config { flows_max: 64, sent_max: SENT_MAX, ..Config::default() };
        let mut server = Host::new(config, &options, 1, now);
        server.engine.listen(([10, 0, 0, 1], 7).into(), 64, options).expect("nobody listens");
        Self { server, accepted: Vec::new(), clients: Vec::new(), now }
    }

    fn connect(&mut self, mss_max: Option<u16>) {
        let options = FlowOptions {
            receive_ring_log2: SEND_RING_LOG2,
            receive_limit_log2: SEND_RING_LOG2,
            mss_max: mss_max.and_then(NonZeroU16::new),
            ..FlowOptions::default()
        };
        let config = Config { flows_max: 1, ..Config::default() };
        let number = self.clients.len() as u8;
        let mut host = Host::new(config, &options, 2 + number, self.now);
        let (near, far) = (([10, 0, 1, number], 40_000).into(), ([10, 0, 0, 1], 7).into());
        let flow = host.engine.connect(self.now, near, far, options, 0).expect("there is room");
        self.clients.push(Client { host, flow, received: 0 });
    }

    /// A tick in which only the clients from `first` on hear or say anything.
    fn tick(&mut self, first: usize) {
        self.now += TICK;
        let now = self.now;
        for client in self.clients.iter_mut().skip(first) {
            for packet in client.host.sink.packets.drain(..) {
                self.server.receive(now, &packet);
            }
        }
        for event in self.server.sink.events.drain(..) {
            if let Event::Connected { flow, .. } = event {
                self.server.rings.send.insert(flow, vec![0; 1 << SEND_RING_LOG2]);
                self.accepted.push(flow);
            }
        }
        for flow in &self.accepted {
            let room = self.server.engine.room(*flow).bytes;
            // Errors: the server has given the flow up.
            let _ = self.server.engine.send(*flow, room);
        }
        self.server.turn(now);
        let packets = std::mem::take(&mut self.server.sink.packets);
        for packet in &packets {
            let mut clients = self.clients.iter_mut().skip(first);
            let client =
                clients.find(|client| client.host.engine.key(client.flow) == Some(packet.key));
            if let Some(client) = client {
                client.host.receive(now, packet);
            }
        }
        for client in self.clients.iter_mut().skip(first) {
            let unread = client.host.engine.readable(client.flow).bytes;
            client.host.engine.consume(client.flow, unread).expect("it is there");
            client.received += u64::from(unread);
            client.host.turn(now);
        }
    }
}

/// Bytes that an honest client gets in a second, beside a number of clients that announce the
/// smallest MSS, read for a while and fall silent.
fn honest_bytes(attackers: usize) -> u64 {
    let mut world = World::new();
    for _ in 0..attackers {
        world.connect(Some(48));
    }
    for _ in 0..30 {
        world.tick(0);
    }
    world.connect(None);
    for _ in 0..1000 {
        world.tick(attackers);
    }
    let (used, _) = world.server.engine.records_in_use();
    assert!(attackers == 0 || used >= SENT_MAX, "the attack takes what it can get: {used}");
    world.clients[attackers].received
}

#[test]
fn silent_peers_with_tiny_segments_do_not_keep_an_honest_one_from_its_data() {
    let alone = honest_bytes(0);
    assert!(alone > 50 << 20, "it gets a window a round trip: {alone}");
    let beside = honest_bytes(8);
    assert!(beside * 10 >= alone * 9, "{beside} bytes beside attackers, {alone} without");
}

#[test]
fn a_flow_with_tiny_segments_has_no_more_of_them_on_its_way_than_its_ring_pays_for() {
    let mut world = World::new();
    world.connect(Some(48));
    for _ in 0..30 {
        world.tick(0);
    }
    // Nobody else wants any, and the windows take 7000.
    let (used, _) = world.server.engine.records_in_use();
    let paid = (1 << SEND_RING_LOG2) / 256;
    assert_eq!(used, 16 + paid);
    assert!(world.server.engine.counters().sent_full > 0);
}

#[test]
fn timers_that_are_all_due_at_once_are_looked_at_in_turns() {
    const FLOWS: u16 = 20_000;
    /// Looks that one turn may take, and some more that belong to the last burst.
    const A_TURN_MAX: u64 = 4096 + 64;
    let mut now = Nanos::from_secs(1);
    let options = FlowOptions::default();
    let config = Config { flows_max: u32::from(FLOWS), ..Config::default() };
    let mut host = Host::new(config, &options, 1, now);
    for number in 0..FLOWS {
        let (near, far) = (([10, 0, 0, 1], 10_000 + number).into(), ([10, 0, 0, 2], 7).into());
        host.engine.connect(now, near, far, options, 0).expect("there is room");
    }
    host.turn(now);
    assert_eq!(host.sink.packets.drain(..).count(), usize::from(FLOWS));
    // The worker was stopped for a while: each SYN is to be sent again.
    now += Nanos::from_millis(1500);
    let (mut done, mut turns) = (0, 0);
    while host.engine.next_deadline().is_some_and(|deadline| deadline <= now) {
        host.engine.expire(now, &mut host.sink);
        let timeouts = host.engine.counters().timeouts;
        assert!(timeouts - done <= A_TURN_MAX, "{} in one turn", timeouts - done);
        (done, turns) = (timeouts, turns + 1);
        host.engine.transmit(now, &mut host.rings, &mut host.sink);
        assert!(turns < 100, "it comes to an end");
    }
    assert_eq!(done, u64::from(FLOWS));
    assert_eq!(host.sink.packets.len(), usize::from(FLOWS));
    assert!(turns >= 5, "{turns} turns");
}
