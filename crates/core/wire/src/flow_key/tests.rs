//! What `wire::flow_key` promises, case by case.

use super::*;
use crate::samples::any_flow;
use proptest::prelude::*;
use std::collections::HashSet;

#[test]
fn flow_is_printed_as_people_write_it_and_read_back() {
    for text in [
        "udp 10.0.0.1:5000 -> 10.0.0.2:7",
        "tcp [fd00::1]:65535 -> [fd00::2]:0",
        "tcp [::ffff:1.2.3.4]:1 -> [::]:2",
    ] {
        let flow: FlowKey = text.parse().expect(text);
        assert_eq!(flow.to_string(), text);
        assert_eq!(format!("{flow:?}"), text);
    }
}

#[test]
fn wrong_text_is_refused_with_what_to_write() {
    for (text, part) in [
        ("", "write it like `udp 10.0.0.1:5000 -> 10.0.0.2:7`"),
        ("udp 10.0.0.1:5000 10.0.0.2:7", "is no flow"),
        ("udp 10.0.0.1:5000 -> 10.0.0.2:7 x", "is no flow"),
        ("sctp 10.0.0.1:5000 -> 10.0.0.2:7", "`sctp` is no protocol of flows: write tcp or udp"),
        ("udp 10.0.0.1 -> 10.0.0.2:7", "`10.0.0.1` is no address with a port"),
        ("udp 10.0.0.1:1 -> fd00::2:7", "`fd00::2:7` is no address with a port"),
        ("udp 10.0.0.1:1 -> [fd00::2]:7", "different IP versions"),
    ] {
        let error = text.parse::<FlowKey>().expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn ipv6_address_with_the_number_of_an_ipv4_address_is_another_flow() {
    let four: FlowKey = "udp 1.2.3.4:1 -> 1.2.3.4:2".parse().expect("a flow");
    let six: FlowKey = "udp [::1.2.3.4]:1 -> [::1.2.3.4]:2".parse().expect("a flow");
    assert_ne!(four, six);
    assert_ne!(four.id(), six.id());
}

#[test]
fn protocols_have_the_numbers_of_the_ip_header() {
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        assert_eq!(Protocol::from_number(protocol.number()), Some(protocol));
        assert_eq!(protocol.name().parse(), Ok(protocol));
    }
    assert_eq!((Protocol::Tcp.number(), Protocol::Udp.number()), (6, 17));
    assert_eq!(Protocol::from_number(1), None);
}

#[test]
fn ids_of_neighbouring_flows_do_not_collide_and_fill_every_low_bit_pattern() {
    let mut ids = HashSet::new();
    let mut buckets = [0_u32; 256];
    for host in 0..64_u8 {
        for port in 0..1024_u16 {
            let source = (IpAddr::from([10, 0, 0, host]), port).into();
            let key = FlowKey::new(Protocol::Udp, source, ([10, 0, 1, 1], 7).into());
            let id = key.expect("one IP version").id();
            assert!(ids.insert(id));
            buckets[usize::from(id.to_be_bytes()[7])] += 1;
        }
    }
    // 65,536 balls in 256 bins: 256 each, and six standard deviations are 96.
    assert!(buckets.iter().all(|count| (160..=352).contains(count)), "{buckets:?}");
}

#[test]
fn id_depends_on_every_part_of_the_tuple() {
    let mut ids = HashSet::new();
    let flows = [
        "udp 1.0.0.1:1 -> 1.0.0.2:2",
        "tcp 1.0.0.1:1 -> 1.0.0.2:2",
        "udp 2.0.0.1:1 -> 1.0.0.2:2",
        "udp 1.0.0.1:2 -> 1.0.0.2:2",
        "udp 1.0.0.1:1 -> 2.0.0.2:2",
        "udp 1.0.0.1:1 -> 1.0.0.2:1",
        "udp [1::1]:1 -> [1::2]:2",
        "tcp [1::1]:1 -> [1::2]:2",
        "udp [2::1]:1 -> [1::2]:2",
        "udp [1::2]:1 -> [1::2]:2",
        "udp [1::1]:2 -> [1::2]:2",
        "udp [1::1]:1 -> [2::2]:2",
        "udp [1::1]:1 -> [1::1]:2",
        "udp [1::1]:1 -> [1::2]:1",
    ];
    for flow in flows {
        assert!(ids.insert(flow.parse::<FlowKey>().expect(flow).id()), "{flow}");
    }
}

proptest! {
    #[test]
    fn parts_come_out_as_they_went_in(
        v4 in any::<([u8; 4], [u8; 4])>(), v6 in any::<([u8; 16], [u8; 16])>(),
        ports in any::<(u16, u16)>(),
    ) {
        for (from, to) in [
            (SocketAddr::from((v4.0, ports.0)), SocketAddr::from((v4.1, ports.1))),
            (SocketAddr::from((v6.0, ports.0)), SocketAddr::from((v6.1, ports.1))),
        ] {
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                let flow = FlowKey::new(protocol, from, to).expect("one IP version");
                prop_assert_eq!((flow.protocol(), flow.source(), flow.destination()), (protocol, from, to));
                prop_assert_eq!(flow.is_ipv6(), from.is_ipv6());
                prop_assert_eq!(flow.to_string().parse(), Ok(flow));
            }
        }
        let (four, six) = ((v4.0, ports.0).into(), (v6.0, ports.0).into());
        prop_assert_eq!(FlowKey::new(Protocol::Udp, four, six), None);
    }

    #[test]
    fn reversed_exchanges_the_ends_and_nothing_else(flow in any_flow()) {
        let answer = flow.reversed();
        prop_assert_eq!(answer.source(), flow.destination());
        prop_assert_eq!(answer.destination(), flow.source());
        prop_assert_eq!(answer.protocol(), flow.protocol());
        prop_assert_eq!(answer.reversed(), flow);
    }
}
