//! Requests and responses between two engines: what the common case costs, and that batches of many
//! flows change nothing.

use crate::support::{Host, Packet};
use base::Nanos;
use tcp::{Algorithm, Config, Event, FlowId, FlowOptions, Incoming};
use wire::tcp::Header;

const SERVER: &str = "10.0.0.2:7";
const REQUEST: [u8; 64] = [7; 64];
const HALF_A_ROUND_TRIP: Nanos = Nanos::from_micros(50);

/// A client and a server with connections between them, and the time.
struct Pair {
    client: Host,
    server: Host,
    now: Nanos,
    /// Both ends of each connection.
    flows: Vec<(FlowId, FlowId)>,
}

impl Pair {
    fn new(config: &Config, options: FlowOptions, flows: u16) -> Self {
        let now = Nanos::from_secs(1);
        let [client, server] = [1, 2].map(|key| Host::new(config.clone(), &options, key, now));
        let mut pair = Self { client, server, now, flows: Vec::new() };
        let address = SERVER.parse().expect("it is an address");
        pair.server.engine.listen(address, u32::MAX, options).expect("nobody listens yet");
        for number in 0..flows {
            let local = ([10, 0, 0, 1], 1024 + number).into();
            let engine = &mut pair.client.engine;
            let flow = engine.connect(pair.now, local, address, options, 0);
            let flow = flow.expect("there is room");
            pair.client.turn(pair.now);
            pair.reach_server();
            pair.reach_client();
            pair.client.turn(pair.now);
            pair.reach_server();
            let accepted = pair.server.sink.events.drain(..).find_map(|event| match event {
                Event::Connected { flow, .. } => Some(flow),
                _ => None,
            });
            pair.flows.push((flow, accepted.expect("the connection stands")));
        }
        pair
    }

    fn carry(from: &mut Host, to: &mut Host, now: Nanos) {
        let packets: Vec<Packet> = from.sink.packets.drain(..).collect();
        let batch: Vec<Incoming<'_>> = packets
            .iter()
            .map(|packet| Incoming {
                key: packet.key,
                hash: to.engine.hash_of(&packet.key),
                segment: &packet.bytes,
                ecn: packet.ecn,
                is_verified: false,
                route: 0,
            })
            .collect();
        to.engine.receive(now, &batch, &mut to.rings, &mut to.sink);
    }

    fn reach_server(&mut self) {
        self.now += HALF_A_ROUND_TRIP;
        Self::carry(&mut self.client, &mut self.server, self.now);
        self.server.turn(self.now);
    }

    fn reach_client(&mut self) {
        self.now += HALF_A_ROUND_TRIP;
        Self::carry(&mut self.server, &mut self.client, self.now);
    }

    /// A request on every connection, and the response to each.
    fn exchange(&mut self) {
        for (flow, _) in &self.flows {
            assert_eq!(self.client.write(*flow, &REQUEST), REQUEST.len());
        }
        self.client.turn(self.now);
        self.now += HALF_A_ROUND_TRIP;
        Self::carry(&mut self.client, &mut self.server, self.now);
        for (_, flow) in &self.flows {
            let request = self.server.read(*flow, 1000);
            assert_eq!(self.server.write(*flow, &request), request.len());
        }
        self.server.turn(self.now);
        self.reach_client();
        for (flow, _) in &self.flows {
            assert_eq!(self.client.read(*flow, 1000), REQUEST);
        }
    }
}

#[test]
fn nearly_every_segment_of_requests_and_responses_takes_the_fast_path_and_one_answers_one() {
    let plain = Config { timestamps: false, sack: false, ..Config::default() };
    let dctcp = FlowOptions { congestion: Algorithm::Dctcp, ..FlowOptions::default() };
    let without_delay = FlowOptions { no_delay: true, ..FlowOptions::default() };
    for (config, options) in [
        (Config::default(), FlowOptions::default()),
        (plain, FlowOptions::default()),
        (Config::default(), dctcp),
        (Config::default(), without_delay),
    ] {
        let mut pair = Pair::new(&config, options, 1);
        let (before, client_before) =
            (*pair.server.engine.counters(), *pair.client.engine.counters());
        for _ in 0..1000 {
            pair.exchange();
        }
        let (after, client_after) = (pair.server.engine.counters(), pair.client.engine.counters());
        assert_eq!(after.received - before.received, 1000, "nothing but requests");
        assert_eq!(after.transmitted - before.transmitted, 1000, "one response for each");
        assert!(after.fast - before.fast >= 990, "the server: {}", after.fast);
        assert_eq!(client_after.transmitted - client_before.transmitted, 1000);
        assert!(client_after.fast - client_before.fast >= 990, "the client");
    }
}

#[test]
fn a_timer_that_was_left_open_fires_as_if_it_had_been_worked_out_at_once() {
    // For one second the wheel's entry of the flow comes up again and again, each time for a timer
    // that was started anew meanwhile.
    let mut pair = Pair::new(&Config::default(), FlowOptions::default(), 1);
    while pair.now < Nanos::from_secs(2) {
        pair.exchange();
        pair.now += Nanos::from_millis(3);
    }
    // The last response is not acknowledged any more.
    pair.exchange();
    let sent_at = Nanos(pair.now.0 - HALF_A_ROUND_TRIP.0);
    let (_, flow) = pair.flows[0];
    let info = pair.server.engine.info(flow).expect("it stands");
    // It would be probed after two round trips and what a delayed acknowledgement may take, but the
    // timeout comes first (RFC 8985 section 7.2).
    let expected = sent_at + info.timeout;
    let mut probe_at = None;
    while pair.now < expected + Nanos::from_secs(1) && probe_at.is_none() {
        pair.now = pair.server.engine.next_deadline().expect("a timer runs").max(pair.now);
        pair.server.turn(pair.now);
        let packets: Vec<Packet> = pair.server.sink.packets.drain(..).collect();
        if !packets.is_empty() {
            let header = Header::parse(&packets[0].bytes).expect("we send headers");
            assert_eq!(packets[0].bytes.len() - usize::from(header.header_bytes), REQUEST.len());
            probe_at = Some(pair.now);
        }
    }
    let late = probe_at.expect("the lost response is probed").since(expected);
    assert!(probe_at >= Some(expected) && late < Nanos::from_millis(10), "{late} late");
}

#[test]
fn a_batch_of_many_flows_brings_each_its_own_bytes() {
    const FLOWS: u16 = 700;
    let mut pair = Pair::new(&Config::default(), FlowOptions::default(), FLOWS);
    for _ in 0..3 {
        pair.exchange();
    }
    for (number, (flow, _)) in pair.flows.clone().into_iter().enumerate() {
        pair.client.write(flow, format!("flow {number}").as_bytes());
    }
    pair.client.turn(pair.now);
    // Between them segments for nobody, a new connection, and one whose hash is another's.
    let mut packets: Vec<Packet> = pair.client.sink.packets.drain(..).collect();
    let mut stranger = packets[5].clone();
    stranger.key = "tcp 10.9.9.9:5 -> 10.0.0.2:7".parse().expect("it is a flow");
    packets.insert(3, stranger);
    let hashes: Vec<_> =
        packets.iter().map(|packet| pair.server.engine.hash_of(&packet.key)).collect();
    let rings_before = pair.server.rings.receive.len();
    let batch: Vec<Incoming<'_>> = packets
        .iter()
        .zip(&hashes)
        .enumerate()
        .map(|(at, (packet, hash))| Incoming {
            key: packet.key,
            hash: if at == 3 { hashes[4] } else { *hash },
            segment: &packet.bytes,
            ecn: 0,
            is_verified: at == 3,
            route: 0,
        })
        .collect();
    let server = &mut pair.server;
    server.engine.receive(pair.now, &batch, &mut server.rings, &mut server.sink);
    assert_eq!(server.engine.counters().no_flow, 1, "the stranger");
    assert_eq!(server.rings.receive.len(), rings_before, "no ring was made for it");
    for (number, (_, flow)) in pair.flows.clone().into_iter().enumerate() {
        assert_eq!(pair.server.read(flow, 1000), format!("flow {number}").as_bytes());
    }
}
