//! Whole packets through a whole dispatcher over a wire in memory: what comes back, what is
//! dropped, and which counter says so.

use std::net::SocketAddr;
use std::sync::Arc;

use base::Nanos;
use policy::steer::{self, SteerConfig};
use policy::{Control, ControlConfig};
use port::memory::{MemoryPort, WireConfig, wire_with};
use port::{LinkChecksums, Port};
use shm::{Batch, Doorbell, FlowState, Frame, FramePool, PoolConfig};
use wire::build::{TcpSegment, UdpPacket};
use wire::{Malformed, NotOurs, Outcome, Toeplitz, checksum};

use crate::counters::{CounterId, DispatchEvent, WorkerEvent};
use crate::{
    Dispatcher, DispatcherConfig, DispatcherPort, Echo, Job, Listeners, SteeringConfig, Synthetic,
    Worker,
};

mod capture;
mod stations;

const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// A client at one end of a wire, a dispatcher with its workers at the other.
struct Bench<J> {
    client: MemoryPort,
    dispatcher: Dispatcher<MemoryPort>,
    workers: Vec<Worker<J>>,
    now: Nanos,
}

impl Bench<Echo> {
    fn echo() -> Self {
        Self::new("sticky", 64, vec![Echo])
    }
}

impl<J: Job> Bench<J> {
    fn new(policy: &str, ring: usize, jobs: Vec<J>) -> Self {
        Self::with(policy, ring, jobs, |_| ())
    }

    fn with(
        policy: &str,
        ring: usize,
        jobs: Vec<J>,
        adjust: impl FnOnce(&mut DispatcherPort<MemoryPort>),
    ) -> Self {
        Self::over(WireConfig::default(), policy, ring, jobs, adjust)
    }

    fn over(
        wire: WireConfig,
        policy: &str,
        ring: usize,
        jobs: Vec<J>,
        adjust: impl FnOnce(&mut DispatcherPort<MemoryPort>),
    ) -> Self {
        let pool = FramePool::new(PoolConfig { frames: 256, chunk_bytes: 2048, numa_node: None })
            .expect("half a MiB fits");
        let (client, server) = wire_with(&WireConfig { capacity: 128, ..wire });
        let mut dispatcher_port = DispatcherPort::new(server, OUR_MAC);
        adjust(&mut dispatcher_port);
        let listen = ["udp:10.0.0.2:7", "tcp:10.0.0.2:7", "udp:[fd00::2]:7"];
        let listen = listen.map(|text| text.parse().expect("the test writes a listener"));
        let config = DispatcherConfig {
            steering: SteeringConfig { groups: 128, ..SteeringConfig::default() },
            ring,
            hash_key: Toeplitz::MICROSOFT_KEY,
        };
        let listeners = Listeners::new(listen.to_vec());
        let mut dispatcher =
            Dispatcher::new(&config, vec![dispatcher_port], pool, listeners, |groups| {
                let steer = steer::by_name(policy, SteerConfig { groups, seed: 1 });
                Control::new(ControlConfig::default(), steer.expect("a policy"), groups)
            })
            .expect("128 groups are possible");
        let mut spawn = |job| {
            let new = dispatcher.add_worker(Arc::new(Doorbell::new()), Arc::new(|| ()));
            new.expect("there are ids").employ(job)
        };
        let workers = jobs.into_iter().map(&mut spawn).collect();
        Self { client, dispatcher, workers, now: Nanos::from_millis(1) }
    }

    /// Sends frames from the client; what comes back after everybody had a turn.
    fn exchange(&mut self, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.send(packets);
        self.turn();
        self.replies()
    }

    fn send(&mut self, packets: &[Vec<u8>]) {
        let (_, pool) = self.dispatcher.ports_and_pool();
        for packet in packets {
            let mut frame = pool.take().expect("256 frames are enough here");
            assert!(frame.fill(packet));
            let mut batch = Batch::new();
            batch.push(frame);
            assert_eq!(self.client.tx(pool, &mut batch, self.now), 1);
        }
    }

    fn turn(&mut self) {
        for _ in 0..3 {
            self.now += Nanos::from_micros(60);
            self.dispatcher.step(self.now);
            for worker in &mut self.workers {
                worker.step(self.now);
            }
        }
        self.dispatcher.step(self.now);
    }

    fn replies(&mut self) -> Vec<Vec<u8>> {
        let (_, pool) = self.dispatcher.ports_and_pool();
        let mut batch = Batch::new();
        self.client.rx(pool, &mut batch, self.now);
        let bytes = batch.iter().map(|frame: &Frame| frame.bytes().to_vec()).collect();
        batch.drain(..).for_each(|frame| pool.give(frame));
        bytes
    }

    fn count(&self, counter: impl Into<CounterId>) -> u64 {
        self.dispatcher.counters().get(counter)
    }

    fn worker_count(&self, event: WorkerEvent) -> u64 {
        let steering = self.dispatcher.steering();
        let each = steering.workers().filter_map(|(id, ..)| steering.worker_counters(id));
        each.map(|counters| counters.get(event)).sum()
    }

    fn assert_all_home(&self) {
        assert_eq!(self.dispatcher.pool().outstanding(), 0, "a frame is lost");
    }
}

fn udp(source: &str, destination: &str, payload: &[u8], vlan: Option<u16>) -> Vec<u8> {
    let packet = UdpPacket {
        source_mac: CLIENT_MAC,
        destination_mac: OUR_MAC,
        source: source.parse().expect("the test writes an address"),
        destination: destination.parse().expect("the test writes an address"),
        payload,
        vlan,
    };
    let mut bytes = vec![0; packet.len()];
    assert_eq!(packet.write(&mut bytes), Some(bytes.len()));
    bytes
}

fn request(payload: &[u8]) -> Vec<u8> {
    udp("10.0.0.1:5000", "10.0.0.2:7", payload, None)
}

#[test]
fn an_echo_comes_back_turned_around_with_right_checksums() {
    let mut bench = Bench::echo();
    for (source, destination, vlan) in [
        ("10.0.0.1:5000", "10.0.0.2:7", None),
        ("[fd00::1]:5000", "[fd00::2]:7", None),
        ("10.0.0.1:5000", "10.0.0.2:7", Some(42)),
    ] {
        let replies = bench.exchange(&[udp(source, destination, b"hello", vlan)]);
        let [reply] = &replies[..] else { panic!("{source}: {} replies", replies.len()) };
        let Outcome::Flow(flow) = wire::classify(reply) else { panic!("{source}: not a flow") };
        assert_eq!(flow.key.source(), destination.parse::<SocketAddr>().expect("as above"));
        assert_eq!(flow.key.destination(), source.parse::<SocketAddr>().expect("as above"));
        assert_eq!((&reply[..6], &reply[6..12]), (&CLIENT_MAC[..], &OUR_MAC[..]));
        assert!(checksum::verify(reply, &flow));
        let payload = usize::from(flow.payload_offset);
        assert_eq!(&reply[payload..payload + usize::from(flow.payload_len)], b"hello");
    }
    bench.assert_all_home();
}

#[test]
fn every_packet_that_is_not_served_is_dropped_under_the_name_of_its_reason() {
    let good = request(b"x");
    let mut wrong_sum = good.clone();
    *wrong_sum.last_mut().expect("it has a payload") ^= 1;
    let mut bad_version = good.clone();
    bad_version[14] = 0x95;
    let mut fragment = good.clone();
    fragment[20] = 0x20;
    let mut lldp = good.clone();
    lldp[12..14].copy_from_slice(&[0x88, 0xcc]);
    let cases: [(&str, Vec<u8>, CounterId); 6] = [
        (
            "another port",
            udp("10.0.0.1:1", "10.0.0.2:8", b"x", None),
            DispatchEvent::NotListening.into(),
        ),
        ("a wrong checksum", wrong_sum, DispatchEvent::BadChecksum.into()),
        ("cut in its header", good[..20].to_vec(), counter_of(&good[..20])),
        ("an IP version that is none", bad_version.clone(), counter_of(&bad_version)),
        ("a fragment", fragment.clone(), counter_of(&fragment)),
        ("another protocol", lldp.clone(), counter_of(&lldp)),
    ];
    for (what, packet, counter) in cases {
        let mut bench = Bench::echo();
        assert!(bench.exchange(&[packet]).is_empty(), "{what} was answered");
        assert_eq!(bench.count(counter), 1, "{what} is not counted");
        assert_eq!(bench.count(DispatchEvent::Dispatched), 0, "{what} reached a worker");
        bench.assert_all_home();
    }
}

/// The counter of a packet that `classify` refuses.
fn counter_of(packet: &[u8]) -> CounterId {
    match wire::classify(packet) {
        Outcome::NotOurs(reason) => reason.into(),
        Outcome::Malformed(reason) => reason.into(),
        Outcome::Flow(flow) => panic!("{flow:?} is a flow"),
    }
}

#[test]
fn reasons_of_both_kinds_occur_in_the_cases_above() {
    let good = request(b"x");
    assert!(matches!(wire::classify(&good[..20]), Outcome::Malformed(_)));
    let mut fragment = good;
    fragment[20] = 0x20;
    assert!(matches!(wire::classify(&fragment), Outcome::NotOurs(NotOurs::Fragment)));
    assert!(!Malformed::ALL.is_empty());
}

#[test]
fn a_trusted_link_may_send_partial_checksums_and_the_answer_is_complete() {
    let mut partial = request(b"partial");
    let checksum_at = 14 + 20 + 6;
    partial[checksum_at..checksum_at + 2].copy_from_slice(&[0x12, 0x34]);
    let mut strict = Bench::echo();
    assert!(strict.exchange(&[partial.clone()]).is_empty());
    assert_eq!(strict.count(DispatchEvent::BadChecksum), 1);
    let jobs = vec![Echo];
    let mut trusting = Bench::with("sticky", 64, jobs, DispatcherPort::trust_link);
    let replies = trusting.exchange(&[partial]);
    let Outcome::Flow(flow) = wire::classify(&replies[0]) else { panic!("not a flow") };
    assert!(checksum::verify(&replies[0], &flow));
}

#[test]
fn a_kernel_at_the_other_end_may_leave_checksums_open_and_none_may_be_wrong() {
    let place = 14 + 20 + 6;
    let complete = request(b"partial");
    let Outcome::Flow(flow) = wire::classify(&complete) else { panic!("not a flow") };
    // What the kernel of a veth's other end leaves: the sum of the pseudo-header.
    let udp_bytes = (complete.len() - 34) as u16;
    let sum = checksum::Sum::ZERO.pseudo_of(&flow.key, udp_bytes).fold();
    let with = |field: u16| {
        let mut packet = complete.clone();
        packet[place..place + 2].copy_from_slice(&field.to_be_bytes());
        packet
    };
    let mut damaged = complete.clone();
    damaged[45] ^= 1;
    let may_be_open = |port: &mut DispatcherPort<_>| port.checksums = LinkChecksums::MayBeOpen;
    let mut bench = Bench::with("sticky", 64, vec![Echo], may_be_open);
    let replies = bench.exchange(&[with(sum), with(sum ^ 1), damaged, complete.clone()]);
    assert_eq!(bench.count(DispatchEvent::BadChecksum), 2, "neither open nor right");
    assert_eq!(replies.len(), 2);
    for reply in replies {
        let Outcome::Flow(flow) = wire::classify(&reply) else { panic!("not a flow") };
        assert!(checksum::verify(&reply, &flow), "the answer is complete");
    }
}

#[test]
fn arp_for_our_address_is_answered_and_for_another_is_not() {
    let ask = |target: [u8; 4]| {
        let mut frame = vec![0xff; 6];
        frame.extend(CLIENT_MAC);
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend(CLIENT_MAC);
        frame.extend([10, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        frame.extend(target);
        frame
    };
    let mut bench = Bench::echo();
    let replies = bench.exchange(&[ask([10, 0, 0, 2]), ask([10, 0, 0, 3])]);
    assert_eq!(replies.len(), 1);
    assert_eq!(&replies[0][..6], &CLIENT_MAC, "to the one who asked");
    assert_eq!(&replies[0][20..22], &[0, 2], "a reply");
    assert_eq!(&replies[0][22..28], &OUR_MAC);
    assert_eq!(&replies[0][28..32], &[10, 0, 0, 2]);
    assert_eq!(bench.count(DispatchEvent::ArpAnswered), 1);
    assert_eq!(bench.count(NotOurs::Arp), 1);
    bench.assert_all_home();
}

#[test]
fn a_full_ring_drops_and_counts_and_loses_no_frame() {
    let mut bench = Bench::new("sticky", 8, vec![Echo]);
    let packets: Vec<_> = (0..20).map(|number| request(&[number])).collect();
    bench.send(&packets);
    bench.dispatcher.step(bench.now);
    assert_eq!(bench.count(DispatchEvent::RingFull), 12);
    bench.turn();
    let replies = bench.replies();
    assert_eq!(replies.len(), 8);
    for (number, reply) in replies.iter().enumerate() {
        assert_eq!(usize::from(reply[42]), number, "the oldest survive, in order");
    }
    bench.assert_all_home();
}

#[test]
fn a_packet_of_our_own_goes_where_a_received_one_of_its_flow_would_go() {
    let mut bench = Bench::echo();
    assert!(bench.dispatcher.inject(|frame| frame.fill(&request(b"of our own")), bench.now));
    assert!(bench.dispatcher.inject(|_| false, bench.now), "there is none, and nothing to repeat");
    bench.turn();
    let replies = bench.replies();
    assert_eq!(replies.len(), 1, "the worker of its flow has answered");
    assert!(replies[0].ends_with(b"of our own"));
    assert_eq!(bench.count(DispatchEvent::Received), 0, "no port has received it");
    bench.assert_all_home();
}

#[test]
fn without_workers_packets_are_dropped_as_such() {
    let mut bench = Bench::<Echo>::new("sticky", 8, Vec::new());
    assert!(bench.exchange(&[request(b"x")]).is_empty());
    assert_eq!(bench.count(DispatchEvent::NoWorker), 1);
    bench.assert_all_home();
}

#[test]
fn tcp_is_refused_by_a_udp_job_and_counted() {
    let segment = TcpSegment {
        source_mac: CLIENT_MAC,
        destination_mac: OUR_MAC,
        source: "10.0.0.1:5000".parse().expect("an address"),
        destination: "10.0.0.2:7".parse().expect("an address"),
        sequence: 1,
        acknowledgement: 0,
        flags: wire::tcp::SYN,
        window: 1000,
        payload: b"",
        vlan: None,
    };
    let mut bytes = vec![0; segment.len()];
    assert!(segment.write(&mut bytes).is_some());
    let mut bench = Bench::echo();
    assert!(bench.exchange(&[bytes]).is_empty());
    assert_eq!(bench.worker_count(WorkerEvent::RefusedNotUdp), 1);
    bench.assert_all_home();
}

#[test]
fn synthetic_answers_requests_touches_state_and_refuses_the_rest() {
    let state = Arc::new(FlowState::new(2, 128).expect("a few bytes fit"));
    let job = Synthetic::new(Some(Arc::clone(&state)));
    let mut bench = Bench::new("sticky", 64, vec![job]);
    let payload =
        |iterations: u64, index: u64| [iterations.to_be_bytes(), index.to_be_bytes()].concat();
    let replies = bench.exchange(&[
        request(&payload(10, 7)),
        request(&payload(u64::MAX, 8)),
        request(b"too short"),
        udp("10.0.0.1:5001", "10.0.0.2:7", &payload(0, 9), None),
        udp("10.0.0.1:5002", "10.0.0.2:7", &payload(0, 10), None),
    ]);
    let indexes: Vec<u8> = replies.iter().map(|reply| reply[42 + 15]).collect();
    assert_eq!(indexes, [7, 9], "an answer is its request");
    assert_eq!(bench.worker_count(WorkerEvent::RefusedBadRequest), 2);
    assert_eq!(bench.worker_count(WorkerEvent::RefusedStateFull), 1);
    assert_eq!(bench.worker_count(WorkerEvent::FlowInTwoWorkers), 0);
    assert_eq!(state.flows(), 2);
    bench.assert_all_home();
}

#[test]
fn shared_spreads_even_one_flow_over_all_workers() {
    let jobs = (0..4).map(|_| Echo).collect();
    let mut bench = Bench::new("shared", 64, jobs);
    let packets: Vec<_> = (0..40).map(|number| request(&[number])).collect();
    assert_eq!(bench.exchange(&packets).len(), 40);
    let steering = bench.dispatcher.steering();
    for (id, ..) in steering.workers() {
        let counters = steering.worker_counters(id).expect("it is there");
        assert_eq!(counters.get(WorkerEvent::Packets), 10);
    }
}

#[test]
fn affinity_keeps_one_flow_on_one_worker() {
    let jobs = (0..4).map(|_| Echo).collect();
    let mut bench = Bench::new("sticky", 64, jobs);
    let packets: Vec<_> = (0..40).map(|number| request(&[number])).collect();
    let replies = bench.exchange(&packets);
    let numbers: Vec<u8> = replies.iter().map(|reply| reply[42]).collect();
    assert_eq!(numbers, (0..40).collect::<Vec<u8>>(), "in order");
    let steering = bench.dispatcher.steering();
    let busy = steering.workers().filter(|(id, ..)| {
        steering.worker_counters(*id).is_some_and(|counters| counters.get(WorkerEvent::Packets) > 0)
    });
    assert_eq!(busy.count(), 1);
}
