//! Packet sockets against the kernel, over veth pairs in namespaces of our own. Needs root.

use std::net::Ipv4Addr;

use crate::common::*;
use base::{ChecksumState, Nanos, PortId, QueueId};
use port::af_packet::{AfPacketOptions, AfPacketPort, FanoutMode};
use port::{Fault, Port};
use shm::{Batch, FramePool};
use testbed::{Side, Testbed, TestbedConfig};

/// An address of the server's link that its kernel does not own: only we answer for it.
const OURS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 9);

fn open(side: &Side, pool: &FramePool, options: &AfPacketOptions) -> AfPacketPort {
    inside(side, || AfPacketPort::open(side.interface(), PortId(4), QueueId(0), pool, options))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// A bed whose client knows the way to our address.
fn bed_with_ours(config: TestbedConfig) -> Testbed {
    let bed = bed(config);
    let mac = bed.server().mac().map(|byte| format!("{byte:02x}")).join(":");
    ip(bed.client(), &format!("neighbour add {OURS} lladdr {mac} dev veth0 nud permanent"));
    bed
}

fn client(bed: &Testbed) -> std::net::UdpSocket {
    let socket = socket(bed.client(), (bed.client().ipv4(), 0));
    socket.connect((OURS, ECHO_PORT)).expect("a UDP socket connects");
    socket
}

#[test]
fn a_kernel_client_is_echoed_byte_for_byte() {
    let bed = bed_with_ours(TestbedConfig::default());
    let mut pool = pool();
    let mut port = open(bed.server(), &pool, &AfPacketOptions::default());
    assert!(port.capabilities().mode.contains("1 ms"), "{}", port.capabilities().mode);
    assert!(!port.capabilities().kernel_answers_arp);
    let client = client(&bed);
    for len in [0, 1, 18, 500, 1472] {
        let request: Vec<u8> = (0..len).map(|index| (index * 7 + len) as u8).collect();
        client.send(&request).expect("the link is up");
        echo(&mut port, &mut pool, 1);
        let mut answer = [0; 2048];
        let received = client.recv(&mut answer).expect("an answer comes back");
        assert_eq!(answer[..received], request, "{len} bytes");
    }
    let counters = port.counters();
    assert_eq!((counters.rx_packets, counters.tx_packets), (5, 5), "{counters:?}");
    port.close(&mut pool);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn what_leaves_the_interface_does_not_come_in() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let options = AfPacketOptions { qdisc_bypass: false, ..AfPacketOptions::default() };
    let mut port = open(bed.server(), &pool, &options);
    let sink = socket(bed.client(), (bed.client().ipv4(), 4000));
    let kernel = socket(bed.server(), (bed.server().ipv4(), 0));
    kernel.send_to(b"kernel", (bed.client().ipv4(), 4000)).expect("the link is up");
    let frame = udp_frame(bed.server(), bed.client(), &[], 4000, b"ours");
    let mut batch = batch_of(&mut pool, &[frame]);
    transmit(&mut port, &mut pool, &mut batch);
    for _ in 0..2 {
        sink.recv(&mut [0; 64]).expect("both arrive");
    }
    assert!(receive_for(&mut port, &mut pool, Nanos::from_millis(20)).is_empty());
}

#[test]
fn many_packets_keep_their_order_both_ways() {
    let bed = bed_with_ours(TestbedConfig::default());
    let mut pool = pool();
    let mut port = open(bed.server(), &pool, &AfPacketOptions::default());
    let client = client(&bed);
    for round in 0..10u32 {
        for index in 0..100u32 {
            client.send(&(round * 100 + index).to_be_bytes()).expect("the link is up");
        }
        echo(&mut port, &mut pool, 100);
        for index in 0..100u32 {
            let mut answer = [0; 8];
            assert_eq!(client.recv(&mut answer).expect("an answer comes back"), 4);
            assert_eq!(answer[..4], (round * 100 + index).to_be_bytes());
        }
    }
    let counters = port.counters();
    assert!(counters.kicks <= 1000 / 10, "batches leave by one call: {counters:?}");
}

#[test]
fn a_stripped_tag_is_in_the_meta_and_goes_back_out() {
    let bed = bed(TestbedConfig::default());
    let mut pool = pool();
    let mut near = open(bed.client(), &pool, &AfPacketOptions::default());
    let mut far = open(bed.server(), &pool, &AfPacketOptions::default());
    let tagged = udp_frame(bed.client(), bed.server(), &[[0x81, 0, 0x60, 5]], 9, b"tagged");
    let plain = udp_frame(bed.client(), bed.server(), &[], 9, b"tagged");
    let mut batch = batch_of(&mut pool, &[tagged]);
    transmit(&mut near, &mut pool, &mut batch);
    let mut got = receive(&mut far, &mut pool, 1);
    assert_eq!(got[0].meta().vlan_tci, 0x6005);
    assert_eq!(got[0].bytes(), plain, "the tag is not in the bytes as well");
    got.iter_mut().for_each(turn_round);
    transmit(&mut far, &mut pool, &mut got);
    let mut back = receive(&mut near, &mut pool, 1);
    assert_eq!(back[0].meta().vlan_tci, 0x6005);
    give_all(&mut pool, &mut back);
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn an_open_checksum_is_partial_by_the_kernels_word() {
    let bed = bed_with_ours(TestbedConfig { offloads: true, ..TestbedConfig::default() });
    let mut pool = pool();
    let mut port = open(bed.server(), &pool, &AfPacketOptions::default());
    let client = client(&bed);
    client.send(b"summed by nobody yet").expect("the link is up");
    let mut got = receive(&mut port, &mut pool, 1);
    assert_eq!(got[0].meta().checksum, ChecksumState::Partial);
    got.iter_mut().for_each(turn_round);
    transmit(&mut port, &mut pool, &mut got);
    let mut answer = [0; 64];
    let len = client.recv(&mut answer).expect("the client verifies the sum that we made");
    assert_eq!(&answer[..len], b"summed by nobody yet");
}

#[test]
fn a_fanout_group_shares_the_packets() {
    let bed = bed_with_ours(TestbedConfig::default());
    let mut pool = pool();
    let options =
        AfPacketOptions { fanout: Some((77, FanoutMode::Hash)), ..AfPacketOptions::default() };
    let mut ports = [open(bed.server(), &pool, &options), open(bed.server(), &pool, &options)];
    for _ in 0..40 {
        client(&bed).send(b"once").expect("the link is up");
    }
    let counts = ports.each_mut().map(|port| {
        let mut batch = receive_for(port, &mut pool, Nanos::from_millis(50));
        let count = batch.len();
        give_all(&mut pool, &mut batch);
        count
    });
    assert_eq!(counts[0] + counts[1], 40, "each packet came once: {counts:?}");
    assert!(counts[0] > 0 && counts[1] > 0, "40 flows reach both: {counts:?}");
}

#[test]
fn an_empty_pool_leaves_packets_in_the_ring() {
    let bed = bed_with_ours(TestbedConfig::default());
    let mut pool = pool();
    let mut port = open(bed.server(), &pool, &AfPacketOptions::default());
    let hoard: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    let client = client(&bed);
    for index in 0..10u8 {
        client.send(&[index]).expect("the link is up");
    }
    assert!(receive_for(&mut port, &mut pool, Nanos::from_millis(20)).is_empty());
    assert!(port.counters().rx_no_frame > 0);
    hoard.into_iter().for_each(|frame| pool.give(frame));
    let mut got = receive(&mut port, &mut pool, 10);
    let numbers: Vec<u8> = got.iter().map(|frame| frame.bytes()[42]).collect();
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    give_all(&mut pool, &mut got);
}

#[test]
fn a_sleeper_is_woken_by_a_packet() {
    let bed = bed_with_ours(TestbedConfig::default());
    let mut pool = pool();
    let mut port = open(bed.server(), &pool, &AfPacketOptions::default());
    port.prepare_wait(&mut pool);
    let descriptor = port.poll_fd().expect("a socket");
    assert!(!sys::poll::wait_readable(descriptor, Nanos::from_millis(5)));
    client(&bed).send(b"wake up").expect("the link is up");
    assert!(sys::poll::wait_readable(descriptor, Nanos::from_secs(5)));
    let mut batch = Batch::new();
    assert_eq!(port.rx(&mut pool, &mut batch, sys::clock::now()), 1);
    give_all(&mut pool, &mut batch);
}

#[test]
fn wrong_places_are_named_with_what_to_do() {
    let bed = bed(TestbedConfig { mtu: 9000, ..TestbedConfig::default() });
    let pool = pool();
    let error = |name: &str| {
        inside(bed.server(), || {
            let options = AfPacketOptions::default();
            AfPacketPort::open(name, PortId(0), QueueId(0), &pool, &options).err()
        })
        .expect("it cannot be opened")
        .to_string()
    };
    let sentence = error("nosuch0");
    assert!(sentence.contains("nosuch0") && sentence.contains("lo, veth0"), "{sentence}");
    let sentence = error("veth0");
    assert!(sentence.contains("MTU of veth0 is 9000"), "{sentence}");
}

#[test]
fn an_interface_that_goes_down_or_vanishes_is_a_fault_and_no_more() {
    let bed = bed_with_ours(TestbedConfig::default());
    let mut pool = pool();
    let mut port = open(bed.server(), &pool, &AfPacketOptions::default());
    let wait_for = |port: &mut AfPacketPort, pool: &mut FramePool, fault| {
        let end = sys::clock::now() + Nanos::from_secs(5);
        let mut batch = Batch::new();
        while port.fault() != fault && sys::clock::now() < end {
            port.rx(pool, &mut batch, sys::clock::now());
            give_all(pool, &mut batch);
        }
        assert_eq!(port.fault(), fault);
    };
    ip(bed.server(), "link set dev veth0 down");
    wait_for(&mut port, &mut pool, Some(Fault::Down));
    up_again(&bed);
    client(&bed).send(b"back again").expect("the link is up");
    wait_for(&mut port, &mut pool, None);
    ip(bed.client(), "link delete dev veth0");
    wait_for(&mut port, &mut pool, Some(Fault::Vanished));
    let mut batch = batch_of(&mut pool, &[vec![1; 60]]);
    assert_eq!(port.tx(&mut pool, &mut batch, sys::clock::now()), 0);
    give_all(&mut pool, &mut batch);
    assert_eq!(pool.outstanding(), 0);
}
