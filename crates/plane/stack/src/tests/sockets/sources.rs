//! First packets from where they cannot be.

use super::*;
use crate::{Ports, SourcePrefix, Sources};

/// Port 0 leads to 10.0.0.0/24 only.
fn only_the_link(app: &App) {
    let prefixes = [
        ("10.0.0.0", 24, Ports::of(base::PortId(0)), true),
        ("10.0.0.2", 32, Ports::NONE, false),
        ("10.0.0.255", 32, Ports::NONE, false),
        ("10.9.0.0", 16, Ports::of(base::PortId(1)), true),
    ];
    let prefixes = prefixes.map(|(first, bits, ports, is_routed)| SourcePrefix {
        first: first.parse().expect("an address"),
        bits,
        ports,
        is_routed,
    });
    let sources = Sources::new(&prefixes, Ports::NONE).expect("four are few");
    app.command_queue.command(&Command::Sources(Some(Arc::new(sources))));
}

fn from(source: &str, payload: &[u8]) -> Vec<u8> {
    let packet = wire::build::UdpPacket {
        source_mac: CLIENT,
        destination_mac: OURS,
        source: source.parse().expect("an address"),
        destination: "10.0.0.2:7".parse().expect("an address"),
        payload,
        vlan: None,
    };
    let mut bytes = vec![0; packet.len()];
    packet.write(&mut bytes).expect("it fits");
    bytes
}

/// A SYN from that source.
fn syn(source: &str) -> Vec<u8> {
    let udp = from(source, &[0; 12]);
    let mut frame = udp[..34].to_vec();
    frame[23] = 6;
    (frame[24], frame[25]) = (0, 0);
    let sum = wire::checksum::of(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    let mut tcp = [0; 20];
    tcp[..4].copy_from_slice(&udp[34..38]);
    (tcp[12], tcp[13], tcp[14]) = (0x50, 2, 0x20);
    let pseudo = [&frame[26..34], &[0, 6, 0, 20], &tcp].concat();
    tcp[16..18].copy_from_slice(&wire::checksum::of(&pseudo).to_be_bytes());
    // Total length: 40 bytes, as the datagram's.
    frame.extend(tcp);
    frame
}

const IMPOSSIBLE: [&str; 8] = [
    "10.0.0.2:9",
    "10.0.0.255:9",
    "10.9.1.1:9",
    "8.8.8.8:9",
    "127.0.0.1:9",
    "240.0.0.1:9",
    "255.255.255.255:9",
    "224.0.0.1:9",
];

#[test]
fn a_syn_from_where_it_cannot_come_from_is_answered_to_nobody() {
    let (mut bench, app) = bench(1, None);
    bench.turns(2);
    assert_eq!(bench.pass(vec![syn("10.9.1.1:8")]).len(), 1, "nobody has said what is where");
    only_the_link(&app);
    bench.turns(2);
    assert_eq!(bench.pass(vec![syn("10.0.0.1:9")]).len(), 1);
    for source in IMPOSSIBLE {
        assert_eq!(bench.pass(vec![syn(source)]).len(), 0, "{source} was answered");
    }
    bench.turns(30);
    // Some are dropped before they come to a worker.
    assert!(bench.count("bad_source") >= 4, "{}", bench.count("bad_source"));
}

#[test]
fn what_is_of_a_vlan_is_another_interfaces_and_gets_no_answer() {
    let (mut bench, app) = bench(1, None);
    let slot = datagrams(&app);
    only_the_link(&app);
    bench.turns(2);
    let tagged = |frame: Vec<u8>, tags: &[u8]| [&frame[..12], tags, &frame[12..]].concat();
    let none = [0x81, 0, 0xe0, 0];
    assert_eq!(bench.pass(vec![tagged(syn("10.0.0.1:8"), &none)]).len(), 1, "a priority alone");
    let vlans: [&[u8]; 3] =
        [&[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 7], &[0x88, 0xa8, 0, 0, 0x81, 0, 0, 7]];
    for vlan in vlans {
        assert_eq!(bench.pass(vec![tagged(syn("10.0.0.1:9"), vlan)]).len(), 0, "{vlan:?}");
        bench.pass(vec![tagged(from("10.0.0.1:9", b"hidden"), vlan)]);
    }
    assert_eq!(app.words(slot).rx_tail.load(Ordering::Relaxed), 0, "a program has it");
    bench.turns(30);
    assert_eq!(bench.count("vlans"), 6);
}

#[test]
fn a_datagram_from_where_it_cannot_come_from_is_dropped_and_teaches_nothing() {
    let (mut bench, app) = bench(1, None);
    let slot = datagrams(&app);
    only_the_link(&app);
    bench.turns(2);
    for source in IMPOSSIBLE {
        bench.pass(vec![from(source, b"forged")]);
    }
    assert_eq!(app.words(slot).rx_tail.load(Ordering::Relaxed), 0, "somebody believed it");
    bench.turns(30);
    let events = app.events();
    let asked = events.iter().any(|event| matches!(event, SocketEvent::Unresolved { .. }));
    assert!(!asked && bench.count("sources_elsewhere") >= 4, "{events:?}");
    bench.pass(vec![from("10.0.0.1:9", b"honest")]);
    assert!(app.words(slot).rx_tail.load(Ordering::Relaxed) > 0);
}
