//! A slice over wires in memory, against a ledger of what became of each packet.

use std::time::Duration;

use base::{Nanos, PortId, TxChecksum};
use calisto_slice::{Filter, Judge, Slice, SliceError};
use port::Port;
use port::memory::{MemoryPort, wire};
use proptest::prelude::*;
use shm::{Batch, Frame, FramePool, PoolConfig, Waited};
use sys::cpu_set::CpuSet;

const PORTS: usize = 3;

/// A slice, and the other ends of its wires, which hold few packets so that they are often full.
struct Bench {
    slice: Slice<MemoryPort>,
    far: Vec<MemoryPort>,
}

impl Bench {
    fn new(capacity: usize) -> Self {
        let config = PoolConfig { frames: 256, chunk_bytes: 2048, ..PoolConfig::default() };
        let pool = FramePool::new(config).expect("half a megabyte");
        let (near, far) = (0..PORTS).map(|_| wire(capacity)).unzip();
        let slice = Slice::over(near, pool, CpuSet::new()).expect("it has ports");
        Self { slice, far }
    }

    /// Puts a packet onto the wire of port `port`; whether it had room.
    fn send(&mut self, port: usize, bytes: &[u8]) -> bool {
        let mut frame = self.slice.take().expect("the pool is larger than all that is under way");
        assert!(frame.fill(bytes));
        let mut batch = Batch::from_iter([frame]);
        let sent = self.far[port].tx(self.slice.pool(), &mut batch, Nanos::ZERO);
        batch.drain(..).for_each(|frame| self.slice.pool().give(frame));
        sent == 1
    }

    /// What has arrived at the other end of port `port`, `most` packets at most.
    fn arrived(&mut self, port: usize, most: usize) -> Vec<Vec<u8>> {
        let mut batch = Batch::new();
        // A batch that is full but for `most` takes no more.
        while batch.remaining_capacity() > most {
            batch.push(self.slice.take().expect("the pool is large"));
        }
        let filler = batch.len();
        self.far[port].rx(self.slice.pool(), &mut batch, Nanos::ZERO);
        let arrived = batch[filler..].iter().map(|frame| frame.bytes().to_vec()).collect();
        batch.drain(..).for_each(|frame| self.slice.pool().give(frame));
        arrived
    }
}

fn forward(frame: &mut Frame, to: u16) {
    (frame.meta_mut().port, frame.meta_mut().transmit) = (PortId(to), true);
}

#[derive(Clone, Debug)]
enum Step {
    /// This many packets come to a port.
    Come { port: usize, count: usize },
    /// The slice reads what is there into its batch.
    Read,
    /// A wait that finds what is there, and must not lose it.
    Look,
    /// Each packet that was just read gets its destination: a port, none, or no port at all.
    Write,
    /// The reader gives up on what is left in its batch.
    GiveBack,
    /// The other end of a port takes this many packets.
    Leave { port: usize, most: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..PORTS, 1..20usize).prop_map(|(port, count)| Step::Come { port, count }),
        3 => Just(Step::Read),
        1 => Just(Step::Look),
        3 => Just(Step::Write),
        1 => Just(Step::GiveBack),
        3 => (0..PORTS, 1..20usize).prop_map(|(port, most)| Step::Leave { port, most }),
    ]
}

/// Destinations of packets: as a packet's number says, so that it can be checked where it arrives.
const SKIP: u8 = PORTS as u8;
const NOWHERE: u8 = PORTS as u8 + 1;

proptest! {
    #[test]
    fn nothing_is_lost_doubled_or_reordered_and_all_frames_come_home(
        steps in proptest::collection::vec(step(), 1..120),
        fates in proptest::collection::vec(0..=NOWHERE, 1..40),
    ) {
        let mut bench = Bench::new(8);
        let mut batch = Batch::new();
        let mut came = 0u32;
        let mut next = [[0u32; PORTS]; PORTS];
        let mut expected = [0u64; 2];
        let mut arrived = 0u64;
        for step in steps {
            match step {
                Step::Come { port, count } => {
                    for _ in 0..count {
                        let fate = fates[came as usize % fates.len()];
                        let packet = [&[port as u8, fate][..], &came.to_be_bytes(), &[0; 20]].concat();
                        if bench.send(port, &packet) {
                            came += 1;
                            expected[0] += u64::from(fate == SKIP);
                            expected[1] += u64::from(fate == NOWHERE);
                        }
                    }
                }
                Step::Read => {
                    let before = batch.len();
                    let read = bench.slice.read_multi(&mut batch, Nanos(5));
                    prop_assert_eq!(read, batch.len() - before);
                    for frame in &mut batch[before..] {
                        let (from, fate) = (frame.bytes()[0], frame.bytes()[1]);
                        prop_assert_eq!(frame.meta().port, PortId(u16::from(from)));
                        if fate != SKIP {
                            forward(frame, u16::from(fate));
                        }
                    }
                }
                Step::Look => {
                    bench.slice.wait(Nanos::ZERO);
                }
                Step::Write => {
                    let before = batch.len();
                    let written = bench.slice.write_multi(&mut batch, Nanos::ZERO);
                    prop_assert_eq!(written, before - batch.len());
                }
                Step::GiveBack => {
                    let fates = batch.iter().map(|frame| frame.bytes()[1]);
                    for fate in fates {
                        expected[0] -= u64::from(fate == SKIP);
                        expected[1] -= u64::from(fate == NOWHERE);
                    }
                    bench.slice.give_back(&mut batch);
                }
                Step::Leave { port, most } => {
                    for packet in bench.arrived(port, most) {
                        arrived += 1;
                        let (from, fate) = (usize::from(packet[0]), usize::from(packet[1]));
                        prop_assert_eq!(fate, port, "it left by another port");
                        let number = u32::from_be_bytes(packet[2..6].try_into().expect("four"));
                        prop_assert!(number >= next[from][port], "{} overtook", number);
                        next[from][port] = number + 1;
                    }
                }
            }
        }
        // Everything that is still under way goes to its end.
        for _ in 0..64 {
            for port in 0..PORTS {
                arrived += bench.arrived(port, 64).len() as u64;
            }
            let before = batch.len();
            bench.slice.read_multi(&mut batch, Nanos::ZERO);
            for frame in &mut batch[before..] {
                let fate = frame.bytes()[1];
                if fate != SKIP {
                    forward(frame, u16::from(fate));
                }
            }
            bench.slice.write_multi(&mut batch, Nanos::ZERO);
        }
        let counters = bench.slice.counters();
        prop_assert!(batch.is_empty());
        prop_assert_eq!(counters.read, u64::from(came));
        prop_assert_eq!([counters.skipped, counters.no_port], expected);
        prop_assert_eq!(counters.written, arrived);
        let gone = counters.written + counters.skipped + counters.no_port + counters.given_back;
        prop_assert_eq!(gone, u64::from(came), "each packet has one fate");
        for far in &mut bench.far {
            far.close(bench.slice.pool());
        }
        prop_assert_eq!(bench.slice.close(), 0, "a frame is missing");
    }
}

#[test]
fn a_port_that_is_always_full_does_not_keep_the_others_waiting() {
    let mut bench = Bench::new(128);
    for number in 0..100 {
        assert!(bench.send(0, &[0, number]));
    }
    assert!(bench.send(1, &[1, 0]));
    let mut batch = Batch::new();
    assert_eq!(bench.slice.read_multi(&mut batch, Nanos::ZERO), 64, "the first fills the batch");
    bench.slice.give_back(&mut batch);
    bench.slice.read_multi(&mut batch, Nanos::ZERO);
    assert_eq!(batch[0].bytes(), [1, 0], "then it is the others' turn");
    bench.slice.give_back(&mut batch);
}

#[test]
fn what_does_not_fit_stays_in_the_batch_in_its_order() {
    let mut bench = Bench::new(4);
    let mut batch: Batch = (0..10u8)
        .map(|number| {
            let mut frame = bench.slice.take().expect("the pool is large");
            assert!(frame.fill(&[number, 0]));
            forward(&mut frame, u16::from(number % 2));
            frame
        })
        .collect();
    assert_eq!(bench.slice.write_multi(&mut batch, Nanos::ZERO), 8, "four to each port");
    let left: Vec<u8> = batch.iter().map(|frame| frame.bytes()[0]).collect();
    assert_eq!(left, [8, 9]);
    assert_eq!(bench.slice.write_multi(&mut batch, Nanos::ZERO), 0);
    assert_eq!(bench.slice.counters().partial_writes, 2);
    bench.arrived(0, 64);
    assert_eq!(bench.slice.write_multi(&mut batch, Nanos::ZERO), 1, "there is room again");
    assert_eq!(batch[0].bytes(), [9, 0]);
    bench.slice.give_back(&mut batch);
}

#[test]
fn a_checksum_that_was_asked_for_is_in_the_packet_that_leaves() {
    let mut bench = Bench::new(4);
    let mut frame = bench.slice.take().expect("the pool is large");
    assert!(frame.fill(&[8, 0, 0xaa, 0xbb, 0xcc, 0xdd, 0, 0]));
    forward(&mut frame, 1);
    let meta = frame.meta_mut();
    meta.tx_checksum = TxChecksum::Partial;
    (meta.tx_checksum_start, meta.tx_checksum_offset) = (2, 4);
    let mut batch = Batch::from_iter([frame]);
    assert_eq!(bench.slice.write_multi(&mut batch, Nanos::ZERO), 1);
    // 0xaabb + 0xccdd = 0x17798, folded 0x7799, inverted 0x8866.
    assert_eq!(bench.arrived(1, 64), [[8, 0, 0xaa, 0xbb, 0xcc, 0xdd, 0x88, 0x66]]);
}

#[test]
fn a_wait_ends_when_a_packet_is_there_and_the_next_read_has_it() {
    let mut bench = Bench::new(4);
    assert_eq!(bench.slice.wait(Nanos::from_millis(1)), Waited::TimedOut);
    assert!(bench.send(2, &[2, 7]));
    assert_eq!(bench.slice.wait(Nanos::FAR_FUTURE), Waited::Ready);
    assert!(bench.send(0, &[0, 8]));
    let mut batch = Batch::new();
    assert_eq!(bench.slice.read_multi(&mut batch, Nanos::ZERO), 2);
    assert_eq!((batch[0].bytes(), batch[0].meta().port), (&[2, 7][..], PortId(2)));
    bench.slice.give_back(&mut batch);
}

#[test]
fn a_waker_ends_a_wait_from_another_thread_and_one_that_has_not_begun() {
    let mut bench = Bench::new(4);
    let waker = bench.slice.waker();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(5));
            waker.wake();
        });
        assert_eq!(bench.slice.wait(Nanos::from_secs(30)), Waited::Ready);
    });
    waker.wake();
    assert_eq!(bench.slice.wait(Nanos::from_secs(30)), Waited::Ready);
    assert_eq!(bench.slice.counters().woken, 2);
    assert_eq!(bench.slice.wait(Nanos::ZERO), Waited::TimedOut, "a ring wakes once");
}

#[test]
fn a_slice_without_ports_is_refused_with_a_sentence() {
    let pool = FramePool::new(PoolConfig { frames: 1, ..PoolConfig::default() }).expect("a page");
    let ports: Vec<MemoryPort> = Vec::new();
    let Err(error) = Slice::over(ports, pool, CpuSet::new()) else { panic!("it has no ports") };
    assert!(matches!(error, SliceError::NoPorts { .. }));
    assert!(error.to_string().contains("xdp:eth1"), "{error}");
}

#[test]
fn a_filter_that_no_port_runs_is_run_by_the_slice_and_counted() {
    let mut bench = Bench::new(16);
    let filter = Filter::compile("ether[0] = 1 or ether[0] = 3").expect("libpcap is installed");
    bench.slice.attach_filter(&filter).expect("it runs here");
    assert!(bench.slice.judges().iter().all(|judge| matches!(judge, Judge::Reader { .. })));
    for number in 0..5 {
        assert!(bench.send(0, &[number; 20]));
    }
    let mut batch = Batch::new();
    assert_eq!(bench.slice.read_multi(&mut batch, Nanos::ZERO), 2);
    assert_eq!((batch[0].bytes()[0], batch[1].bytes()[0]), (1, 3), "in their order");
    bench.slice.give_back(&mut batch);
    let counters = bench.slice.counters();
    assert_eq!((counters.judged_here, counters.unwanted, counters.read), (5, 3, 2));
    bench.slice.detach_filter().expect("nothing is in the kernel");
    assert!(bench.slice.filter().is_none());
    assert!(bench.send(0, &[0; 20]));
    assert_eq!(bench.slice.read_multi(&mut batch, Nanos::ZERO), 1);
    bench.slice.give_back(&mut batch);
    bench.far.iter_mut().for_each(|far| far.close(bench.slice.pool()));
    assert_eq!(bench.slice.close(), 0);
}
