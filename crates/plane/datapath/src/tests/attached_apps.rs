//! Applications behind the real dispatcher: each gets its own, none can hurt another.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::{FlowGroup, Nanos, WorkerId};
use policy::steer::{self, SteerConfig};
use policy::{Control, ControlConfig};
use port::Port;
use port::memory::{MemoryPort, wire as memory_wire};
use proptest::prelude::*;
use shm::packets::{CoreGrantBits, Next, PacketEnd, PacketMemory, PacketServer, PacketSizes};
use shm::{Batch, CoreGrantControl, Frame, FramePool, Moving, PoolConfig, ProtocolViolation};
use wire::Toeplitz;
use wire::build::UdpPacket;

use crate::counters::DispatchEvent;
use crate::{
    AppDispatch, AppLimits, AttachmentId, DetachReason, Dispatcher, DispatcherConfig,
    DispatcherPort, Egress, Listener, Listeners, MigrateConfig, NewApp, SteeringConfig,
};

mod readdressed;
mod ready;

const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(super) const STALL: Nanos = Nanos::from_millis(100);

/// A dispatcher whose packets all go to applications.
pub(super) struct Harness {
    client: MemoryPort,
    pub(super) dispatcher: Dispatcher<MemoryPort>,
    pub(super) now: Nanos,
}

/// What is made for an application: the daemon's part of its core grants, and all of its own.
pub(super) struct Premises {
    pub(super) id: AttachmentId,
    pub(super) ends: Vec<PacketEnd>,
    memory: PacketMemory,
    pub(super) file: OwnedFd,
    pub(super) core_grants: Vec<CoreGrantControl>,
    pub(super) bits: CoreGrantBits,
}

/// An application: its id, its workers' ends, and how often they were woken.
struct Tenant {
    id: AttachmentId,
    ends: Vec<PacketEnd>,
    memory: PacketMemory,
    /// Its region as a file, to write anywhere.
    file: OwnedFd,
    wakes: Arc<AtomicUsize>,
}

fn listener(text: &str) -> Listener {
    text.parse().expect("the test writes a listener")
}

fn steering() -> SteeringConfig {
    SteeringConfig {
        groups: 128,
        overrides: 0,
        workers_max: 4,
        migrate: MigrateConfig { hold_packets: 64, slots: 8, ..MigrateConfig::default() },
        ..SteeringConfig::default()
    }
}

fn control(groups: usize) -> Control {
    let steer = steer::by_name("sticky", SteerConfig { groups, seed: 1 });
    Control::new(ControlConfig::default(), steer.expect("a policy"), groups)
}

impl Harness {
    pub(super) fn new() -> Self {
        let pool = FramePool::new(PoolConfig { frames: 512, chunk_bytes: 2048, numa_node: None })
            .expect("a MiB fits");
        let (client, server) = memory_wire(128);
        let config =
            DispatcherConfig { steering: steering(), ring: 64, hash_key: Toeplitz::MICROSOFT_KEY };
        let worker_queues = vec![DispatcherPort::new(server, OUR_MAC)];
        let dispatcher =
            Dispatcher::new(&config, worker_queues, pool, Listeners::default(), control);
        let dispatcher = dispatcher.expect("128 groups are possible");
        Self { client, dispatcher, now: Nanos::from_millis(1) }
    }

    fn attach(&mut self, listen: &[&str], workers: u32) -> Tenant {
        self.try_attach(listen, workers, 0, 0).expect("nobody listens there")
    }

    fn try_attach(
        &mut self,
        listen: &[&str],
        workers: u32,
        packets_per_s: u32,
        wakes_per_s: u32,
    ) -> Result<Tenant, String> {
        let wakes = Arc::new(AtomicUsize::new(0));
        let wake: crate::Wake = {
            let wakes = Arc::clone(&wakes);
            Arc::new(move || {
                wakes.fetch_add(1, Ordering::Relaxed);
            })
        };
        let limits = AppLimits { packets_per_s, wakes_per_s, stall: STALL };
        let all = (0..workers).map(|_| Arc::clone(&wake)).collect();
        let Premises { id, ends, memory, file, .. } = self.admit(listen, limits, all)?;
        Ok(Tenant { id, ends, memory, file, wakes })
    }

    /// An application with a worker for each wake-up.
    pub(super) fn admit(
        &mut self,
        listen: &[&str],
        limits: AppLimits,
        wakes: Vec<crate::Wake>,
    ) -> Result<Premises, String> {
        let workers = wakes.len() as u32;
        let sizes = PacketSizes {
            workers,
            ring_slots: 64,
            chunk_bytes: 2048,
            receive_chunks: 32,
            send_chunks: 8,
            handovers: 12,
        };
        let (server, worker_queues) = PacketServer::create(sizes).expect("100 KiB fit");
        let file = server.as_fd().try_clone_to_owned().expect("descriptors are left");
        let mapped = file.try_clone().expect("descriptors are left");
        let mut memory = PacketMemory::open(mapped).expect("it has just been made");
        let ends = (0..workers).map(|worker| memory.end(worker).expect("once each")).collect();
        let core_grants =
            (0..workers).map(|worker| server.core_grant(worker).expect("it is there")).collect();
        let bits = server.core_grant_bits();
        let listeners: Vec<Listener> = listen.iter().map(|text| listener(text)).collect();
        let new = NewApp {
            server,
            workers: worker_queues.into_iter().zip(wakes).collect(),
            egress: Egress::new(listeners.clone(), vec![OUR_MAC], Vec::new()),
            listeners,
            limits,
            steering: steering(),
        };
        let app_dispatch =
            Box::new(AppDispatch::new(new, control).expect("128 groups are possible"));
        let id =
            self.dispatcher.attach(app_dispatch).map_err(|(refused, _)| refused.to_string())?;
        Ok(Premises { id, ends, memory, file, core_grants, bits })
    }

    /// One packet of a flow from the outside.
    pub(super) fn send(&mut self, flow: u16, to: &str, payload: &[u8]) {
        let source = SocketAddr::from(([10, 0, 0, 1], 1000 + flow));
        let packet = udp(PEER_MAC, OUR_MAC, source, to.parse().expect("an address"), payload);
        let (_, pool) = self.dispatcher.ports_and_pool();
        let mut frame = pool.take().expect("512 frames are enough here");
        assert!(frame.fill(&packet));
        let mut batch = Batch::new();
        batch.push(frame);
        assert_eq!(self.client.tx(pool, &mut batch, self.now), 1);
    }

    fn turn(&mut self) {
        self.now += Nanos::from_micros(60);
        self.dispatcher.step(self.now);
    }

    /// What has come out, payloads only.
    pub(super) fn replies(&mut self) -> Vec<Vec<u8>> {
        self.frames().iter().map(|frame| frame[42..].to_vec()).collect()
    }

    fn frames(&mut self) -> Vec<Vec<u8>> {
        let (_, pool) = self.dispatcher.ports_and_pool();
        let mut batch = Batch::new();
        self.client.rx(pool, &mut batch, self.now);
        let bytes = batch.iter().map(|frame: &Frame| frame.bytes().to_vec()).collect();
        batch.drain(..).for_each(|frame| pool.give(frame));
        bytes
    }

    pub(super) fn count(&self, app: AttachmentId, event: DispatchEvent) -> u64 {
        self.dispatcher.counters_of(app).expect("it is attached").get(event)
    }

    /// Nothing is lost: every frame is at home or in the wire.
    pub(super) fn is_clean(&self) -> bool {
        self.dispatcher.pool().outstanding() == 0
    }
}

fn udp(
    from: [u8; 6],
    to: [u8; 6],
    source: SocketAddr,
    destination: SocketAddr,
    payload: &[u8],
) -> Vec<u8> {
    let packet = UdpPacket {
        source_mac: from,
        destination_mac: to,
        source,
        destination,
        payload,
        vlan: None,
    };
    let mut bytes = vec![0; packet.len()];
    packet.write(&mut bytes).expect("it is as long as it says");
    bytes
}

impl Tenant {
    /// Everything that worker `n` has been sent, answered with `f` of its payload.
    fn serve(&mut self, worker: usize) -> Vec<Vec<u8>> {
        let end = &mut self.ends[worker];
        let mut payloads = Vec::new();
        loop {
            match end.receive().expect("an honest daemon") {
                Next::Packet(mut frame) => {
                    payloads.push(frame.bytes()[42..].to_vec());
                    assert!(turn_around(&mut frame));
                    end.send(frame).expect("there is room");
                }
                Next::Detach(_) | Next::Attach(_) => {}
                Next::FramesOut | Next::Empty | Next::Retired => break,
            }
        }
        let _ = end.publish();
        payloads
    }

    fn serve_all(&mut self) -> usize {
        (0..self.ends.len()).map(|worker| self.serve(worker).len()).sum()
    }

    /// Sends a packet of its own making.
    fn send(&mut self, packet: &[u8]) {
        let end = &mut self.ends[0];
        let mut frame = end.take().expect("honest").expect("some are free");
        assert!(frame.fill(packet));
        end.send(frame).expect("there is room");
        let _ = end.publish();
    }
}

pub(super) fn turn_around(frame: &mut Frame) -> bool {
    crate::job::Job::packet(&mut crate::Echo, frame, Nanos::ZERO) == crate::Verdict::Transmit
}

#[test]
fn a_worker_that_gives_many_buffers_back_at_once_gets_its_share_of_a_turn_and_no_more() {
    let mut harness = Harness::new();
    let mut app = harness.attach(&["udp:10.77.0.2:7"], 4);
    // Whichever worker is looked at first, another one comes after it.
    for round in 0..8 {
        for _ in 0..32 {
            harness.send(round, "10.77.0.2:7", b"x");
        }
        harness.turn();
        let mut done = 0;
        for end in &mut app.ends {
            loop {
                match end.receive().expect("an honest daemon") {
                    Next::Packet(frame) => {
                        end.done(frame).expect("there is room");
                        done += 1;
                    }
                    Next::Detach(_) | Next::Attach(_) => {}
                    Next::FramesOut | Next::Empty | Next::Retired => break,
                }
            }
            let _ = end.publish();
        }
        assert_eq!(done, 32);
        harness.turn();
        assert_eq!(harness.count(app.id, DispatchEvent::Consumed), 32 * (u64::from(round) + 1));
    }
    assert!(harness.is_clean());
}

#[test]
fn a_web_server_and_a_cache_on_the_same_machine_each_get_only_theirs() {
    let mut harness = Harness::new();
    let mut web = harness.attach(&["udp:10.0.0.2:80"], 1);
    let mut cache = harness.attach(&["udp:10.0.0.2:11211"], 1);
    for flow in 0..20 {
        harness.send(flow, "10.0.0.2:80", b"GET /");
        harness.send(flow, "10.0.0.2:11211", b"get k");
    }
    harness.turn();
    let pages = web.serve(0);
    let values = cache.serve(0);
    assert_eq!((pages.len(), values.len()), (20, 20));
    assert!(pages.iter().all(|payload| payload == b"GET /"));
    assert!(values.iter().all(|payload| payload == b"get k"));
    harness.turn();
    assert_eq!(harness.replies().len(), 40, "and each answers its own");
    assert_eq!(harness.count(web.id, DispatchEvent::Dispatched), 20);
    assert_eq!(harness.count(cache.id, DispatchEvent::Dispatched), 20);
    assert_eq!(harness.count(AttachmentId::OWN, DispatchEvent::Dispatched), 0);
    assert!(harness.is_clean());
}

#[test]
fn each_flow_of_an_application_stays_with_one_worker_and_in_order() {
    let mut harness = Harness::new();
    let mut app = harness.attach(&["udp:10.0.0.2:7"], 4);
    let mut seen: Vec<Option<(usize, u8)>> = vec![None; 16];
    for round in 0..10_u8 {
        for flow in 0..16_u8 {
            harness.send(u16::from(flow), "10.0.0.2:7", &[flow, round]);
        }
        harness.turn();
        for worker in 0..4 {
            for payload in app.serve(worker) {
                let [flow, round] = payload[..] else { panic!("two bytes were sent") };
                let last = seen[usize::from(flow)].replace((worker, round));
                assert!(last.is_none_or(|(same, before)| same == worker && before < round));
            }
        }
        harness.turn();
        assert_eq!(harness.replies().len(), 16);
    }
    let mut used: Vec<usize> = seen.iter().flatten().map(|(worker, _)| *worker).collect();
    used.sort_unstable();
    used.dedup();
    assert!(used.len() > 1, "16 flows are not all on one of 4 workers");
}

#[test]
fn a_group_moves_between_two_workers_of_an_application_without_reordering() {
    let mut harness = Harness::new();
    let mut app = harness.attach(&["udp:10.0.0.2:7"], 2);
    while !harness.dispatcher.steering_of(app.id).expect("attached").is_settled() {
        harness.turn();
        app.serve_all();
    }
    harness.send(3, "10.0.0.2:7", b"0");
    harness.turn();
    let owner = app.ends.iter().position(PacketEnd::has_next).expect("somebody got it");
    let other = 1 - owner;
    let Next::Packet(mut first) = app.ends[owner].receive().expect("honest") else {
        panic!("sent")
    };
    let group = first.meta().group;
    let steering = harness.dispatcher.steering_of_mut(app.id).expect("attached");
    let (control, live) = steering.control_mut();
    control.pin(group, WorkerId(other as u16), live).expect("it is active");
    for number in [b"1", b"2"] {
        harness.turn();
        harness.send(3, "10.0.0.2:7", number);
    }
    harness.turn();
    assert!(!app.ends[other].has_next(), "held until the old owner is through");
    let next = app.ends[owner].receive().expect("honest");
    assert!(matches!(next, Next::FramesOut), "it has not completed what it has: {next:?}");
    assert!(turn_around(&mut first));
    app.ends[owner].send(first).expect("there is room");
    let next = app.ends[owner].receive().expect("honest");
    assert!(matches!(next, Next::Detach(Moving::Group(moved)) if moved == group), "{next:?}");
    harness.turn();
    assert!(!app.ends[other].has_next(), "it has not given the group up yet");
    assert!(matches!(app.ends[owner].receive(), Ok(Next::Empty)));
    let _ = app.ends[owner].publish();
    harness.turn();
    let next = app.ends[other].receive().expect("honest");
    assert!(matches!(next, Next::Attach(Moving::Group(moved)) if moved == group), "{next:?}");
    assert_eq!(app.serve(other), [b"1", b"2"]);
    harness.turn();
    assert_eq!(harness.replies(), [b"0", b"1", b"2"]);
    assert!(harness.is_clean());
}

#[test]
fn what_an_application_sends_in_anothers_name_is_dropped_as_spoofed() {
    let mut harness = Harness::new();
    let mut honest = harness.attach(&["udp:10.0.0.2:53"], 1);
    let mut hostile = harness.attach(&["udp:10.0.0.2:54"], 1);
    let peer: SocketAddr = "10.0.0.1:9".parse().expect("an address");
    let from =
        |source: &str, mac| udp(mac, PEER_MAC, source.parse().expect("an address"), peer, b"?");
    hostile.send(&from("10.0.0.2:54", OUR_MAC));
    hostile.send(&from("10.0.0.2:53", OUR_MAC));
    hostile.send(&from("10.0.0.3:54", OUR_MAC));
    hostile.send(&from("10.0.0.2:54", PEER_MAC));
    hostile.send(b"no packet at all, but forty-two bytes long");
    honest.send(&from("10.0.0.2:53", OUR_MAC));
    harness.turn();
    assert_eq!(harness.replies().len(), 2, "one of each in its own name");
    assert_eq!(harness.count(hostile.id, DispatchEvent::Spoofed), 3);
    assert_eq!(harness.count(hostile.id, DispatchEvent::AppNotAFlow), 1);
    assert_eq!(harness.count(honest.id, DispatchEvent::Spoofed), 0);
    assert!(harness.dispatcher.next_fault().is_none(), "spoofing is dropped, not punished more");
    assert!(harness.is_clean());
}

#[test]
fn an_application_that_violates_the_protocol_is_found_out_and_its_port_is_free_at_once() {
    let mut harness = Harness::new();
    let mut liar = harness.attach(&["udp:10.0.0.2:53"], 1);
    let mut other = harness.attach(&["udp:10.0.0.2:54"], 1);
    harness.send(1, "10.0.0.2:53", b"?");
    harness.turn();
    let Next::Packet(frame) = liar.ends[0].receive().expect("honest so far") else {
        panic!("sent")
    };
    liar.ends[0].forge([99; 8]);
    harness.turn();
    let (who, why) = harness.dispatcher.next_fault().expect("nobody sends that");
    assert_eq!((who, why), (liar.id, DetachReason::Violation(ProtocolViolation::Message)));
    assert!(harness.try_attach(&["udp:10.0.0.2:53"], 1, 0, 0).is_err(), "still its own");
    assert!(harness.dispatcher.detach(who, why, harness.now).is_some());
    assert_eq!(liar.memory.state(), why.code(), "it can read why");
    drop(frame);
    let mut next = harness.attach(&["udp:10.0.0.2:53"], 1);
    assert_ne!(next.id, liar.id, "an id is never used again");
    harness.send(1, "10.0.0.2:53", b"?");
    harness.send(1, "10.0.0.2:54", b"?");
    harness.turn();
    assert_eq!((next.serve_all(), other.serve_all()), (1, 1));
    harness.turn();
    assert_eq!(harness.replies().len(), 2);
    assert!(harness.dispatcher.detach(who, why, harness.now).is_none(), "it is gone");
    assert!(harness.is_clean());
}

#[test]
fn an_application_that_takes_nothing_loses_its_own_packets_and_then_its_place() {
    let mut harness = Harness::new();
    let stopped = harness.attach(&["udp:10.0.0.2:53"], 1);
    let mut other = harness.attach(&["udp:10.0.0.2:54"], 1);
    let rounds = STALL.0 / Nanos::from_micros(60).0 + 2;
    for _ in 0..rounds {
        harness.send(1, "10.0.0.2:53", b"?");
        harness.send(1, "10.0.0.2:54", b"?");
        harness.turn();
        assert_eq!(other.serve_all(), 1, "others go on");
        harness.turn();
        assert_eq!(harness.replies().len(), 1);
        if harness.dispatcher.next_fault().is_some() {
            break;
        }
    }
    assert_eq!(harness.dispatcher.next_fault(), Some((stopped.id, DetachReason::Stalled)));
    let lost = harness.count(stopped.id, DispatchEvent::AppNoBuffer);
    assert!(lost > 0, "what did not fit was dropped and counted");
    harness.dispatcher.detach(stopped.id, DetachReason::Stalled, harness.now);
    assert!(harness.is_clean());
}

#[test]
fn packets_held_for_an_application_go_home_when_it_is_detached() {
    let mut harness = Harness::new();
    let app = harness.attach(&["udp:10.0.0.2:53"], 2);
    harness.send(1, "10.0.0.2:53", b"?");
    harness.turn();
    let steering = harness.dispatcher.steering_of_mut(app.id).expect("attached");
    // Every group is to move from its owner, who never answers.
    for group in 0..128 {
        let owner = steering.table().entry(FlowGroup(group)).owner();
        let other = WorkerId(owner.map_or(0, |owner| 1 - owner.0));
        let (control, live) = steering.control_mut();
        control.pin(FlowGroup(group), other, live).expect("it is active");
    }
    for _ in 0..20 {
        harness.turn();
        harness.send(1, "10.0.0.2:53", b"?");
    }
    harness.turn();
    assert!(harness.dispatcher.steering_of(app.id).expect("attached").held() > 0);
    assert!(!harness.is_clean());
    harness.dispatcher.detach(app.id, DetachReason::Died, harness.now);
    assert!(harness.is_clean());
}

#[test]
fn a_worker_is_woken_once_a_sleep_and_a_storm_of_sleeps_is_put_off_not_lost() {
    let mut harness = Harness::new();
    let mut app = harness.try_attach(&["udp:10.0.0.2:7"], 1, 0, 1000).expect("free");
    let woken = |app: &Tenant| app.wakes.load(Ordering::Relaxed);
    harness.send(1, "10.0.0.2:7", b"?");
    harness.turn();
    assert_eq!(woken(&app), 0, "it does not sleep");
    for _ in 0..200 {
        app.serve_all();
        app.ends[0].arm();
        harness.send(1, "10.0.0.2:7", b"?");
        harness.turn();
        let _ = harness.replies();
    }
    let storm = woken(&app);
    assert!((64..100).contains(&storm), "a burst, then a thousand a second: {storm}");
    assert!(harness.dispatcher.next_deadline() < Nanos::FAR_FUTURE, "the host knows when");
    harness.now = harness.dispatcher.next_deadline();
    harness.turn();
    assert_eq!(woken(&app), storm + 1, "what was put off comes");
    assert!(harness.count(app.id, DispatchEvent::WakesDeferred) > 0);
}

#[test]
fn an_application_that_sends_too_much_waits_and_nobody_else_does() {
    let mut harness = Harness::new();
    let mut eager = harness.try_attach(&["udp:10.0.0.2:7"], 1, 1000, 0).expect("free");
    let peer: SocketAddr = "10.0.0.1:9".parse().expect("an address");
    let source: SocketAddr = "10.0.0.2:7".parse().expect("an address");
    let packet = udp(OUR_MAC, PEER_MAC, source, peer, b"!");
    let mut sent = 0;
    for _ in 0..200 {
        if let Some(mut frame) = eager.ends[0].take().expect("honest") {
            assert!(frame.fill(&packet));
            if eager.ends[0].send(frame).is_ok() {
                let _ = eager.ends[0].publish();
            }
        }
        harness.turn();
        sent += harness.replies().len();
    }
    // 200 turns of 60 us are 12 ms: a burst of 64 and a thousand a second.
    assert!((64..=78).contains(&sent), "{sent}");
    assert!(harness.count(eager.id, DispatchEvent::AppHeldBack) > 0);
}

#[test]
fn who_sends_what_it_may_not_is_looked_at_less_and_others_go_on() {
    let mut harness = Harness::new();
    let mut hostile = harness.attach(&["udp:10.0.0.2:54"], 1);
    let peer: SocketAddr = "10.0.0.1:9".parse().expect("an address");
    let spoofed = udp(OUR_MAC, PEER_MAC, "10.0.0.9:54".parse().expect("an address"), peer, b"!");
    for _ in 0..1000 {
        while let Some(mut frame) = hostile.ends[0].take().expect("honest") {
            assert!(frame.fill(&spoofed));
            hostile.ends[0].send(frame).expect("own buffers fit its ring");
        }
        let _ = hostile.ends[0].publish();
        harness.turn();
    }
    // 60 ms at 16,000 a second and a burst.
    let looked_at = harness.count(hostile.id, DispatchEvent::Spoofed);
    assert!((900..1100).contains(&looked_at), "{looked_at}");
    assert!(harness.replies().is_empty());
}

#[test]
fn answers_that_nobody_waits_for_are_looked_at_as_seldom_as_spoofed_packets() {
    let mut harness = Harness::new();
    let mut hostile = harness.attach(&["udp:10.0.0.2:54"], 1);
    for _ in 0..1000 {
        // Passed, of a hand-over that nobody has begun.
        for _ in 0..16 {
            hostile.ends[0].forge([5, 0, 0, 0, 0, 0, 0, 0]);
        }
        harness.turn();
    }
    // 60 ms at 16,000 a second and a burst.
    let looked_at = harness.count(hostile.id, DispatchEvent::StaleMessages);
    assert!((900..1100).contains(&looked_at), "{looked_at}");
}

proptest! {
    #[test]
    fn whatever_is_written_into_its_memory_its_neighbour_is_served_and_no_frame_is_lost(
        writes in proptest::collection::vec(
            // Half of them where the indexes are, the rest anywhere before the buffers.
            (prop_oneof![(3..20_u64).prop_map(|line| line * 128), 0..10_000_u64], any::<u32>(), 0..3_u8),
            1..40,
        ),
    ) {
        let mut harness = Harness::new();
        let mut neighbour = harness.attach(&["udp:10.0.0.2:7"], 1);
        let mut hostile = harness.attach(&["udp:10.0.0.2:8"], 2);
        for (at, value, action) in writes {
            // Small values are the ones that come near the truth.
            let value = if action == 0 { value % 8 } else { value };
            rustix::io::pwrite(&hostile.file, &value.to_ne_bytes(), at & !3).expect("it is ours");
            harness.send(1, "10.0.0.2:7", b"?");
            harness.send(2, "10.0.0.2:8", b"?");
            harness.turn();
            neighbour.serve(0);
            if action == 2 {
                for end in &mut hostile.ends {
                    let _ = end.receive();
                    let _ = end.publish();
                }
            }
            harness.turn();
            prop_assert_eq!(harness.replies().len(), 1, "the neighbour's");
            if let Some((who, why)) = harness.dispatcher.next_fault() {
                prop_assert_eq!(who, hostile.id, "{}", why);
                harness.dispatcher.detach(who, why, harness.now);
            }
        }
        harness.dispatcher.detach(hostile.id, DetachReason::Left, harness.now);
        prop_assert!(harness.is_clean());
    }
}
