//! Once warm, nothing on the packet path allocates. Needs root.

mod common;

use std::net::IpAddr;
use std::sync::Arc;

use base::{Nanos, PortId, QueueId};
use common::*;
use port::faulty::{Faulty, Impairments};
use port::memory;
use port::xdp::{AttachMode, Destination, Protocol, Take, Umem, XdpInterface, XdpOptions, XdpPort};
use port::{AnyPort, Port};
use shm::Batch;
use sys::counting_alloc::{CountingAllocator, allocations_in};
use testbed::TestbedConfig;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

#[test]
fn an_xdp_echo_allocates_nothing() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let side = bed.server();
    let attach = || XdpInterface::attach(side.interface(), AttachMode::Native, Take::Ours);
    let interface = Arc::new(inside(side, attach).unwrap_or_else(|error| panic!("{error}")));
    let address = Some(IpAddr::V4(side.ipv4()));
    let ours = Destination { protocol: Protocol::Udp, address, port: Some(ECHO_PORT) };
    interface.ours().add(ours).expect("the map has room");
    let umem = Umem::new(&pool);
    let options = XdpOptions::default();
    let port = XdpPort::open(&interface, PortId(0), QueueId(0), &umem, &mut pool, &options)
        .unwrap_or_else(|error| panic!("{error}"));
    let mut port = AnyPort::Xdp(Box::new(port));
    let client = socket(bed.client(), (bed.client().ipv4(), 0));
    client.connect((side.ipv4(), ECHO_PORT)).expect("a UDP socket connects");
    let allocations = allocations_in(|| {
        for _ in 0..200 {
            for _ in 0..10 {
                client.send(b"steady").expect("the link is up");
            }
            echo(&mut port, &mut pool, 10);
            for _ in 0..10 {
                client.recv(&mut [0; 16]).expect("an answer comes back");
            }
        }
    });
    assert_eq!(allocations, 0);
}

#[test]
fn a_bad_wire_in_memory_allocates_nothing() {
    let mut pool = pool();
    let (a, mut b) = memory::wire(256);
    let bad = Impairments {
        loss: 0.05,
        duplicate: 0.05,
        corrupt: 0.05,
        reorder: 0.05,
        delay: Nanos::from_micros(50),
        jitter: Nanos::from_micros(10),
        rate_bits_per_second: Some(1_000_000_000),
        queue_packets: Some(100),
        ..Impairments::default()
    };
    let mut a = Faulty::new(a, bad.clone(), bad).expect("possible");
    let allocations = allocations_in(|| {
        let mut batch = Batch::new();
        for turn in 0..2000u64 {
            let now = Nanos::from_micros(turn * 7);
            for _ in 0..8 {
                let Some(mut frame) = pool.take() else { break };
                assert!(frame.fill(&[7; 100]));
                batch.push(frame);
            }
            a.tx(&mut pool, &mut batch, now);
            b.rx(&mut pool, &mut batch, now);
            b.tx(&mut pool, &mut batch, now);
            give_all(&mut pool, &mut batch);
            a.rx(&mut pool, &mut batch, now);
            give_all(&mut pool, &mut batch);
        }
    });
    assert_eq!(allocations, 0);
    a.close(&mut pool);
    b.close(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}
