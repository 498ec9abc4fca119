//! Two engines over a link that loses, repeats, reorders, corrupts and marks, in virtual time.
//!
//! Whatever the link does short of losing everything: each byte arrives once and in order, both
//! sides end, all memory comes back, and whenever something is outstanding there is a deadline.

use std::collections::BTreeMap;

use crate::support::{Host, Packet};
use base::{FlowGroup, Nanos};
use proptest::prelude::*;
use tcp::{Algorithm, CloseReason, Config, Detached, Engine, Event, FlowId, FlowOptions};

/// A generator that is the same everywhere (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn chance(&mut self, per_mille: u32) -> bool {
        self.next() % 1000 < u64::from(per_mille)
    }
}

/// What a link does, each in thousandths of all packets.
#[derive(Clone, Copy, Debug)]
struct Weather {
    delay: Nanos,
    jitter: Nanos,
    lost: u32,
    repeated: u32,
    corrupted: u32,
    marked: u32,
    /// Bits a microsecond; what comes too fast queues. Zero: no limit.
    megabits: u64,
    /// A packet that would have to queue for longer is dropped.
    queue: Nanos,
}

const FAIR: Weather = Weather {
    delay: Nanos::from_millis(5),
    jitter: Nanos::ZERO,
    lost: 0,
    repeated: 0,
    corrupted: 0,
    marked: 0,
    megabits: 0,
    queue: Nanos::ZERO,
};

/// What the applications do.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    weather: Weather,
    /// Bytes from the client, and from the server.
    bytes: [usize; 2],
    /// At most this many are written and read at a time.
    chunk: usize,
    /// How long the reader sleeps between reads.
    pause: Nanos,
    options: FlowOptions,
    sack: bool,
    timestamps: bool,
    scaling: bool,
    mtu: u16,
    /// Whether to find out what the path carries.
    probing: bool,
    backlog: u32,
    is_v6: bool,
    /// Segments that a host takes from its engine at a time.
    room: usize,
    /// How often, in thousandths of all rounds, a side's flows go to its other engine.
    moved: u32,
}

/// One side of the transfer.
struct Side {
    host: Host,
    /// Where the flows go when they are moved.
    other: Engine,
    flow: Option<FlowId>,
    to_send: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    has_shut: bool,
    has_closed: bool,
    is_peer_done: bool,
    ended: Option<CloseReason>,
}

fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random(seed);
    (0..bytes).map(|_| random.next() as u8).collect()
}

impl Side {
    fn new(plan: &Plan, number: usize) -> Self {
        let config = Config {
            flows_max: 8,
            sent_max: 4096,
            ranges_max: 64,
            sack: plan.sack,
            timestamps: plan.timestamps,
            window_scaling: plan.scaling,
            mtu: plan.mtu,
            mtu_probing: plan.probing,
            mtu_floor: 576,
            path_mtu: if plan.probing { 576 } else { u16::MAX },
            ..Config::default()
        };
        let other = Engine::new(config.clone(), [number as u8; 16], Nanos::ZERO);
        let mut host = Host::new(config, &plan.options, number as u8, Nanos::ZERO);
        host.sink.room = plan.room;
        Self {
            host,
            other,
            flow: None,
            to_send: content(plan.seed ^ number as u64, plan.bytes[number]),
            sent: 0,
            received: Vec::new(),
            has_shut: false,
            has_closed: false,
            is_peer_done: false,
            ended: None,
        }
    }

    /// Moves all flows to the other engine, a group after the other.
    fn hand_over(&mut self, now: Nanos) {
        std::mem::swap(&mut self.host.engine, &mut self.other);
        let (new, old) = (&mut self.host.engine, &mut self.other);
        let (mut detached, mut names) = (Detached::default(), BTreeMap::new());
        for group in 0..4 {
            old.detach_group(FlowGroup(group), 4, |_| true, &mut detached);
            let attached = new.attach_group(now, &mut detached, |old, new| {
                names.insert(old, new);
            });
            assert_eq!(attached, Ok(()));
        }
        assert_eq!((old.flows_in_use(), old.records_in_use()), (0, (0, 0)), "nothing stays");
        let packets = self.host.sink.packets.len();
        old.transmit(now, &mut self.host.rings, &mut self.host.sink);
        assert_eq!(self.host.sink.packets.len(), packets, "nothing is sent from where they were");
        assert_eq!(old.next_deadline(), None, "no timer stays");
        for rings in [&mut self.host.rings.receive, &mut self.host.rings.send] {
            let moved = std::mem::take(rings).into_iter();
            *rings = moved.filter_map(|(id, ring)| Some((*names.get(&id)?, ring))).collect();
        }
        self.flow = self.flow.map(|flow| names.get(&flow).copied().unwrap_or(flow));
        for event in &mut self.host.sink.events {
            let (Event::Connected { flow, .. }
            | Event::Readable { flow }
            | Event::Writable { flow }
            | Event::PeerClosed { flow }
            | Event::Urgent { flow }
            | Event::Closed { flow, .. }) = event;
            *flow = names.get(flow).copied().unwrap_or(*flow);
        }
    }

    /// Whether the application could go on at once.
    fn can_act(&mut self) -> bool {
        let Some(flow) = self.flow.filter(|_| self.ended.is_none()) else { return false };
        self.host.engine.readable(flow).bytes > 0
            || (self.sent < self.to_send.len() && self.host.engine.room(flow).bytes > 0)
    }

    /// Lets the application do what it can.
    fn act(&mut self, plan: &Plan, may_read: bool) {
        while let Some(event) = self.host.sink.events.pop_front() {
            match event {
                Event::Connected { flow, .. } => self.flow = Some(flow),
                Event::PeerClosed { .. } => self.is_peer_done = true,
                Event::Closed { reason, .. } => {
                    assert!(self.ended.is_none(), "a flow ends once");
                    self.ended = Some(reason);
                }
                Event::Readable { .. } | Event::Writable { .. } | Event::Urgent { .. } => {}
            }
        }
        let Some(flow) = self.flow else { return };
        if self.ended.is_some() {
            return;
        }
        let until = self.to_send.len().min(self.sent + plan.chunk);
        let rest = self.to_send[self.sent..until].to_vec();
        self.sent += self.host.write(flow, &rest);
        if self.sent == self.to_send.len() && !self.has_shut {
            self.has_shut = true;
            self.host.engine.shutdown(flow).expect("it is open");
        }
        if may_read {
            let data = self.host.read(flow, plan.chunk);
            self.received.extend(data);
        }
        if self.has_shut && self.host.engine.is_at_end(flow) && !self.has_closed {
            assert!(self.is_peer_done, "the end is told of");
            self.has_closed = true;
            self.host.engine.close(flow, &mut self.host.sink).expect("it was not closed");
        }
    }
}

/// Runs a plan to its end; returns the two sides and how long it took.
fn run(plan: &Plan) -> ([Side; 2], Nanos) {
    const ENDS: [[&str; 2]; 2] =
        [["10.0.0.1:40000", "10.0.0.2:7"], ["[fd00::1]:40000", "[fd00::2]:7"]];
    let [client_end, server_end] = ENDS[usize::from(plan.is_v6)].map(|end| end.parse().unwrap());
    let mut sides = [Side::new(plan, 0), Side::new(plan, 1)];
    let server = &mut sides[1];
    let mut random = Random(plan.seed);
    let mut now = Nanos::ZERO;
    for engine in [&mut server.host.engine, &mut server.other] {
        engine.listen(server_end, plan.backlog, plan.options).unwrap();
    }
    let connected =
        sides[0].host.engine.connect(now, client_end, server_end, plan.options, 0).unwrap();
    sides[0].flow = Some(connected);
    // By time of arrival, then in the order in which they were sent.
    let mut link: BTreeMap<(Nanos, u64), (usize, Packet)> = BTreeMap::new();
    let mut count = 0;
    let mut busy_until = [Nanos::ZERO; 2];
    let mut next_read = Nanos::ZERO;
    for _ in 0..200_000 {
        let may_read = now >= next_read;
        if may_read {
            next_read = now + plan.pause;
        }
        for (number, side) in sides.iter_mut().enumerate() {
            if random.chance(plan.moved) {
                side.hand_over(now);
            }
            side.host.turn(now);
            side.act(plan, may_read || plan.pause == Nanos::ZERO);
            side.host.turn(now);
            while let Some(packet) = side.host.sink.packets.pop_front() {
                let weather = &plan.weather;
                if random.chance(weather.lost) {
                    continue;
                }
                let start = now.max(busy_until[number]);
                // With the headers of Ethernet and IP.
                let bits = (packet.bytes.len() as u64 + 34) * 8;
                if let Some(nanos) = (bits * 1000).checked_div(weather.megabits) {
                    if start.since(now) > weather.queue {
                        continue;
                    }
                    busy_until[number] = start + Nanos(nanos);
                }
                let copies = 1 + usize::from(random.chance(weather.repeated));
                for _ in 0..copies {
                    let mut packet = packet.clone();
                    if random.chance(weather.corrupted) {
                        let at = random.next() as usize % packet.bytes.len();
                        packet.bytes[at] ^= 1 << (random.next() % 8);
                    }
                    if packet.ecn != 0 && random.chance(weather.marked) {
                        packet.ecn = tcp::CE;
                    }
                    let jitter = random.next() % (weather.jitter.0 + 1);
                    count += 1;
                    link.insert(
                        (start + weather.delay + Nanos(jitter), count),
                        (1 - number, packet),
                    );
                }
            }
        }
        if sides.iter().all(|side| side.host.engine.flows_in_use() == 0) && link.is_empty() {
            sides.iter_mut().for_each(|side| side.act(plan, false));
            return (sides, now);
        }
        for side in &sides {
            let is_all_sent = side.host.engine.next_deadline() != Some(Nanos::ZERO);
            assert!(is_all_sent || plan.room < usize::MAX, "whoever takes all has sent all");
        }
        let deadlines = sides.iter().filter_map(|side| side.host.engine.next_deadline());
        let deadlines: Vec<Nanos> = deadlines.collect();
        let arrival = link.keys().next().map(|(at, _)| *at);
        let pause = sides.iter().any(|side| side.flow.is_some() && side.ended.is_none());
        let pause = (pause && plan.pause > Nanos::ZERO).then_some(next_read);
        let is_full = deadlines.contains(&Nanos::ZERO);
        let eager = plan.pause == Nanos::ZERO && sides.iter_mut().any(Side::can_act);
        let eager = (eager || is_full).then(|| now + Nanos::from_micros(1));
        let next = deadlines
            .into_iter()
            .filter(|at| *at > Nanos::ZERO)
            .chain(arrival)
            .chain(pause)
            .chain(eager)
            .min();
        let Some(next) = next else {
            panic!("stuck at {now}: {:?}", sides.map(|side| (side.sent, side.received.len())));
        };
        now = now.max(next);
        while let Some(entry) = link.first_entry()
            && entry.key().0 <= now
        {
            let (to, packet) = entry.remove();
            sides[to].host.receive(now, &packet);
        }
    }
    for side in &sides {
        let engine = &side.host.engine;
        let state = side.flow.and_then(|flow| engine.state(flow));
        let counts: Vec<_> = engine.counters().iter().filter(|(_, count)| *count > 0).collect();
        eprintln!("{state:?} {:?} {counts:?}", engine.next_deadline());
    }
    panic!("no end at {now}: {:?}", sides.map(|side| (side.sent, side.received.len(), side.ended)));
}

/// What must hold after every run.
fn check(plan: &Plan) -> ([Side; 2], Nanos) {
    let (sides, took) = run(plan);
    let [client, server] = &sides;
    if client.received != server.to_send || server.received != client.to_send {
        let first_wrong = client.received.iter().zip(&server.to_send).position(|(a, b)| a != b);
        eprintln!(
            "{:?}",
            (client.received.len(), server.received.len(), first_wrong, client.ended, server.ended)
        );
        eprintln!("{:?}\n{:?}", client.host.engine.counters(), server.host.engine.counters());
    }
    assert!(client.received == server.to_send, "the client has every byte once and in order");
    assert!(server.received == client.to_send, "the server has every byte once and in order");
    let ended = sides.each_ref().map(|side| side.ended);
    assert_eq!(ended, [Some(CloseReason::Finished); 2]);
    for side in &sides {
        assert_eq!(side.host.engine.records_in_use(), (0, 0), "all records came back");
    }
    (sides, took)
}

fn plan(bytes: [usize; 2], weather: Weather) -> Plan {
    Plan {
        seed: 1,
        weather,
        bytes,
        chunk: 1 << 16,
        pause: Nanos::ZERO,
        options: FlowOptions::default(),
        sack: true,
        timestamps: true,
        scaling: true,
        mtu: 1500,
        probing: false,
        backlog: 8,
        is_v6: false,
        room: usize::MAX,
        moved: 0,
    }
}

#[test]
fn a_transfer_over_a_fair_link_sends_nothing_twice() {
    let (sides, _) = check(&plan([300_000, 200_000], FAIR));
    for side in &sides {
        let counters = side.host.engine.counters();
        assert_eq!(
            (counters.retransmitted, counters.timeouts, counters.duplicate_bytes),
            (0, 0, 0)
        );
    }
}

/// Goodput of twenty megabytes over 20 ms and 100 Mb/s, in Mb/s.
fn goodput(congestion: Algorithm, lost: u32) -> u64 {
    let half = Nanos::from_millis(10);
    let weather = Weather { delay: half, lost, megabits: 100, queue: half + half, ..FAIR };
    let options = FlowOptions {
        receive_ring_log2: 21,
        send_ring_log2: 21,
        congestion,
        ..FlowOptions::default()
    };
    let bytes = 20_000_000;
    let mut plan = Plan { options, chunk: 1 << 21, ..plan([bytes, 0], weather) };
    plan.seed = 7;
    let (_, took) = check(&plan);
    // The client, which closes first, ends with TIME-WAIT.
    let took = took - Config::default().time_wait;
    bytes as u64 * 8 * 1000 / took.0
}

#[test]
fn a_bulk_transfer_fills_a_bottleneck_whatever_its_congestion_control() {
    for congestion in [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Dctcp] {
        let megabits = goodput(congestion, 0);
        assert!(megabits >= 80, "{congestion:?}: {megabits} Mb/s of 100");
    }
}

#[test]
fn timely_fills_the_path_of_a_data_centre_without_a_loss() {
    let options = FlowOptions {
        receive_ring_log2: 21,
        send_ring_log2: 21,
        congestion: Algorithm::Timely,
        ..FlowOptions::default()
    };
    let delay = Nanos::from_micros(50);
    // The queue takes 2 ms; the controls above would fill it.
    let weather = Weather { delay, megabits: 1000, queue: Nanos::from_millis(2), ..FAIR };
    let bytes = 20_000_000;
    let plan = Plan { options, chunk: 1 << 21, ..plan([bytes, 0], weather) };
    let (sides, took) = check(&plan);
    let took = took - Config::default().time_wait;
    let megabits = bytes as u64 * 8 * 1000 / took.0;
    assert!(megabits >= 700, "{megabits} Mb/s of 1000");
    assert_eq!(sides[0].host.engine.counters().retransmitted, 0);
}

#[test]
fn random_loss_costs_no_more_than_the_formula_of_mathis_says() {
    for congestion in [Algorithm::NewReno, Algorithm::Cubic] {
        // 1.22 * MSS / (RTT * sqrt(loss)), for one in a hundred: 7 Mb/s.
        let megabits = goodput(congestion, 10);
        assert!(megabits >= 6, "{congestion:?}: {megabits} Mb/s");
    }
}

fn weather() -> impl Strategy<Value = Weather> {
    // Worse than that, and a side may give up, or outlive the other's TIME-WAIT, with good reason.
    let share = |max: u32| prop_oneof![2 => Just(0), 2 => 1..max / 4, 1 => max / 4..max];
    let jitter = prop_oneof![Just(0), 0_u64..30];
    (1_u64..50, jitter, share(120), share(250), share(60), share(250)).prop_map(
        |(delay, jitter, lost, repeated, corrupted, marked)| Weather {
            delay: Nanos::from_millis(delay),
            jitter: Nanos::from_millis(jitter),
            lost,
            repeated,
            corrupted,
            marked,
            ..FAIR
        },
    )
}

fn options() -> impl Strategy<Value = FlowOptions> {
    let algorithm = prop_oneof![
        Just(Algorithm::NewReno),
        Just(Algorithm::Cubic),
        Just(Algorithm::Dctcp),
        Just(Algorithm::Timely),
    ];
    (8_u8..19, 8_u8..19, algorithm, any::<[bool; 3]>()).prop_map(
        |(receive_ring_log2, send_ring_log2, congestion, [ecn, no_delay, pacing])| FlowOptions {
            receive_ring_log2,
            send_ring_log2,
            congestion,
            ecn,
            no_delay,
            pacing,
            ..FlowOptions::default()
        },
    )
}

prop_compose! {
    fn any_plan()(
        seed: u64,
        weather in weather(),
        options in options(),
        bytes in [0_usize..60_000, 0_usize..60_000],
        chunk in prop_oneof![1_usize..100, 1000_usize..100_000],
        pause in prop_oneof![3 => Just(0), 1 => 1_u64..200],
        (sack, timestamps, scaling) in any::<(bool, bool, bool)>(),
        (mtu, probing) in (prop_oneof![Just(1500_u16), 576_u16..9000], any::<bool>()),
        backlog in prop_oneof![Just(8_u32), Just(0)],
        is_v6: bool,
        room in prop_oneof![3 => Just(usize::MAX), 1 => 1_usize..5],
        moved in prop_oneof![2 => Just(0), 1 => 1_u32..300],
    ) -> Plan {
        // Byte by byte over a bad link takes for ever, even in virtual time.
        let chunk = chunk.max(bytes[0].max(bytes[1]) / 500).max(1);
        // A cookie is opened by the first acknowledgement; what overtakes it is refused.
        let is_orderly = weather.jitter == Nanos::ZERO && weather.lost + weather.corrupted == 0;
        let backlog = if is_orderly && moved == 0 { backlog } else { 8 };
        Plan {
            seed, weather, bytes, chunk, pause: Nanos::from_millis(pause), options,
            sack, timestamps, scaling, mtu, probing, backlog, is_v6, room, moved,
        }
    }
}

#[test]
fn a_transfer_whose_flows_move_in_every_third_round_loses_nothing_and_sends_nothing_twice() {
    let plan = Plan { moved: 333, ..plan([300_000, 200_000], FAIR) };
    let (sides, _) = check(&plan);
    for side in &sides {
        let counters = [side.host.engine.counters(), side.other.counters()];
        assert!(counters.iter().all(|counters| counters.attached > 3), "{counters:?}");
        for counters in counters {
            let twice = (counters.retransmitted, counters.timeouts, counters.duplicate_bytes);
            assert_eq!(twice, (0, 0, 0));
        }
    }
}

proptest! {
    #[test]
    fn whatever_the_link_does_every_byte_arrives_once_and_in_order(plan in any_plan()) {
        check(&plan);
    }
}
