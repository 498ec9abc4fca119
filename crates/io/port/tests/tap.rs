//! TAP interfaces against the kernel, in namespaces of our own. Needs root.

use std::net::{IpAddr, Ipv4Addr};

use crate::common::*;
use base::{Nanos, PortId, QueueId};
use port::tap::{TapOptions, TapPort};
use port::{Fault, OpenError, Port};
use shm::{Batch, FramePool};
use testbed::{Side, TestbedConfig};

/// Addresses of the kernel's end and of ours.
const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);

fn open(side: &Side, pool: &FramePool, options: &TapOptions) -> Result<TapPort, OpenError> {
    inside(side, || TapPort::open("tap0", PortId(6), QueueId(0), pool, options))
}

/// A tap with an address, and the way to ours known.
fn open_with_addresses(side: &Side, pool: &FramePool) -> TapPort {
    // The kernel says hello in IPv6 otherwise.
    let options = TapOptions { address: Some((IpAddr::V4(KERNEL), 24)), ..TapOptions::default() };
    let port = open(side, pool, &options).unwrap_or_else(|error| panic!("{error}"));
    let mac = port.capabilities().mac.expect("a tap has one");
    let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
    ip(side, &format!("neighbour add {OURS} lladdr {mac} dev tap0 nud permanent"));
    port
}

/// The kernel removes the interface with the last copy of its descriptor, and another test that
/// starts a program at this moment has one until the program runs.
fn wait_until_gone(side: &Side) {
    let end = sys::clock::now() + Nanos::from_secs(5);
    let is_there = || inside(side, || sys::interface::index_of("tap0")).is_some();
    while is_there() && sys::clock::now() < end {}
    assert!(!is_there(), "the interface outlives its port");
}

#[test]
fn a_kernel_client_is_echoed_byte_for_byte_and_in_order() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let mut port = open_with_addresses(bed.server(), &pool);
    let client = socket(bed.server(), (KERNEL, 0));
    client.connect((OURS, ECHO_PORT)).expect("a UDP socket connects");
    for len in [0, 1, 18, 500, 1472] {
        let request: Vec<u8> = (0..len).map(|index| (index * 7 + len) as u8).collect();
        client.send(&request).expect("the link is up");
        echo(&mut port, &mut pool, 1);
        let mut answer = [0; 2048];
        let received = client.recv(&mut answer).expect("an answer comes back");
        assert_eq!(answer[..received], request, "{len} bytes");
    }
    for index in 0..100u8 {
        client.send(&[index]).expect("the link is up");
    }
    echo(&mut port, &mut pool, 100);
    for index in 0..100u8 {
        let mut answer = [0; 8];
        client.recv(&mut answer).expect("an answer comes back");
        assert_eq!(answer[0], index);
    }
    let counters = port.counters();
    assert_eq!((counters.rx_packets, counters.tx_packets), (105, 105), "{counters:?}");
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn the_interface_goes_with_the_port() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let mut port = open_with_addresses(bed.server(), &pool);
    let found = || inside(bed.server(), || sys::interface::index_of("tap0"));
    assert!(found().is_some());
    port.close(&mut pool);
    wait_until_gone(bed.server());
    let mut batch = Batch::new();
    assert_eq!(port.rx(&mut pool, &mut batch, Nanos(1)), 0);
}

#[test]
fn a_second_port_needs_multi_queue() {
    let bed = bed(TestbedConfig::default());
    let pool = pool();
    let single = TapOptions { up: true, ..TapOptions::default() };
    let port = open(bed.server(), &pool, &single).unwrap_or_else(|error| panic!("{error}"));
    let error = open(bed.server(), &pool, &single).err().expect("it is taken").to_string();
    assert!(error.contains("in use"), "{error}");
    drop(port);
    wait_until_gone(bed.server());
    let multi = TapOptions { multi_queue: true, ..single };
    let ports: Vec<_> = (0..3)
        .map(|_| open(bed.server(), &pool, &multi).unwrap_or_else(|error| panic!("{error}")))
        .collect();
    assert_eq!(ports.len(), 3);
}

#[test]
fn wrong_names_and_sizes_are_refused_with_a_sentence() {
    let bed = bed(TestbedConfig::default());
    let pool = pool();
    let error = |name: &str, options: &TapOptions| {
        inside(bed.server(), || TapPort::open(name, PortId(0), QueueId(0), &pool, options).err())
            .expect("it cannot be opened")
            .to_string()
    };
    let plain = TapOptions::default();
    assert!(error("veth0", &plain).contains("another kind of interface"));
    assert!(error("a/b", &plain).contains("cannot be the name"));
    assert!(error("", &plain).contains("cannot be the name"));
    let large = TapOptions { mtu: Some(9000), ..TapOptions::default() };
    assert!(error("tap1", &large).contains("MTU of tap1 is 9000"));
}

#[test]
fn a_tap_that_is_down_or_deleted_is_a_fault_and_no_more() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let mut port = open_with_addresses(bed.server(), &pool);
    ip(bed.server(), "link set dev tap0 down");
    let mut batch = batch_of(&mut pool, &[vec![2; 60]]);
    assert_eq!(port.tx(&mut pool, &mut batch, Nanos(1)), 1);
    assert_eq!((port.fault(), port.counters().tx_errors), (Some(Fault::Down), 1));
    ip(bed.server(), "link set dev tap0 up");
    let mut batch = batch_of(&mut pool, &[vec![2; 60]]);
    assert_eq!(port.tx(&mut pool, &mut batch, Nanos(1)), 1);
    assert_eq!(port.fault(), None);
    ip(bed.server(), "link delete dev tap0");
    let mut batch = Batch::new();
    port.rx(&mut pool, &mut batch, Nanos(1));
    assert_eq!(port.fault(), Some(Fault::Vanished));
    give_all(&mut pool, &mut batch);
    assert_eq!(pool.outstanding(), 0);
}
