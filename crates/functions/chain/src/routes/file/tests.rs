//! Tables as people and routing daemons write them, and damaged ones.

use base::PortId;
use proptest::prelude::*;

use super::*;
use crate::ports::PortInterface;

fn ports() -> Ports {
    let interface = |(name, index): (&str, u32)| PortInterface {
        name: name.to_owned(),
        index,
        mac: [2, 0, 0, 0, 0, index as u8],
        mtu: 1500,
    };
    Ports::new([("eth0", 4), ("eth1", 7)].map(interface).to_vec())
}

fn routes(text: &str) -> Result<Vec<(String, NextHop)>, FileError> {
    let mut routes = Vec::new();
    let each = |prefix: Prefix, hop| routes.push((prefix.to_string(), hop));
    read(text, "table.txt", &ports(), each, |_| {})?;
    Ok(routes)
}

#[test]
fn every_kind_of_line_becomes_the_route_that_it_says() {
    let text = "# a table\n\
        10.1.0.0/16 via 10.0.0.2 dev eth1 # a comment\n\
        \n\
        10.0.0.0/24 dev eth0\n\
        default via fd00::1 dev eth1\n\
        default via 10.0.0.2 dev eth1\n\
        blackhole 10.2.0.0/16\n\
        fd01::/32 unreachable\n\
        nexthop 7 via 10.0.0.3 dev eth0\n\
        192.0.2.0/24 7\n\
        198.51.100.0/24 via fd00::1 dev eth1\r\n";
    let via = |address: &str, port| NextHop::Gateway {
        port: PortId(port),
        address: address.parse().expect("an address"),
    };
    let expected = [
        ("10.1.0.0/16", via("10.0.0.2", 1)),
        ("10.0.0.0/24", NextHop::OnLink { port: PortId(0) }),
        ("::/0", via("fd00::1", 1)),
        ("0.0.0.0/0", via("10.0.0.2", 1)),
        ("10.2.0.0/16", NextHop::Blackhole),
        ("fd01::/32", NextHop::Unreachable),
        ("192.0.2.0/24", via("10.0.0.3", 0)),
        ("198.51.100.0/24", via("fd00::1", 1)),
    ];
    let read = routes(text).expect("it is right");
    let read: Vec<_> = read.iter().map(|(prefix, hop)| (prefix.as_str(), *hop)).collect();
    assert_eq!(read, expected);
}

#[test]
fn a_wrong_line_is_named_with_its_field_and_what_is_allowed() {
    for (line, field, words) in [
        ("10.1.0.0/33 dev eth0", "destination", "such an address has 32 bits"),
        ("10.1.0.1/16 dev eth0", "destination", "10.1.0.0/16 is probably meant"),
        ("banana dev eth0", "destination", "\"banana\": not a prefix"),
        ("10.1.0.0/16", "nexthop", "is missing"),
        ("10.1.0.0/16 8", "nexthop", "which no line above describes"),
        ("10.1.0.0/16 99999999999", "nexthop", "which no line above describes"),
        ("10.1.0.0/16 via", "via", "is missing"),
        ("10.1.0.0/16 via 10.0.0 dev eth0", "via", "an address, such as"),
        ("10.1.0.0/16 via 224.0.0.1 dev eth0", "via", "no address of a router"),
        ("10.1.0.0/16 via 10.0.0.2", "dev", "is missing"),
        ("10.1.0.0/16 via 10.0.0.2 eth0", "dev", "is missing before \"eth0\""),
        ("10.1.0.0/16 dev eth2", "dev", "the chain's ports: eth0, eth1"),
        ("10.1.0.0/16 dev eth0 metric 1", "", "\"metric\" is one word too many"),
        ("10.1.0.0/16 to eth0", "", "is not understood"),
        ("fd00::/8 via 10.0.0.2 dev eth0", "via", "needs an IPv6 gateway"),
        ("nexthop x via 10.0.0.2 dev eth0", "nexthop", "a whole number from 0"),
        ("nexthop 1 10.0.0.2", "", "is not understood"),
        ("blackhole", "destination", "is missing"),
        ("\u{0}\u{7f}", "nexthop", "is missing"),
    ] {
        let error = routes(&format!("10.0.0.0/8 dev eth0\n{line}\n")).expect_err(line);
        let said = error.to_string();
        assert_eq!((error.line(), error.field()), (Some(2), field), "{said}");
        assert!(said.starts_with("table.txt, line 2: ") && said.contains(words), "{said}");
    }
}

#[test]
fn progress_reaches_the_end_of_the_text() {
    let line = "10.0.0.0/8 dev eth0\n";
    let text = line.repeat(3 * LINES_A_REPORT);
    let mut seen = Vec::new();
    read(&text, "table.txt", &ports(), |_, _| {}, |bytes| seen.push(bytes)).expect("it is right");
    assert_eq!(seen, [0, 1, 2, 3].map(|part| part * LINES_A_REPORT * line.len()));
}

proptest! {
    #[test]
    fn no_line_panics(line in "[0-9a-f:./ #a-z]{0,60}") {
        let _ = routes(&line);
    }

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        let _ = routes(&String::from_utf8_lossy(&bytes));
    }
}
