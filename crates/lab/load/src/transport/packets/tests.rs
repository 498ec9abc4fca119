//! What `packets` promises, case by case.

use std::net::Ipv4Addr;

use port::memory::{MemoryPort, wire};
use shm::pool::PoolConfig;
use wire::reply;

use super::*;

const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn config(flows: u32) -> PacketsConfig {
    PacketsConfig {
        target: "10.0.0.2:7".parse().expect("it is an address"),
        sources: "10.78.0.0/24".parse().expect("it is a prefix"),
        first_port: 10_000,
        source_mac: CLIENT,
        next_hop_mac: SERVER,
        flows,
        payload_bytes: 64,
    }
}

fn pair(flows: u32) -> (Packets<MemoryPort>, MemoryPort) {
    let pool = FramePool::new(PoolConfig { frames: 64, chunk_bytes: 2048, numa_node: None })
        .expect("memory is left");
    let (ours, theirs) = wire(64);
    (Packets::new(ours, pool, config(flows)).expect("the settings are possible"), theirs)
}

/// Lets the server change and send back each packet that waits for it.
fn serve(
    packets: &mut Packets<MemoryPort>,
    server: &mut MemoryPort,
    mut change: impl FnMut(&mut shm::Frame),
) -> usize {
    let (_, pool) = packets.parts();
    let mut batch = Batch::new();
    let count = server.rx(pool, &mut batch, Nanos::ZERO);
    batch.iter_mut().for_each(&mut change);
    server.tx(pool, &mut batch, Nanos::ZERO);
    assert!(batch.is_empty());
    count
}

fn echo(frame: &mut shm::Frame) {
    let Outcome::Flow(flow) = classify(frame.bytes()) else { panic!("no request") };
    let checksum = wire::checksum::of(&frame.bytes()[14..34]);
    assert_eq!(checksum, 0, "the IP header sums up");
    reply::turn_around(frame.bytes_mut(), (flow.l3_offset, flow.l4_offset), None)
        .expect("it is a UDP packet");
}

fn requests(flows: impl Iterator<Item = u32>) -> Vec<Request> {
    flows.map(|flow| Request { index: u64::from(flow), flow, ..Request::default() }).collect()
}

#[test]
fn every_flow_is_told_apart_and_its_reply_comes_back_on_it() {
    let (mut packets, mut server) = pair(700);
    for first in (0..700).step_by(50) {
        let sent = requests(first..first + 50);
        assert_eq!(packets.send(&sent), 50);
        assert_eq!(serve(&mut packets, &mut server, echo), 50);
        let mut flows = Vec::new();
        packets.receive(|reply| {
            assert!(matches!(reply.answer, Answer::Copy(payload) if payload.len() == 64));
            flows.push(reply.flow);
        });
        assert_eq!(flows, sent.iter().map(|request| Some(request.flow)).collect::<Vec<_>>());
    }
    assert_eq!(packets.parts().1.outstanding(), 0, "every frame came home");
}

#[test]
fn without_frames_nothing_is_taken_and_that_is_counted() {
    let (mut packets, mut server) = pair(100);
    assert_eq!(packets.send(&requests(0..64)), 64);
    assert_eq!(packets.send(&requests(0..1)), 0);
    assert_eq!(packets.counters().send_full, 1);
    serve(&mut packets, &mut server, echo);
    assert_eq!(packets.receive(|_| {}), 64);
    assert_eq!(packets.send(&requests(0..1)), 1);
}

#[test]
fn packets_of_others_are_strangers() {
    let (mut packets, mut server) = pair(10);
    packets.send(&requests(0..3));
    let mut number = 0;
    // One reply from another port, one to a flow that is not ours, one that is no packet at all.
    serve(&mut packets, &mut server, |frame| {
        echo(frame);
        match number {
            0 => frame.bytes_mut()[35] ^= 1,
            1 => frame.bytes_mut()[33] = 200,
            _ => assert!(frame.set_len(10)),
        }
        number += 1;
    });
    assert_eq!(packets.receive(|_| panic!("no reply of ours")), 0);
    assert_eq!(packets.counters().strangers, 3);
}

#[test]
fn arp_for_a_source_address_is_answered_and_for_others_not() {
    let (mut packets, mut server) = pair(10);
    for (address, answered) in [([10, 78, 0, 9], 1), ([10, 79, 0, 9], 0)] {
        let question = arp::Packet {
            operation: arp::REQUEST,
            sender_mac: SERVER,
            sender: Ipv4Addr::new(10, 0, 0, 2),
            target_mac: [0; 6],
            target: address.into(),
        };
        let frame = [&[0xff; 6], &SERVER[..], &[8, 6], &question.to_bytes()].concat();
        let (_, pool) = packets.parts();
        let mut batch = Batch::new();
        let mut out = pool.take().expect("all are home");
        assert!(out.fill(&frame));
        batch.push(out);
        server.tx(pool, &mut batch, Nanos::ZERO);
        packets.receive(|_| panic!("no reply of ours"));
        let mut answers = 0;
        serve(&mut packets, &mut server, |frame| {
            let answer = arp::Packet::parse(&frame.bytes()[14..]).expect("an ARP packet");
            assert_eq!((answer.operation, answer.sender_mac), (arp::REPLY, CLIENT));
            assert_eq!(answer.sender, Ipv4Addr::from(address));
            answers += 1;
        });
        assert_eq!(answers, answered);
    }
}

#[test]
fn what_the_link_or_the_addresses_cannot_carry_is_refused() {
    let (port, _other) = wire(8);
    let pool = FramePool::new(PoolConfig::default()).expect("memory is left");
    let config = PacketsConfig { payload_bytes: 1473, ..config(1) };
    let error = Packets::new(port, pool, config).err().expect("1473 + 28 is more than 1500");
    assert!(error.to_string().contains("choose 1472 or less"), "{error}");
    let (port, _other) = wire(8);
    let pool = FramePool::new(PoolConfig::default()).expect("memory is left");
    let sources = Prefix::host(Ipv4Addr::new(10, 78, 0, 1).into());
    let config = PacketsConfig { sources, flows: 700_000, payload_bytes: 16, ..config };
    let error = Packets::new(port, pool, config).err().expect("an address has 65,536 ports");
    assert!(error.to_string().contains("at least 14 addresses"), "{error}");
}
