//! Connections that nobody here has any more take no place from those that somebody wants.

use crate::support::Host;
use crate::support::script::Script;
use base::{FlowGroup, Nanos};
use tcp::{Config, Detached, Event, FlowId, FlowOptions, State};

const FLOWS_MAX: u32 = 4;

/// A server with few places, and clients that come one after the other.
struct World {
    server: Host,
    now: Nanos,
}

impl World {
    fn new() -> Self {
        let now = Nanos::from_secs(1);
        let options = FlowOptions::default();
        let config = Config { flows_max: FLOWS_MAX, ..Config::default() };
        let mut server = Host::new(config, &options, 1, now);
        server.engine.listen(([10, 0, 0, 1], 7).into(), 64, options).expect("nobody listens");
        Self { server, now }
    }

    fn carry(&mut self, client: &mut Host) {
        for _ in 0..4 {
            self.now += Nanos::from_millis(1);
            client.turn(self.now);
            for packet in std::mem::take(&mut client.sink.packets) {
                self.server.receive(self.now, &packet);
            }
            self.server.turn(self.now);
            for packet in std::mem::take(&mut self.server.sink.packets) {
                client.receive(self.now, &packet);
            }
        }
    }

    /// A client connects; the server's end of the connection, if it stands.
    fn connect(&mut self, number: u8) -> (Host, FlowId, Option<FlowId>) {
        let options = FlowOptions::default();
        let config = Config { flows_max: 1, ..Config::default() };
        let mut client = Host::new(config, &options, 2 + number, self.now);
        let (near, far) = (([10, 0, 1, number], 40_000).into(), ([10, 0, 0, 1], 7).into());
        let flow = client.engine.connect(self.now, near, far, options, 0).expect("there is room");
        self.carry(&mut client);
        let accepted = self.server.sink.events.drain(..).find_map(|event| match event {
            Event::Connected { flow, .. } => Some(flow),
            _ => None,
        });
        (client, flow, accepted)
    }

    /// A connection that the server closes first, so that TIME-WAIT is its.
    fn come_and_go(&mut self, number: u8) {
        let (mut client, flow, accepted) = self.connect(number);
        let accepted = accepted.expect("it stands");
        self.server.engine.close(accepted, &mut self.server.sink).expect("it is open");
        self.carry(&mut client);
        client.engine.close(flow, &mut client.sink).expect("it is open");
        self.carry(&mut client);
        assert_eq!(client.engine.flows_in_use(), 0);
    }
}

#[test]
fn whoever_comes_when_all_places_are_taken_by_time_wait_gets_the_oldest_ones() {
    let mut world = World::new();
    for number in 0..FLOWS_MAX as u8 {
        world.come_and_go(number);
    }
    assert_eq!(world.server.engine.flows_in_use(), FLOWS_MAX as usize);
    for number in 0..FLOWS_MAX as u8 {
        let (client, flow, accepted) = world.connect(100 + number);
        assert!(accepted.is_some(), "the connection stands at both ends");
        assert_eq!(client.engine.state(flow), Some(State::Established));
        let counters = world.server.engine.counters();
        assert_eq!((counters.time_wait_evicted, counters.flows_full), (u64::from(number) + 1, 0));
    }
    // Now all are wanted by somebody.
    let (_, _, accepted) = world.connect(200);
    assert_eq!(accepted, None);
    assert_eq!(world.server.engine.counters().time_wait_evicted, u64::from(FLOWS_MAX));
}

#[test]
fn places_are_found_however_many_connections_have_come_and_gone_before() {
    let mut world = World::new();
    for round in 0..100 {
        world.come_and_go(round);
        assert!(world.server.engine.flows_in_use() <= FLOWS_MAX as usize);
    }
    assert_eq!(world.server.engine.counters().time_wait_evicted, 100 - u64::from(FLOWS_MAX));
}

#[test]
fn what_an_application_has_left_is_sent_again_for_two_minutes_at_most() {
    for is_closed in [false, true] {
        let mut script = Script::accepted(Config::default(), FlowOptions::default());
        script.write(1000);
        script.take_packets();
        if is_closed {
            let (flow, host) = (script.flow(), &mut script.host);
            host.engine.close(flow, &mut host.sink).expect("it is open");
        }
        script.wait_ms(60_000);
        assert_eq!(script.host.engine.flows_in_use(), 1, "it is given a while");
        script.wait_ms(90_000);
        let expected = usize::from(!is_closed);
        assert_eq!(script.host.engine.flows_in_use(), expected);
    }
}

/// A connection that we have closed first, in TIME-WAIT: the peer's next number is 2.
fn in_time_wait() -> Script {
    let mut script = Script::accepted(Config::default(), FlowOptions::default());
    let (flow, host) = (script.flow(), &mut script.host);
    host.engine.close(flow, &mut host.sink).expect("it is open");
    script.expect(&["F. 1:1 ack 1 win 65535"]);
    script.inject("F. 1:1 ack 2 win 65535");
    script.expect(&[". 2:2 ack 2 win 65534"]);
    assert_eq!(script.host.engine.flows_in_use(), 1);
    script
}

#[test]
fn a_reset_with_the_next_number_ends_time_wait_and_no_other_does() {
    let mut script = in_time_wait();
    for text in ["R 1:1", "R 3:3", "R. 1000:1000 ack 2"] {
        script.inject(text);
        assert_eq!(script.host.engine.flows_in_use(), 1, "{text}");
    }
    script.inject("R 2:2");
    assert_eq!(script.host.engine.flows_in_use(), 0);
}

#[test]
fn a_peer_that_comes_again_with_an_older_number_has_its_connection_with_the_next_syn() {
    let mut script = in_time_wait();
    // It knows nothing of the old connection, and its numbers begin below it.
    script.inject("S 0:0 win 65535 <mss 1000>");
    script.expect(&[". 2:2 ack 2 win 65534"]);
    script.inject("R 2:2");
    script.wait_ms(1000);
    script.inject("S 0:0 win 65535 <mss 1000>");
    script.expect(&["S. 0:0 ack 1 win 65535 <mss 1460>"]);
}

/// An engine of four places that has one flow which somebody has.
fn with_one_flow(number: u8) -> (World, Host, FlowId) {
    let mut world = World::new();
    let (client, flow, accepted) = world.connect(number);
    assert!(accepted.is_some(), "it stands");
    (world, client, flow)
}

fn give_up_all(world: &mut World) -> Detached {
    let mut detached = Detached::default();
    world.server.engine.detach_group(FlowGroup(0), 1, |_| true, &mut detached);
    detached
}

#[test]
fn flows_that_move_get_the_places_of_time_wait() {
    let mut full = World::new();
    for number in 0..FLOWS_MAX as u8 {
        full.come_and_go(number);
    }
    let (mut home, mut client, flow) = with_one_flow(100);
    let mut detached = give_up_all(&mut home);
    let mut moved = 0;
    full.now = full.now.max(home.now);
    let taken = full.server.engine.attach_group(full.now, &mut detached, |_, _| moved += 1);
    assert_eq!((taken, moved), (Ok(()), 1));
    assert_eq!(full.server.engine.counters().time_wait_evicted, 1, "one was enough");
    // It goes on.
    full.carry(&mut client);
    client.write(flow, b"hello");
    full.carry(&mut client);
    assert!(full.server.sink.events.iter().any(|event| matches!(event, Event::Readable { .. })));
}

#[test]
fn time_wait_that_moves_takes_no_place_from_what_somebody_has() {
    // Three that somebody has, and three that only wait.
    let mut home = World::new();
    home.come_and_go(1);
    home.come_and_go(2);
    home.come_and_go(3);
    let (_one, _, accepted) = home.connect(4);
    assert!(accepted.is_some());
    let mut there = World::new();
    there.come_and_go(11);
    let living = [there.connect(12), there.connect(13)];
    assert!(living.iter().all(|(.., accepted)| accepted.is_some()));
    let mut detached = give_up_all(&mut home);
    assert_eq!(detached.len(), 4);
    let mut moved = 0;
    let now = home.now.max(there.now);
    let taken = there.server.engine.attach_group(now, &mut detached, |_, _| moved += 1);
    assert_eq!(taken, Ok(()));
    let engine = &there.server.engine;
    let counters = engine.counters();
    // One place was free: it is for the one that somebody has.
    assert_eq!((moved, counters.time_wait_evicted, engine.flows_in_use()), (1, 3, 4));
}
