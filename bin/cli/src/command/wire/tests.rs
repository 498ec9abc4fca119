//! The wire over ports in memory, and what its options are read as.

use clap::Parser;
use port::faulty::LineCounters;
use port::memory::{self, MemoryPort};
use port::{Port, PortCounters};
use shm::Batch;

use super::*;
use crate::args::Cli;
use crate::command::Command;

fn parse(line: &str) -> Result<Wire, clap::Error> {
    let words = ["calisto", "wire"].into_iter().chain(line.split_whitespace());
    match Cli::try_parse_from(words)?.command {
        Command::Wire(wire) => Ok(wire),
        other => panic!("{other:?}"),
    }
}

fn pool() -> FramePool {
    let config = PoolConfig { frames: 512, chunk_bytes: 2048, numa_node: None };
    FramePool::new(config).expect("a small pool")
}

/// A bridge with `bad` in both directions, and the far ends of its two ports.
fn bridge(bad: &Impairments) -> (MemoryPort, Bridge<MemoryPort>, MemoryPort) {
    let (outside_a, a) = memory::wire(256);
    let (outside_b, b) = memory::wire(256);
    let perfect = Impairments::default();
    let faulty = |port, seed| {
        let bad = Impairments { seed, ..bad.clone() };
        Faulty::new(port, perfect.clone(), bad).expect("it is possible")
    };
    (outside_a, Bridge::new(faulty(a, 1), faulty(b, 2)), outside_b)
}

fn send(port: &mut MemoryPort, pool: &mut FramePool, numbers: std::ops::Range<u8>) {
    for number in numbers {
        let mut frame = pool.take().expect("the pool is large enough");
        assert!(frame.fill(&[number; 60]));
        let mut batch = Batch::new();
        batch.push(frame);
        assert_eq!(port.tx(pool, &mut batch, Nanos::ZERO), 1);
    }
}

fn received(port: &mut MemoryPort, pool: &mut FramePool) -> Vec<u8> {
    let mut batch = Batch::new();
    port.rx(pool, &mut batch, Nanos::ZERO);
    let numbers = batch.iter().map(|frame| frame.bytes()[20]).collect();
    batch.drain(..).for_each(|frame| pool.give(frame));
    numbers
}

#[test]
fn packets_cross_in_both_directions_after_the_delay() {
    let mut pool = pool();
    let delay = Nanos::from_millis(1);
    let bad = Impairments { delay, ..Impairments::default() };
    let (mut a, mut bridge, mut b) = bridge(&bad);
    send(&mut a, &mut pool, 0..5);
    send(&mut b, &mut pool, 10..13);
    assert!(bridge.step(&mut pool, Nanos::ZERO));
    assert!(!bridge.step(&mut pool, Nanos(delay.0 - 1)));
    assert!(received(&mut b, &mut pool).is_empty());
    bridge.step(&mut pool, delay);
    assert_eq!(received(&mut b, &mut pool), [0, 1, 2, 3, 4]);
    assert_eq!(received(&mut a, &mut pool), [10, 11, 12]);
    assert_eq!(bridge.lines().map(|line| line.delivered), [5, 3]);
    bridge.close(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn what_is_lost_is_counted_in_its_direction() {
    let mut pool = pool();
    let (mut a, mut bridge, mut b) = bridge(&Impairments { loss: 1.0, ..Impairments::default() });
    send(&mut a, &mut pool, 0..7);
    bridge.step(&mut pool, Nanos::ZERO);
    assert!(received(&mut b, &mut pool).is_empty());
    assert_eq!(bridge.lines().map(|line| line.lost), [7, 0]);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn a_wire_whose_other_end_is_gone_is_over_with_a_sentence() {
    let mut pool = pool();
    let (mut a, mut bridge, b) = bridge(&Impairments::default());
    assert_eq!(bridge.is_over(), Ok(false));
    drop(b);
    send(&mut a, &mut pool, 0..1);
    bridge.step(&mut pool, Nanos::ZERO);
    let error = bridge.is_over().expect_err("its peer is gone");
    assert!(error.ends_with("the other end of the wire is gone"), "{error}");
}

#[test]
fn options_are_read_as_people_write_them() {
    let wire = parse(
        "af_packet:eth1 tap:t0 --delay 1ms --jitter 100us --loss 1% --reorder 0.5% \
         --duplicate 2% --corrupt 0.001 --rate 1Gbit --queue 100 --ecn 30KiB --seed 7 --seconds 3",
    )
    .expect("it is as the help says");
    let bad = wire.impairments(1);
    assert_eq!((bad.delay, bad.jitter), (Nanos::from_millis(1), Nanos::from_micros(100)));
    assert_eq!((bad.loss, bad.reorder, bad.duplicate), (0.01, 0.005, 0.02));
    assert_eq!((bad.corrupt, bad.rate_bits_per_second), (0.001, Some(1_000_000_000)));
    assert_eq!((bad.queue_packets, bad.queue_bytes), (Some(100), None));
    assert_eq!(bad.ecn, Some(EcnThreshold::Bytes(30 << 10)));
    assert_ne!(bad.seed, wire.impairments(0).seed, "each direction has chance of its own");
    assert_eq!(wire.seconds, Some(3));
    assert_eq!(bad.check(), Ok(()));
}

#[test]
fn a_name_without_a_kind_is_an_interface_and_never_makes_one() {
    assert!(matches!(end("lo"), Ok(PortSpec::AfPacket { interface, .. }) if interface == "lo"));
    let misspelt = end("calisto-no");
    assert!(
        matches!(misspelt, Ok(PortSpec::AfPacket { interface, .. }) if interface == "calisto-no")
    );
    assert!(matches!(end("xdp:eth1,take=all"), Ok(PortSpec::Xdp { .. })));
    assert!(end("xpd:eth1").expect_err("a slip").contains("did you mean xdp?"));
}

#[test]
fn wrong_usage_is_refused_before_anything_is_opened() {
    for line in [
        "lo",
        "lo x --queue 100",
        "lo x --rate 1Gbit --queue 0",
        "lo x --loss 101%",
        "lo x --delay 1",
        "lo x --seconds 0",
        "lo x --held 0",
    ] {
        let error = parse(line).expect_err(line);
        assert_eq!(error.exit_code(), 2, "{line}");
    }
}

#[test]
fn the_report_has_both_directions() {
    let mut report = Report {
        ends: ["tap:a".to_owned(), "tap:b".to_owned()],
        seconds: 2.0,
        lines: [LineCounters { lost: 1234, ..LineCounters::default() }, LineCounters::default()],
        ports: [PortCounters::default(); 2],
        completed: [0, 3],
    };
    let json = report.json();
    assert_eq!(json["a_to_b"]["lost"], 1234);
    assert_eq!(json["b_to_a"]["checksums_completed"], 3);
    assert!(report.text().starts_with("A = tap:a, B = tap:b, 2.0 s\n"));
    assert!(!report.text().contains("ethtool"));
    report.ports[1].rx_oversize = 1;
    assert!(report.text().contains("tap:b: what sends here"));
}
