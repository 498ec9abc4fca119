//! The program under the real verifier and BPF_PROG_TEST_RUN; needs root.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};

use super::*;
use crate::xdp::bpf::{self, MAP_TYPE_XSKMAP, Map};
use crate::xdp::ours::{Destination, Ours, Protocol};
use crate::xdp::station_map::StationMap;
use crate::xdp::{Flow, Flows};

/// What the kernel answers for a packet that goes to the socket, and to the kernel.
const XDP_REDIRECT: u32 = 4;
const PASSED: u32 = 2;

/// To which the packets here are.
const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// The program, loaded, with a socket at queue 0 so that redirection has somewhere to go.
struct Loaded {
    program: std::os::fd::OwnedFd,
    ours: Ours,
    flows: Flows,
    stations: StationMap,
    sockets: Map,
    socket: std::os::fd::OwnedFd,
}

impl Loaded {
    fn new(take: Take) -> Self {
        Self::on_link(take, None)
    }

    /// One for a link on which longer packets than `mtu` come.
    fn on_link(take: Take, mtu: Option<u32>) -> Self {
        let ours = Ours::create().expect("the tests of XDP run as root");
        let sockets = Map::create(MAP_TYPE_XSKMAP, "test", 4, 4, 4, 0).expect("root may");
        let flows = Flows::create().expect("the tests of XDP run as root");
        let stations = StationMap::create().expect("the tests of XDP run as root");
        stations.set(&[OUR_MAC]).expect("there is room");
        let taken = Taken {
            ours_fd: ours.as_fd().as_raw_fd(),
            flows_fd: flows.as_fd().as_raw_fd(),
            stations_fd: stations.as_fd().as_raw_fd(),
        };
        let program = assemble(take, taken, sockets.as_fd().as_raw_fd(), None, mtu);
        let program = bpf::load("test", &program, mtu.is_some()).unwrap_or_else(|refused| {
            panic!("{}: {}", refused.errno, refused.log);
        });
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::from_raw(libc::AF_XDP as u16),
            rustix::net::SocketType::RAW,
            None,
        )
        .expect("root may open AF_XDP sockets");
        let fd = socket.as_fd().as_raw_fd().to_ne_bytes();
        sockets.update(&0u32.to_ne_bytes(), &fd).expect("queue 0 is in the map");
        Self { program, ours, flows, stations, sockets, socket }
    }

    fn add(&self, protocol: Protocol, address: Option<&str>, port: Option<u16>) -> Destination {
        let address = address.map(|text| text.parse::<IpAddr>().expect("an address"));
        let destination = Destination { protocol, address, port };
        self.ours.add(destination).expect("the map has room");
        destination
    }

    fn takes(&self, packet: &[u8]) -> bool {
        match bpf::test_run(&self.program, packet).expect("the kernel runs it") {
            XDP_REDIRECT => true,
            PASSED => false,
            other => panic!("the program answered {other}"),
        }
    }
}

fn ethernet(tags: &[u16], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = [OUR_MAC, [2, 0, 0, 0, 0, 2]].concat();
    for tag_protocol in tags {
        packet.extend_from_slice(&tag_protocol.to_be_bytes());
        packet.extend_from_slice(&7u16.to_be_bytes());
    }
    packet.extend_from_slice(&kind.to_be_bytes());
    packet.extend_from_slice(payload);
    packet
}

fn ports(port: u16) -> Vec<u8> {
    [&[0x30, 0x39][..], &port.to_be_bytes(), &[0, 8, 0, 0], &[0; 12]].concat()
}

/// An IPv4 packet to 10.1.2.3 with `options` words of options and the given fragment field.
fn ipv4(protocol: u8, options: usize, fragment: u16, port: u16) -> Vec<u8> {
    let mut header = vec![0u8; 20 + 4 * options];
    header[0] = 0x45 + options as u8;
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    header[8] = 64;
    header[9] = protocol;
    header[16..20].copy_from_slice(&[10, 1, 2, 3]);
    [header, ports(port)].concat()
}

/// An IPv6 packet to 2001:db8::3.
fn ipv6(next_header: u8, port: u16) -> Vec<u8> {
    let mut header = vec![0u8; 40];
    header[0] = 0x60;
    header[6] = next_header;
    header[24..40].copy_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
    [header, ports(port)].concat()
}

#[test]
fn datagrams_longer_than_the_link_takes_are_the_kernels_and_segments_are_not() {
    for (version, kind) in [(4, 0x0800), (6, 0x86dd)] {
        let loaded = Loaded::on_link(Take::Ours, Some(1500));
        loaded.add(Protocol::Udp, None, Some(7000));
        loaded.add(Protocol::Tcp, None, Some(7000));
        for (protocol, bytes, is_taken) in
            [(17, 1500u16, true), (17, 1501, false), (17, 60_000, false), (6, 60_000, true)]
        {
            let mut packet =
                if version == 4 { ipv4(protocol, 0, 0, 7000) } else { ipv6(protocol, 7000) };
            // What IPv6 says of its length leaves out its header.
            let (at, said) = if version == 4 { (2, bytes) } else { (4, bytes - 40) };
            packet[at..at + 2].copy_from_slice(&said.to_be_bytes());
            let takes = loaded.takes(&ethernet(&[], kind, &packet));
            assert_eq!(takes, is_taken, "version {version}, protocol {protocol}, {bytes} bytes");
        }
    }
}

#[test]
fn only_the_exact_destination_is_taken() {
    let loaded = Loaded::new(Take::Ours);
    let packet = ethernet(&[], 0x0800, &ipv4(17, 0, 0, 7000));
    assert!(!loaded.takes(&packet), "nothing is ours yet");
    let destination = loaded.add(Protocol::Udp, Some("10.1.2.3"), Some(7000));
    assert!(loaded.takes(&packet));
    assert!(!loaded.takes(&ethernet(&[], 0x0800, &ipv4(17, 0, 0, 7001))), "another port");
    assert!(!loaded.takes(&ethernet(&[], 0x0800, &ipv4(6, 0, 0, 7000))), "another protocol");
    assert!(!loaded.takes(&ethernet(&[], 0x86dd, &ipv6(17, 7000))), "another family");
    assert!(loaded.ours.contains(destination).expect("the map is there"));
    assert_eq!(loaded.ours.list().expect("the map is there"), [destination]);
    assert!(loaded.ours.remove(destination).expect("the map is there"));
    assert!(!loaded.ours.remove(destination).expect("the map is there"), "it is gone already");
    assert!(!loaded.takes(&packet));
}

#[test]
fn of_a_connection_only_its_own_peer_is_taken() {
    for (kind, packet, local, remotes) in [
        (
            0x0800,
            ipv4(6, 0, 0, 7000),
            "10.1.2.3:7000",
            ["0.0.0.0:12345", "0.0.0.0:12346", "9.9.9.9:12345"],
        ),
        (0x86dd, ipv6(6, 7000), "[2001:db8::3]:7000", ["[::]:12345", "[::]:12346", "[::9]:12345"]),
    ] {
        let loaded = Loaded::new(Take::Ours);
        let packet = ethernet(&[], kind, &packet);
        let local = local.parse().expect("an address");
        let [peer, others @ ..] = remotes.map(|remote| {
            let remote = remote.parse().expect("an address");
            Flow { protocol: Protocol::Tcp, local, remote }
        });
        for other in others {
            loaded.flows.add(other).expect("the map has room");
            assert!(!loaded.takes(&packet), "{other}");
        }
        let datagrams = Flow { protocol: Protocol::Udp, ..peer };
        loaded.flows.add(datagrams).expect("the map has room");
        assert!(!loaded.takes(&packet), "another protocol");
        loaded.flows.add(peer).expect("the map has room");
        assert!(loaded.takes(&packet) && loaded.flows.contains(peer).expect("the map is there"));
        assert!(loaded.flows.remove(peer).expect("the map is there"));
        assert!(!loaded.flows.remove(peer).expect("the map is there"), "it is gone already");
        assert!(!loaded.takes(&packet));
    }
}

#[test]
fn an_error_about_a_connection_is_taken_and_about_another_of_its_port_is_not() {
    let loaded = Loaded::new(Take::Ours);
    let local = "10.1.2.3:80".parse().expect("an address");
    let flow = |remote: &str| Flow {
        protocol: Protocol::Tcp,
        local,
        remote: remote.parse().expect("an address"),
    };
    let mut quote = quoted_ipv4(6, 0, 0, 80);
    // Its destination.
    quote[16..20].copy_from_slice(&[10, 9, 9, 9]);
    let port = u16::from_be_bytes([quote[22], quote[23]]);
    loaded.flows.add(flow(&format!("10.9.9.8:{port}"))).expect("the map has room");
    assert!(!loaded.takes(&icmp(&[], 0, 3, &quote)), "another peer");
    loaded.flows.add(flow(&format!("10.9.9.9:{}", port ^ 1))).expect("the map has room");
    assert!(!loaded.takes(&icmp(&[], 0, 3, &quote)), "another port");
    loaded.flows.add(flow(&format!("10.9.9.9:{port}"))).expect("the map has room");
    assert!(loaded.takes(&icmp(&[], 0, 3, &quote)));
}

#[test]
fn wildcards_take_what_they_say() {
    let v4 = ethernet(&[], 0x0800, &ipv4(6, 0, 0, 80));
    let v6 = ethernet(&[], 0x86dd, &ipv6(6, 80));
    let other_port = ethernet(&[], 0x0800, &ipv4(6, 0, 0, 81));
    for (address, port, takes) in [
        (None, Some(80), [true, true, false]),
        (Some("10.1.2.3"), None, [true, false, true]),
        (Some("2001:db8::3"), None, [false, true, false]),
        (Some("2001:db8::3"), Some(80), [false, true, false]),
        (None, None, [true, true, true]),
        (Some("10.1.2.4"), Some(80), [false, false, false]),
        // An address made of zeros is an address, not a wildcard.
        (Some("0.0.0.0"), Some(80), [false, false, false]),
        (Some("::"), Some(80), [false, false, false]),
    ] {
        let loaded = Loaded::new(Take::Ours);
        loaded.add(Protocol::Tcp, address, port);
        let answers = [&v4, &v6, &other_port].map(|packet| loaded.takes(packet));
        assert_eq!(answers, takes, "{address:?} {port:?}");
        assert!(!loaded.takes(&ethernet(&[], 0x0800, &ipv4(17, 0, 0, 80))), "UDP is not TCP");
    }
}

#[test]
fn tags_and_options_are_stepped_over() {
    let loaded = Loaded::new(Take::Ours);
    loaded.add(Protocol::Udp, None, Some(53));
    for options in [0, 1, 10] {
        for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100], &[0x8100, 0x8100]] {
            let packet = ethernet(tags, 0x0800, &ipv4(17, options, 0, 53));
            assert!(loaded.takes(&packet), "{options} {tags:x?}");
        }
    }
    assert!(loaded.takes(&ethernet(&[0x8100], 0x86dd, &ipv6(17, 53))));
    let triple = ethernet(&[0x88a8, 0x8100, 0x8100], 0x0800, &ipv4(17, 0, 0, 53));
    assert!(!loaded.takes(&triple), "three tags are the kernel's");
}

#[test]
fn fragments_go_to_the_kernel_whole() {
    let loaded = Loaded::new(Take::Ours);
    loaded.add(Protocol::Udp, None, Some(53));
    // Of IPv6: the first part has its ports behind the fragment header.
    for part in [[0, 1], [0, 8], [0, 9], [0, 0]] {
        let header = [&[17, 0][..], &part, &[0, 0, 0, 7]].concat();
        let mut packet = ipv6(44, 53);
        packet.splice(40..40, header);
        assert!(!loaded.takes(&ethernet(&[], 0x86dd, &packet)), "{part:x?}");
    }
    for fragment in [0x2000, 0x0001, 0x2001, 0x1fff] {
        let packet = ethernet(&[], 0x0800, &ipv4(17, 0, fragment, 53));
        assert!(!loaded.takes(&packet), "{fragment:x}");
    }
    // "Don't fragment" and the reserved bit make no fragment.
    for fragment in [0x4000, 0x8000] {
        assert!(loaded.takes(&ethernet(&[], 0x0800, &ipv4(17, 0, fragment, 53))), "{fragment:x}");
    }
}

/// The start of a packet that somebody at 10.1.2.3 sent from `port`, as an error quotes it.
fn quoted_ipv4(protocol: u8, options: usize, fragment: u16, port: u16) -> Vec<u8> {
    let mut packet = ipv4(protocol, options, fragment, 9);
    packet.copy_within(16..20, 12);
    packet[16..20].copy_from_slice(&[192, 0, 2, 9]);
    let ports = 20 + 4 * options;
    packet[ports..ports + 2].copy_from_slice(&port.to_be_bytes());
    packet
}

fn quoted_ipv6(next_header: u8, port: u16) -> Vec<u8> {
    let mut packet = ipv6(next_header, 9);
    packet.copy_within(24..40, 8);
    packet[39] = 9;
    packet[40..42].copy_from_slice(&port.to_be_bytes());
    packet
}

/// An ICMP error from a router with `options` words of options, on a link with these tags.
fn icmp(tags: &[u16], options: usize, kind: u8, quote: &[u8]) -> Vec<u8> {
    let mut packet = ipv4(1, options, 0, 0);
    packet.truncate(20 + 4 * options);
    ethernet(tags, 0x0800, &[&packet[..], &[kind, 0, 0, 0, 0, 0, 0, 0], quote].concat())
}

fn icmpv6(tags: &[u16], kind: u8, quote: &[u8]) -> Vec<u8> {
    let mut packet = ipv6(58, 0);
    packet.truncate(40);
    ethernet(tags, 0x86dd, &[&packet[..], &[kind, 0, 0, 0, 0, 0, 0, 0], quote].concat())
}

#[test]
fn an_icmp_error_about_what_we_sent_is_taken() {
    let loaded = Loaded::new(Take::Ours);
    loaded.add(Protocol::Tcp, Some("10.1.2.3"), Some(80));
    loaded.add(Protocol::Udp, Some("2001:db8::3"), Some(53));
    for kind in [3, 11, 12] {
        assert!(loaded.takes(&icmp(&[], 0, kind, &quoted_ipv4(6, 0, 0, 80))), "type {kind}");
    }
    for kind in 1..=4 {
        assert!(loaded.takes(&icmpv6(&[], kind, &quoted_ipv6(17, 53))), "type {kind}");
    }
    for tags in [&[0x8100][..], &[0x88a8, 0x8100]] {
        for (outer, inner) in [(0, 3), (10, 0), (10, 10)] {
            let quote = quoted_ipv4(6, inner, 0, 80);
            assert!(loaded.takes(&icmp(tags, outer, 3, &quote)), "{tags:x?} {outer} {inner}");
        }
        assert!(loaded.takes(&icmpv6(tags, 2, &quoted_ipv6(17, 53))), "{tags:x?}");
    }
    // The first part of a packet that was cut on its way has the ports.
    assert!(loaded.takes(&icmp(&[], 0, 11, &quoted_ipv4(6, 0, 0x2000, 80))));
}

#[test]
fn an_icmp_error_about_what_others_sent_goes_to_the_kernel() {
    let loaded = Loaded::new(Take::Ours);
    loaded.add(Protocol::Tcp, Some("10.1.2.3"), Some(80));
    loaded.add(Protocol::Tcp, Some("2001:db8::3"), Some(80));
    let passes = |packet: Vec<u8>, what: &str| assert!(!loaded.takes(&packet), "{what}");
    passes(icmp(&[], 0, 3, &quoted_ipv4(6, 0, 0, 81)), "another port");
    passes(icmp(&[], 0, 3, &quoted_ipv4(17, 0, 0, 80)), "another protocol");
    passes(icmp(&[], 0, 3, &ipv4(6, 0, 0, 80)), "a packet to us, not from us");
    passes(icmpv6(&[], 1, &quoted_ipv6(6, 81)), "another port");
    passes(icmpv6(&[], 1, &ipv6(6, 80)), "a packet to us, not from us");
    let mut elsewhere = quoted_ipv6(6, 80);
    elsewhere[23] = 4;
    passes(icmpv6(&[], 1, &elsewhere), "another address");
}

#[test]
fn icmp_that_is_no_error_about_a_flow_goes_to_the_kernel() {
    let loaded = Loaded::new(Take::Ours);
    loaded.add(Protocol::Tcp, None, None);
    loaded.add(Protocol::Udp, None, None);
    for kind in (0..=255).filter(|kind| ![3, 11, 12].contains(kind)) {
        assert!(!loaded.takes(&icmp(&[], 0, kind, &quoted_ipv4(6, 0, 0, 80))), "type {kind}");
    }
    for kind in (0..=255).filter(|kind| !(1..=4).contains(kind)) {
        assert!(!loaded.takes(&icmpv6(&[], kind, &quoted_ipv6(6, 80))), "type {kind}");
    }
    for protocol in [0, 1, 4, 41, 44, 47, 50, 58, 132] {
        let quote = quoted_ipv4(protocol, 0, 0, 80);
        assert!(!loaded.takes(&icmp(&[], 0, 3, &quote)), "protocol {protocol}");
        assert!(!loaded.takes(&icmpv6(&[], 1, &quoted_ipv6(protocol, 80))), "header {protocol}");
    }
    // A quote of the other family, and the other family's ICMP.
    assert!(!loaded.takes(&icmp(&[], 0, 3, &quoted_ipv6(6, 80))));
    assert!(!loaded.takes(&icmpv6(&[], 1, &quoted_ipv4(6, 5, 0, 80))));
    let mut crossed = icmp(&[], 0, 3, &quoted_ipv4(6, 0, 0, 80));
    crossed[14 + 9] = 58;
    assert!(!loaded.takes(&crossed));
    let mut crossed = icmpv6(&[], 1, &quoted_ipv6(6, 80));
    crossed[14 + 6] = 1;
    assert!(!loaded.takes(&crossed));
    let mut other_version = quoted_ipv6(6, 80);
    other_version[0] = 0x40;
    assert!(!loaded.takes(&icmpv6(&[], 1, &other_version)));
    // A quote whose header is shorter than a header, and one of a later part, without ports.
    let mut wrong = quoted_ipv4(6, 0, 0, 80);
    wrong[0] = 0x44;
    assert!(!loaded.takes(&icmp(&[], 0, 3, &wrong)));
    assert!(!loaded.takes(&icmp(&[], 0, 3, &quoted_ipv4(6, 0, 1, 80))));
}

#[test]
fn an_icmp_error_that_is_itself_a_fragment_goes_to_the_kernel() {
    let loaded = Loaded::new(Take::Ours);
    loaded.add(Protocol::Tcp, None, None);
    for fragment in [0x2000u16, 0x0001] {
        let mut packet = icmp(&[], 0, 3, &quoted_ipv4(6, 0, 0, 80));
        packet[14 + 6..14 + 8].copy_from_slice(&fragment.to_be_bytes());
        assert!(!loaded.takes(&packet), "{fragment:x}");
    }
}

#[test]
fn an_icmp_error_cut_anywhere_before_the_quoted_ports_end_goes_to_the_kernel() {
    let loaded = Loaded::new(Take::Ours);
    loaded.add(Protocol::Tcp, None, None);
    for (packet, headers) in [
        (icmp(&[0x8100], 2, 3, &quoted_ipv4(6, 3, 0, 80)), 14 + 4 + 28 + 8 + 32 + 8),
        (icmpv6(&[], 1, &quoted_ipv6(6, 80)), 14 + 40 + 8 + 40 + 8),
    ] {
        for len in 14..packet.len() {
            assert_eq!(loaded.takes(&packet[..len]), len >= headers, "{len} of {headers}");
        }
    }
}

#[test]
fn what_has_no_ports_where_we_look_goes_to_the_kernel() {
    let loaded = Loaded::new(Take::Ours);
    loaded.add(Protocol::Udp, None, None);
    loaded.add(Protocol::Tcp, None, None);
    for kind in [0x0806, 0x88cc, 0x8847] {
        assert!(!loaded.takes(&ethernet(&[], kind, &[0; 64])), "type {kind:x}");
    }
    for next_header in [0, 43, 44, 50, 58, 59, 60] {
        let packet = ethernet(&[], 0x86dd, &ipv6(next_header, 53));
        assert!(!loaded.takes(&packet), "next header {next_header}");
    }
    assert!(!loaded.takes(&ethernet(&[], 0x0800, &ipv4(1, 0, 0, 53))), "ICMP");
    let mut wrong = ipv4(17, 0, 0, 53);
    wrong[0] = 0x44;
    assert!(!loaded.takes(&ethernet(&[], 0x0800, &wrong)), "a header shorter than a header");
    wrong[0] = 0x65;
    assert!(!loaded.takes(&ethernet(&[], 0x0800, &wrong)), "version 6 in an IPv4 type");
}

#[test]
fn a_packet_cut_anywhere_before_its_ports_goes_to_the_kernel() {
    let loaded = Loaded::new(Take::Ours);
    loaded.add(Protocol::Udp, None, None);
    for (packet, headers) in [
        (ethernet(&[0x8100], 0x0800, &ipv4(17, 3, 0, 53)), 14 + 4 + 32 + 8),
        (ethernet(&[], 0x86dd, &ipv6(17, 53)), 14 + 40 + 8),
    ] {
        // The kernel's test run takes no packet shorter than an Ethernet header.
        for len in 14..packet.len() {
            assert_eq!(loaded.takes(&packet[..len]), len >= headers, "{len} of {headers}");
        }
    }
}

#[test]
fn of_what_a_wildcard_covers_only_what_is_to_a_link_address_of_this_host_is_taken() {
    let addresses: [[u8; 6]; 8] = std::array::from_fn(|at| [2, 0, 0, 0, at as u8, 1]);
    let to = |mac: [u8; 6], tags: &[u16], kind, payload: &[u8]| {
        let mut packet = ethernet(tags, kind, payload);
        packet[..6].copy_from_slice(&mac);
        packet
    };
    let others = [
        [0; 6],
        [0xff; 6],
        [3, 0, 0, 0, 0, 1],
        [1, 0, 0x5e, 0, 0, 1],
        [2, 0, 0, 0, 8, 1],
        [2, 0, 0, 0, 0, 2],
        [2, 1, 0, 0, 0, 1],
    ];
    for port in [Some(7000), None] {
        let loaded = Loaded::new(Take::Ours);
        loaded.add(Protocol::Udp, None, port);
        for (tags, kind, payload) in [
            (&[][..], 0x0800, ipv4(17, 0, 0, 7000)),
            (&[0x8100], 0x0800, ipv4(17, 0, 0, 7000)),
            (&[0x88a8, 0x8100], 0x86dd, ipv6(17, 7000)),
        ] {
            loaded.stations.set(&addresses).expect("there is room");
            for mac in addresses {
                assert!(loaded.takes(&to(mac, tags, kind, &payload)), "{mac:x?}");
            }
            for mac in others {
                assert!(!loaded.takes(&to(mac, tags, kind, &payload)), "{mac:x?}");
            }
            loaded.stations.set(&[others[4]]).expect("there is room");
            assert!(loaded.takes(&to(others[4], tags, kind, &payload)), "it is ours now");
            assert!(!loaded.takes(&to(addresses[0], tags, kind, &payload)), "and it no more");
        }
    }
}

#[test]
fn what_is_to_an_address_of_this_host_is_taken_by_whichever_link_address_it_comes() {
    let loaded = Loaded::new(Take::Ours);
    loaded.stations.set(&[[6; 6]]).expect("there is room");
    let packet = ethernet(&[], 0x0800, &ipv4(17, 0, 0, 7000));
    assert!(!loaded.takes(&packet));
    for port in [Some(7000), None] {
        let destination = loaded.add(Protocol::Udp, Some("10.1.2.3"), port);
        assert!(loaded.takes(&packet), "{destination}");
        loaded.ours.remove(destination).expect("it is there");
    }
}

#[test]
fn a_queue_without_a_socket_leaves_its_packets_to_the_kernel() {
    let loaded = Loaded::new(Take::Everything);
    let arp = ethernet(&[], 0x0806, &[0; 46]);
    assert!(loaded.takes(&arp), "everything is everything");
    loaded.sockets.delete(&0u32.to_ne_bytes()).expect("it was there");
    assert!(!loaded.takes(&arp));
    drop(loaded.socket);
}

#[test]
fn a_refused_program_tells_what_the_verifier_said() {
    let mut asm = Assembler::default();
    asm.load(Size::Word, R0, R7, 0);
    asm.exit();
    let refused = bpf::load("bad", &asm.finish(), false).expect_err("R7 was never set");
    assert!(refused.log.contains("R7 !read_ok"), "{}", refused.log);
}

#[test]
fn a_full_map_and_port_zero_are_refused_with_a_sentence() {
    let loaded = Loaded::new(Take::Ours);
    let zero = Destination { protocol: Protocol::Udp, address: None, port: Some(0) };
    let error = loaded.ours.add(zero).expect_err("it would mean any port").to_string();
    assert!(error.contains("leave the port out"), "{error}");
    for port in 1..=u16::MAX {
        loaded.add(Protocol::Udp, Some("10.0.0.1"), Some(port));
    }
    loaded.add(Protocol::Udp, Some("10.0.0.2"), Some(1));
    let more = Destination { protocol: Protocol::Udp, address: None, port: Some(9) };
    let error = loaded.ours.add(more).expect_err("65,536 are in").to_string();
    assert!(error.contains("use wildcards"), "{error}");
    assert_eq!(loaded.ours.list().expect("it can be read").len(), 65_536);
}
