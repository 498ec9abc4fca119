//! Tests of which packets are meant.

use super::*;

#[test]
fn ports_are_read_as_one_or_a_range() {
    assert_eq!("80".parse(), Ok(PortRange { first: 80, last: 80 }));
    assert_eq!("8000-8080".parse(), Ok(PortRange { first: 8000, last: 8080 }));
    for text in ["", "-", "80-", "-80", "+80", "90-80", "65536", "1-2-3", " 80", "http"] {
        assert_eq!(text.parse::<PortRange>(), Err(SelectorError::Ports), "{text}");
    }
}

#[test]
fn what_no_packet_can_be_is_refused_with_a_sentence() {
    let prefix = |text: &str| Some(text.parse::<Prefix>().expect("a prefix"));
    let mixed = Selector {
        source: prefix("10.0.0.0/8"),
        destination: prefix("fd00::/8"),
        ..Selector::default()
    };
    assert_eq!(mixed.compile().map(|_| ()), Err(SelectorError::Versions));
    let icmp = Selector {
        protocol: Some(1),
        destination_ports: PortRange::new(7, 7),
        ..Selector::default()
    };
    let error = icmp.compile().map(|_| ()).expect_err("ICMP has no ports");
    assert!(error.to_string().starts_with("protocol 1 has no ports"), "{error}");
}

#[test]
fn a_selector_says_what_it_is_about() {
    let mut selector = Selector::default();
    assert_eq!(selector.to_string(), "from any to any");
    selector.protocol = Some(6);
    selector.source = "10.0.0.0/8".parse().ok();
    selector.destination_ports = PortRange::new(22, 22);
    assert_eq!(selector.to_string(), "protocol 6 from 10.0.0.0/8 to any port 22");
    selector.source_ports = PortRange::new(1024, 2047);
    assert!(selector.to_string().contains("10.0.0.0/8 port 1024-2047"));
}
