//! Connections to services inside the data path, from an engine at the other end of a wire in
//! memory.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use base::{BURST, Nanos, WorkerId};
use datapath::{Dispatcher, DispatcherConfig, DispatcherPort, Listeners, SteeringConfig, Worker};
use policy::steer::{self, SteerConfig};
use policy::{Control, ControlConfig};
use port::Port;
use port::memory::{MemoryPort, wire as memory_wire};
use shm::{Batch, Doorbell, Frame, FramePool, PoolConfig};
use tcp::{
    Buffers, CloseReason, Config, Engine, Event, FlowId, FlowOptions, Incoming, Output, Piece,
    ReadPiece, Segment,
};
use wire::{FlowKey, Outcome, Toeplitz};

use crate::{
    BuiltIn, CommandQueue, Exchange, RingLimits, ServiceKind, SocketCounts, SocketJob,
    SocketJobConfig,
};

pub(super) const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(super) const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const RING: usize = 1 << 16;

/// The client's rings, events and frames on their way out.
#[derive(Default)]
pub(super) struct Sink {
    receive: BTreeMap<FlowId, Vec<u8>>,
    send: BTreeMap<FlowId, Vec<u8>>,
}

impl Buffers for Sink {
    fn receive_ring(&mut self, flow: FlowId) -> Piece<'_> {
        self.receive.entry(flow).or_insert_with(|| vec![0; RING]).into()
    }

    fn send_ring(&self, flow: FlowId) -> ReadPiece<'_> {
        self.send.get(&flow).map(ReadPiece::from).unwrap_or_default()
    }
}

#[derive(Default)]
pub(super) struct Said {
    pub(super) events: Vec<Event>,
    frames: Vec<Vec<u8>>,
}

impl Output for Said {
    fn segment(&mut self, segment: &Segment<'_>) -> bool {
        let mut frame = [&OUR_MAC[..], &CLIENT_MAC[..], &[8, 0]].concat();
        let (SocketAddr::V4(from), SocketAddr::V4(to)) =
            (segment.key.source(), segment.key.destination())
        else {
            panic!("the client speaks IPv4")
        };
        let total = (20 + segment.len()) as u16;
        let mut ip = [0; 20];
        (ip[0], ip[6], ip[8], ip[9]) = (0x45, 0x40, 64, 6);
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[12..16].copy_from_slice(&from.ip().octets());
        ip[16..20].copy_from_slice(&to.ip().octets());
        let sum = wire::checksum::of(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(ip);
        let at = frame.len();
        frame.resize(at + segment.len(), 0);
        assert_eq!(segment.write(&mut frame[at..]), Some(segment.len()));
        self.frames.push(frame);
        true
    }

    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// A client at one end of a wire, services at the other.
pub(super) struct Bench {
    pub(super) port: MemoryPort,
    pub(super) engine: Engine,
    pub(super) sink: Sink,
    pub(super) said: Said,
    pub(super) closed: Vec<(FlowId, CloseReason)>,
    /// Flows that came to a listener of the client.
    pub(super) accepted: Vec<FlowId>,
    pub(super) dispatcher: Dispatcher<MemoryPort>,
    pub(super) workers: Vec<(WorkerId, Worker<BuiltIn>)>,
    counts: Vec<SocketCounts>,
    config: SocketJobConfig,
    exchange: Exchange,
    toeplitz: Toeplitz,
    pub(super) now: Nanos,
}

impl Bench {
    fn new(service: ServiceKind, workers: usize) -> Self {
        Self::with_flows(service, workers, 512)
    }

    /// With that many flows for each worker, at most.
    fn with_flows(service: ServiceKind, workers: usize, flows_max: u32) -> Self {
        Self::with_command_queue(service, workers, flows_max, None)
    }

    /// With sockets for applications.
    pub(super) fn with_command_queue(
        service: ServiceKind,
        workers: usize,
        flows_max: u32,
        command_queue: Option<CommandQueue>,
    ) -> Self {
        let pool = FramePool::new(PoolConfig { frames: 2048, chunk_bytes: 2048, numa_node: None });
        let (port, server) = memory_wire(1024);
        let listen = ["tcp:10.0.0.2:7", "udp:10.0.0.2:7"];
        let listen = listen.iter().map(|text| text.parse().expect("a listener")).collect();
        let hash_key = Toeplitz::MICROSOFT_KEY;
        let config = DispatcherConfig {
            steering: SteeringConfig { groups: 128, ..SteeringConfig::default() },
            ring: 256,
            hash_key,
        };
        let dispatcher_ports = vec![DispatcherPort::new(server, OUR_MAC)];
        let pool = pool.expect("four MiB fit");
        let dispatcher =
            Dispatcher::new(&config, dispatcher_ports, pool, Listeners::new(listen), |groups| {
                let steer = steer::by_name("sticky", SteerConfig { groups, seed: 1 });
                Control::new(ControlConfig::default(), steer.expect("a policy"), groups)
            });
        let flow = FlowOptions { receive_limit_log2: 18, ..FlowOptions::default() };
        let stream = SocketJobConfig {
            engine: Config { flows_max, hash_key, ..Config::default() },
            secret: [5; 16],
            service,
            listeners: match &command_queue {
                None => vec!["10.0.0.2:7".parse().expect("an address")],
                Some(_) => Vec::new(),
            },
            backlog: 64,
            flow,
            rings: RingLimits { receive_log2: 18, send_log2: 18, bytes_max: 1 << 28 },
            joins: false,
            command_queue,
        };
        let now = Nanos::from_secs(1);
        let mut bench = Self {
            port,
            engine: Engine::new(Config { hash_key, ..Config::default() }, [3; 16], now),
            sink: Sink::default(),
            said: Said::default(),
            closed: Vec::new(),
            accepted: Vec::new(),
            dispatcher: dispatcher.expect("128 groups are possible"),
            workers: Vec::new(),
            counts: Vec::new(),
            config: stream,
            exchange: Exchange::new(),
            toeplitz: Toeplitz::new(hash_key),
            now,
        };
        for _ in 0..workers {
            bench.spawn();
        }
        bench
    }

    /// Workers that have ended go, before another one has their number.
    pub(super) fn reap(&mut self) {
        let retired = self.dispatcher.steering_mut().take_retired();
        self.workers.retain(|(id, _)| !retired.contains(id));
    }

    pub(super) fn spawn(&mut self) {
        self.reap();
        let new = self.dispatcher.add_worker(Arc::new(Doorbell::new()), Arc::new(|| ()));
        let new = new.expect("there are ids");
        let (owners, counts) = (self.dispatcher.steering_mut().share_owners(), SocketCounts::new());
        let exchange = self.exchange.clone();
        let stream =
            SocketJob::new(new.id, &self.config, exchange, owners, counts.clone(), self.now);
        let stream = stream.expect("one listener");
        self.counts.push(counts);
        self.workers.push((new.id, new.employ(BuiltIn::SocketJob(Box::new(stream)))));
    }

    pub(super) fn connect(&mut self) -> FlowId {
        let [local, remote] =
            ["10.0.0.1:0", "10.0.0.2:7"].map(|at| at.parse().expect("an address"));
        let options = FlowOptions::default();
        let flow = self.engine.connect(self.now, local, remote, options, 0).expect("a free port");
        self.sink.send.insert(flow, vec![0; RING]);
        flow
    }

    /// One turn of everybody, 100 microseconds long.
    pub(super) fn turn(&mut self) {
        self.say();
        self.turn_of_data_path();
        self.hear();
    }

    /// What the client has to say is lost on its way.
    pub(super) fn lose_said(&mut self) {
        self.engine.expire(self.now, &mut self.said);
        self.engine.transmit(self.now, &mut self.sink, &mut self.said);
        self.said.frames.clear();
    }

    /// A packet goes in with the next of the client's.
    pub(super) fn inject(&mut self, packet: Vec<u8>) {
        self.said.frames.push(packet);
    }

    /// Time passes in which nothing happens.
    pub(super) fn pass_time(&mut self, time: Nanos) {
        self.now += time;
    }

    /// The client says what it has to say.
    pub(super) fn say(&mut self) {
        self.engine.expire(self.now, &mut self.said);
        self.engine.transmit(self.now, &mut self.sink, &mut self.said);
        let (_, pool) = self.dispatcher.ports_and_pool();
        for packet in self.said.frames.drain(..) {
            let Some(mut frame) = pool.take() else { continue };
            assert!(frame.fill(&packet));
            let mut batch = Batch::new();
            batch.push(frame);
            self.port.tx(pool, &mut batch, self.now);
            batch.drain(..).for_each(|frame| pool.give(frame));
        }
    }

    pub(super) fn turn_of_data_path(&mut self) {
        self.now += Nanos::from_micros(100);
        for _ in 0..2 {
            self.dispatcher.step(self.now);
            for (_, worker) in &mut self.workers {
                worker.step(self.now);
            }
        }
        self.reap();
        self.dispatcher.step(self.now);
    }

    /// The client takes in what has come.
    pub(super) fn hear(&mut self) {
        let (_, pool) = self.dispatcher.ports_and_pool();
        let mut batch = Batch::new();
        while self.port.rx(pool, &mut batch, self.now) > 0 {
            let incoming: Vec<_> =
                batch.iter().map(|frame| incoming(frame, &self.toeplitz)).collect();
            self.engine.receive(self.now, &incoming, &mut self.sink, &mut self.said);
            batch.drain(..).for_each(|frame| pool.give(frame));
        }
        for event in &self.said.events {
            match *event {
                Event::Closed { flow, reason } => self.closed.push((flow, reason)),
                Event::Connected { flow, listener: Some(_) } => {
                    self.sink.send.insert(flow, vec![0; RING]);
                    self.accepted.push(flow);
                }
                _ => {}
            }
        }
        self.said.events.clear();
    }

    /// Packets of the client's own making go in, and what comes back is not for its engine.
    pub(super) fn pass(&mut self, packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        self.said.frames = packets;
        self.say();
        self.turn_of_data_path();
        let (_, pool) = self.dispatcher.ports_and_pool();
        let (mut batch, mut came) = (Batch::new(), Vec::new());
        while self.port.rx(pool, &mut batch, self.now) > 0 {
            came.extend(batch.iter().map(|frame| frame.bytes().to_vec()));
            batch.drain(..).for_each(|frame| pool.give(frame));
        }
        came
    }

    pub(super) fn turns(&mut self, turns: usize) {
        for _ in 0..turns {
            self.turn();
        }
    }

    /// Writes as much of `bytes` as there is room for; how much.
    pub(super) fn write(&mut self, flow: FlowId, bytes: &[u8]) -> usize {
        let room = self.engine.room(flow);
        let count = bytes.len().min(room.bytes as usize);
        let ring = self.sink.send.get_mut(&flow).expect("made when it was opened");
        for (at, byte) in bytes[..count].iter().enumerate() {
            ring[(room.at + at) % RING] = *byte;
        }
        self.engine.send(flow, count as u32).expect("there is room");
        count
    }

    /// Reads everything that has come.
    pub(super) fn read(&mut self, flow: FlowId) -> Vec<u8> {
        let unread = self.engine.readable(flow);
        let ring = self.sink.receive_ring(flow).read().to_vec();
        let bytes = (0..unread.bytes as usize).map(|at| ring[(unread.at + at) % RING]).collect();
        self.engine.consume(flow, unread.bytes).expect("it was asked how much there is");
        bytes
    }

    pub(super) fn count(&self, name: &str) -> u64 {
        let all = self.counts.iter().flat_map(SocketCounts::iter);
        all.filter(|(other, ..)| *other == name).map(|(.., value)| value).sum()
    }
}

fn incoming<'a>(frame: &'a Frame, toeplitz: &Toeplitz) -> Incoming<'a> {
    let Outcome::Flow(flow) = wire::classify(frame.bytes()) else { panic!("no flow came") };
    assert!(wire::checksum::verify(frame.bytes(), &flow), "a wrong checksum");
    assert_eq!((&frame.bytes()[..6], &frame.bytes()[6..12]), (&CLIENT_MAC[..], &OUR_MAC[..]));
    let end = usize::from(flow.payload_offset + flow.payload_len);
    Incoming {
        key: flow.key,
        hash: toeplitz.hash(&flow.key),
        segment: &frame.bytes()[usize::from(flow.l4_offset)..end],
        ecn: 0,
        is_verified: false,
        route: 0,
    }
}

/// A conversation: what was written so far, and what came back.
pub(super) struct Talk {
    pub(super) flow: FlowId,
    key: FlowKey,
    pub(super) written: Vec<u8>,
    pub(super) read: Vec<u8>,
}

impl Bench {
    pub(super) fn talks(&mut self, count: usize) -> Vec<Talk> {
        let flows: Vec<_> = (0..count).map(|_| self.connect()).collect();
        let talk = |bench: &Self, flow| {
            let key = bench.engine.key(flow).expect("it lives").reversed();
            Talk { flow, key, written: Vec::new(), read: Vec::new() }
        };
        flows.into_iter().map(|flow| talk(self, flow)).collect()
    }

    /// Everybody writes a little more and reads what has come.
    pub(super) fn talk(&mut self, talks: &mut [Talk], round: usize) {
        for (number, talk) in talks.iter_mut().enumerate() {
            let more: Vec<u8> = (0..(7 * number + 31 * round) % 400)
                .map(|at| (at * number + round) as u8)
                .collect();
            let count = self.write(talk.flow, &more);
            talk.written.extend(&more[..count]);
            talk.read.extend(self.read(talk.flow));
        }
        self.turn();
    }

    /// Everybody closes; asserts that everything came back and every end was orderly.
    pub(super) fn finish(mut self, talks: Vec<Talk>) {
        for talk in &talks {
            self.engine.shutdown(talk.flow).expect("it lives");
        }
        let mut talks = talks;
        for _ in 0..200 {
            for talk in &mut talks {
                talk.read.extend(self.read(talk.flow));
            }
            self.turn();
        }
        for talk in &talks {
            assert_eq!(talk.read.len(), talk.written.len(), "{}", talk.key);
            assert!(talk.read == talk.written, "{} has other bytes", talk.key);
            assert!(self.engine.is_at_end(talk.flow), "{} was not closed", talk.key);
            self.engine.close(talk.flow, &mut self.said).expect("it lives");
        }
        self.turns(50);
        assert_eq!(self.closed.len(), talks.len());
        assert!(self.closed.iter().all(|(_, reason)| *reason == CloseReason::Finished));
        self.turns(2);
        assert_eq!(self.count("resets_sent"), 0);
    }
}

#[test]
fn an_echo_is_exact_while_workers_come_and_go_and_their_groups_move_with_their_flows() {
    let mut bench = Bench::new(ServiceKind::Echo, 1);
    let mut talks = bench.talks(60);
    for round in 0..400 {
        match round {
            20 | 60 | 200 => bench.spawn(),
            120 | 300 => {
                let last = bench.workers.last().expect("some are there").0;
                bench.dispatcher.steering_mut().remove_worker(last);
            }
            _ => {}
        }
        bench.talk(&mut talks, round);
    }
    // The counts are shown a millisecond late.
    bench.turns(20);
    assert!(bench.count("attached") > 60, "{} flows moved", bench.count("attached"));
    assert_eq!(bench.count("attached"), bench.count("detached"));
    bench.finish(talks);
}

#[test]
fn when_many_give_up_groups_at_once_each_flow_goes_to_its_new_worker_and_through_no_other() {
    let mut bench = Bench::new(ServiceKind::Echo, 3);
    let mut talks = bench.talks(60);
    for round in 0..20 {
        bench.talk(&mut talks, round);
    }
    bench.spawn();
    for round in 20..80 {
        bench.talk(&mut talks, round);
    }
    bench.turns(20);
    let table = bench.dispatcher.steering().table();
    let owner = |talk: &Talk| table.entry(table.group_of(bench.toeplitz.hash(&talk.key))).owner();
    let moved = talks.iter().filter(|talk| owner(talk) == Some(WorkerId(3))).count() as u64;
    assert!(moved > 5, "{moved} flows moved");
    assert_eq!(bench.count("attached"), moved);
    bench.finish(talks);
}

#[test]
fn a_pinned_flow_moves_alone_and_stays_when_its_group_moves() {
    let mut bench = Bench::new(ServiceKind::Echo, 2);
    let mut talks = bench.talks(40);
    for round in 0..20 {
        bench.talk(&mut talks, round);
    }
    let owner_of = |bench: &Bench, key: &FlowKey| {
        let table = bench.dispatcher.steering().table();
        table.entry(table.group_of(bench.toeplitz.hash(key))).owner().expect("it has packets")
    };
    let key = talks[3].key;
    let (id, hash) = (key.id(), bench.toeplitz.hash(&key));
    let home = owner_of(&bench, &key);
    let other = if home == WorkerId(0) { WorkerId(1) } else { WorkerId(0) };
    bench.dispatcher.steering_mut().pin_flow(id, hash, other).expect("nothing moves");
    for round in 20..60 {
        bench.talk(&mut talks, round);
    }
    assert_eq!(bench.count("attached"), 1, "one flow has moved");
    // Its home leaves, so that its group follows; then everything comes back.
    bench.dispatcher.steering_mut().remove_worker(home);
    for round in 60..120 {
        bench.talk(&mut talks, round);
    }
    bench.spawn();
    for round in 120..200 {
        bench.talk(&mut talks, round);
    }
    bench.dispatcher.steering_mut().unpin_flow(id, hash);
    for round in 200..260 {
        bench.talk(&mut talks, round);
    }
    bench.finish(talks);
}

#[test]
fn a_service_that_only_sends_gets_empty_frames_and_gives_all_of_them_back() {
    let mut bench = Bench::new(ServiceKind::Chargen, 2);
    let flows: Vec<_> = (0..4).map(|_| bench.connect()).collect();
    let mut read: BTreeMap<FlowId, Vec<u8>> = BTreeMap::new();
    for _ in 0..400 {
        bench.turn();
        for &flow in &flows {
            let bytes = bench.read(flow);
            read.entry(flow).or_default().extend(bytes);
        }
    }
    for (flow, bytes) in &read {
        assert!(bytes.len() > 1 << 20, "{flow:?} got only {} bytes", bytes.len());
        let line = |first: usize| (first..first + 72).map(|at| b' ' + (at % 95) as u8);
        let expected = (0..95).cycle().flat_map(|first| line(first).chain(*b"\r\n"));
        assert!(bytes.iter().copied().eq(expected.take(bytes.len())), "{flow:?} has other lines");
    }
    for &flow in &flows {
        bench.engine.abort(flow).expect("it lives");
    }
    bench.turns(20);
    let before = bench.dispatcher.pool().outstanding();
    assert!(before > 64, "both workers have some in reserve");
    bench.dispatcher.steering_mut().remove_worker(WorkerId(1));
    bench.turns(100);
    assert_eq!(bench.workers.len(), 1);
    let left = bench.dispatcher.pool().outstanding();
    assert!(left <= 2 * BURST, "one worker's reserve, and not {left} frames, is what is out");
}

#[test]
fn who_is_connected_when_the_data_path_ends_gets_a_reset() {
    let mut bench = Bench::new(ServiceKind::Discard, 1);
    let flow = bench.connect();
    bench.turns(10);
    bench.write(flow, b"still here");
    bench.turns(10);
    for (_, worker) in &mut bench.workers {
        worker.close();
    }
    bench.turns(10);
    assert_eq!(bench.closed, [(flow, CloseReason::Reset)]);
    let late = bench.connect();
    bench.turns(30);
    assert_eq!(bench.closed.last(), Some(&(late, CloseReason::Reset)));
}

#[test]
fn a_flow_that_moves_goes_on_sending_though_nothing_comes_for_it() {
    let mut bench = Bench::new(ServiceKind::Echo, 2);
    let flow = bench.connect();
    bench.turns(10);
    let key = bench.engine.key(flow).expect("it lives").reversed();
    bench.write(flow, b"answered once, lost, and answered again");
    bench.say();
    bench.turn_of_data_path();
    // What the service has said is lost on the way.
    let (_, pool) = bench.dispatcher.ports_and_pool();
    let mut lost = Batch::new();
    assert!(bench.port.rx(pool, &mut lost, bench.now) > 0, "the service has answered");
    lost.drain(..).for_each(|frame| pool.give(frame));
    let hash = bench.toeplitz.hash(&key);
    let table = bench.dispatcher.steering().table();
    let home = table.entry(table.group_of(hash)).owner().expect("it has had packets");
    bench.dispatcher.steering_mut().remove_worker(home);
    // Nobody says anything but the new owner, when its timer fires.
    let heard_at = (0..30_000).find(|_| {
        bench.turn_of_data_path();
        bench.port.waiting() > 0
    });
    assert!(heard_at.is_some(), "it has gone silent with the move");
    bench.hear();
    assert_eq!(bench.read(flow), b"answered once, lost, and answered again");
    assert_eq!((bench.workers.len(), bench.workers[0].0 == home), (1, false));
}

#[test]
fn flows_that_find_no_room_where_their_group_goes_wait_for_it_and_are_not_reset() {
    let mut bench = Bench::with_flows(ServiceKind::Echo, 2, 24);
    let mut talks = bench.talks(32);
    for round in 0..20 {
        bench.talk(&mut talks, round);
    }
    bench.dispatcher.steering_mut().remove_worker(WorkerId(1));
    for round in 20..200 {
        bench.talk(&mut talks, round);
    }
    bench.turns(20);
    let waiting = bench.count("detached") - bench.count("attached");
    assert!(waiting > 0, "32 flows have no room in a worker that takes 24");
    assert!(bench.count("flows_waiting") > 0, "what came for them was dropped and counted");
    assert_eq!((bench.closed.len(), bench.count("resets_sent")), (0, 0));
    // There is room again, with the next look or with what their peers repeat.
    bench.spawn();
    for round in 200..4000 {
        bench.talk(&mut talks, round);
    }
    bench.finish(talks);
}

#[test]
fn what_is_no_tcp_is_dropped_and_counted() {
    let mut bench = Bench::new(ServiceKind::Echo, 1);
    let packet = wire::build::UdpPacket {
        source_mac: CLIENT_MAC,
        destination_mac: OUR_MAC,
        source: "10.0.0.1:5000".parse().expect("an address"),
        destination: "10.0.0.2:7".parse().expect("an address"),
        payload: b"not for a stream",
        vlan: None,
    };
    let mut bytes = vec![0; packet.len()];
    assert!(packet.write(&mut bytes).is_some());
    bench.said.frames.push(bytes);
    bench.turns(30);
    assert_eq!((bench.count("not_tcp"), bench.count("received")), (1, 0));
    assert_eq!(bench.port.waiting(), 0, "nobody is answered");
}
