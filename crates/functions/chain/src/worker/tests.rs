//! Tests of a worker over wires in memory.

use std::net::Ipv6Addr;

use calisto_nf::fib::Interface;
use calisto_nf::mirror::MirrorSettings;
use calisto_nf::router::RouterSettings;
use calisto_nf::{Mirror, Neighbour, NextHop, Prefix, Rib, Router, Selector};
use port::memory::{MemoryPort, WireConfig, wire, wire_with};
use shm::{FramePool, PoolConfig, ring};
use sys::cpu_set::CpuSet;

use super::*;

const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const BOB_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// A worker over `ports` with these functions, whom nobody tells anything.
fn over(ports: Vec<MemoryPort>, stages: Vec<Stage>) -> Worker<MemoryPort> {
    let pool = FramePool::new(PoolConfig { frames: 64, chunk_bytes: 2048, numa_node: None });
    let slice = Slice::over(ports, pool.expect("a small pool"), CpuSet::new());
    Worker {
        slice: slice.expect("it has a port"),
        stages,
        changes: ring(1).1,
        takes: ring(1).1,
        swapped: crate::swap::swapper().1,
        wanted: ring(1).0,
        doorbell: Arc::new(EventFd::new().expect("a descriptor")),
        board: Arc::default(),
        undecided: 0,
    }
}

#[test]
fn copies_to_a_port_without_room_cost_one_attempt_and_are_counted_as_not_sent() {
    let end = |id, capacity, mtu| {
        wire_with(&WireConfig { ids: [id, id], capacity, mtu, ..WireConfig::default() })
    };
    let (near, mut far) = end(PortId(0), 16, 1500);
    let (to, mut analyser) = end(PortId(1), 2, 100);
    let settings = MirrorSettings {
        to: PortId(1),
        every: 1,
        bytes: 4096,
        selector: Selector::default(),
        seed: 1,
    };
    let mirror = Mirror::new(&settings).expect("it can be");
    let mut worker = over(vec![near, to], vec![Stage::Mirror(Box::new(mirror))]);
    let (mut batch, mut verdicts) = (Batch::new(), Verdicts::new());
    for _ in 0..2 {
        for _ in 0..3 {
            let mut frame = worker.slice.take().expect("a frame");
            assert!(frame.fill(&[7; 200]));
            batch.push(frame);
        }
        far.tx(worker.slice.pool(), &mut batch, Nanos::ZERO);
        assert!(worker.turn(&mut batch, &mut verdicts, Nanos::ZERO));
        assert!(batch.is_empty());
    }
    let [Stage::Mirror(mirror)] = &worker.stages[..] else { panic!("it was one") };
    assert_eq!((mirror.counts().mirrored, mirror.counts().no_room), (2, 4));
    assert_eq!(worker.slice.ports()[1].counters().tx_full, 2, "one attempt a batch");
    // What that link cannot send comes cut, and not at all else.
    analyser.rx(worker.slice.pool(), &mut batch, Nanos::ZERO);
    let lengths: Vec<usize> = batch.iter().map(|frame| frame.len()).collect();
    assert_eq!(lengths, [122, 122]);
    batch.drain(..).for_each(|frame| worker.slice.pool().give(frame));
    assert_eq!(worker.slice.close(), 0, "no frame is lost");
}

#[test]
fn a_packet_that_waited_leaves_when_the_change_comes_that_names_its_neighbour() {
    let (mut rib, mut steps) = (Rib::new(), Vec::new());
    let interface = Interface { mac: OUR_MAC, mtu: 1500, four: None, six: None };
    rib.set_interface(PortId(0), Some(interface), &mut steps);
    let bob = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 2);
    rib.load(Prefix::of(bob.into(), 64), NextHop::OnLink { port: PortId(0) }).expect("room");
    let router = Router::new(rib.fib(1), &RouterSettings::default()).holding_packets();
    let pool = FramePool::new(PoolConfig { frames: 64, chunk_bytes: 2048, numa_node: None });
    let (near, mut far) = wire(16);
    let slice = Slice::over(vec![near], pool.expect("a small pool"), CpuSet::new());
    let (mut to_worker, changes) = ring(16);
    let (wanted, mut wishes) = ring(16);
    let mut worker = Worker {
        slice: slice.expect("it has a port"),
        stages: vec![Stage::Router(Box::new(router))],
        changes,
        takes: ring(1).1,
        swapped: crate::swap::swapper().1,
        wanted,
        doorbell: Arc::new(EventFd::new().expect("a descriptor")),
        board: Arc::default(),
        undecided: 0,
    };
    // Six bytes after the IPv6 header, of a protocol for experiments (RFC 3692).
    let link = [&OUR_MAC[..], &BOB_MAC, &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 6, 253, 64]].concat();
    let source = Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 1).octets();
    let packet = [&link[..], &source, &bob.octets(), &[7; 6]].concat();
    let mut frame = worker.slice.take().expect("a frame");
    assert!(frame.fill(&packet));
    let mut batch = Batch::from_iter([frame]);
    far.tx(worker.slice.pool(), &mut batch, Nanos::ZERO);
    let mut verdicts = Verdicts::new();
    let arrived = |worker: &mut Worker<_>, far: &mut port::memory::MemoryPort| {
        let mut batch = Batch::new();
        far.rx(worker.slice.pool(), &mut batch, Nanos::ZERO);
        let arrived: Vec<[u8; 6]> =
            batch.iter().filter_map(|frame| frame.bytes().first_chunk().copied()).collect();
        batch.drain(..).for_each(|frame| worker.slice.pool().give(frame));
        arrived
    };
    assert!(worker.turn(&mut batch, &mut verdicts, Nanos::ZERO));
    assert!(arrived(&mut worker, &mut far).is_empty());
    assert_eq!(wishes.pop(), Some((PortId(0), bob.into())));
    steps.clear();
    rib.set_neighbour(PortId(0), bob.into(), Some(Neighbour::At(BOB_MAC)), &mut steps);
    for step in &steps {
        to_worker.push(*step).expect("room");
    }
    assert!(worker.turn(&mut batch, &mut verdicts, Nanos::ZERO));
    assert_eq!(arrived(&mut worker, &mut far), [BOB_MAC]);
    assert_eq!(worker.slice.close(), 0, "no frame is lost");
}
