//! Tests of the firewall.

use super::*;
use crate::samples::{Frames, ipv4, ipv6, tcp, udp};
use crate::{PortRange, Prefix, Selector};

const INSIDE: PortId = PortId(0);
const OUTSIDE: PortId = PortId(1);
const ENDS: [&str; 2] = ["10.0.0.1:5000", "10.0.1.2:80"];

fn rule(action: Action, change: impl FnOnce(&mut FirewallRule)) -> FirewallRule {
    let mut rule = FirewallRule {
        action,
        from: None,
        selector: Selector::default(),
        sources: Vec::new(),
        destinations: Vec::new(),
    };
    change(&mut rule);
    rule
}

fn settings(rules: Vec<FirewallRule>) -> FirewallSettings {
    FirewallSettings {
        rules,
        default: Action::Deny,
        not_ip: Action::Permit,
        zones: vec![vec![INSIDE], vec![OUTSIDE]],
        track: TrackSettings { connections: 256, seed: 7, ..TrackSettings::default() },
    }
}

/// RFC 6092: what is inside may begin connections.
fn simple() -> Firewall {
    let rules = vec![rule(Action::Permit, |rule| rule.from = Some(0))];
    Firewall::new(&settings(rules)).expect("it makes sense")
}

fn passes(firewall: &mut Firewall, port: PortId, packet: &[u8]) -> bool {
    let mut frames = Frames::new();
    let mut batch = frames.batch(&[packet]);
    batch[0].meta_mut().port = port;
    let mut verdicts = Verdicts::new();
    firewall.process(&mut batch, &mut verdicts, Nanos::from_secs(1000));
    assert_eq!(batch[0].bytes(), packet, "it changes no packet");
    frames.give(batch);
    verdicts[0] == Verdict::Next
}

fn back([from, to]: [&'static str; 2]) -> [&'static str; 2] {
    [to, from]
}

#[test]
fn what_begins_inside_passes_with_its_replies_and_what_begins_outside_does_not() {
    let mut firewall = simple();
    let six = ["[fd00::1]:5000", "[fd01::2]:53"];
    for ends in [ENDS, six] {
        assert!(!passes(&mut firewall, OUTSIDE, &udp(back(ends), b"first")));
        assert!(passes(&mut firewall, INSIDE, &udp(ends, b"ask")));
        assert!(passes(&mut firewall, OUTSIDE, &udp(back(ends), b"answer")));
    }
    let other = ["10.0.1.2:80", "10.0.0.1:5001"];
    assert!(!passes(&mut firewall, OUTSIDE, &udp(other, b"another port")));
    assert!(!passes(&mut firewall, INSIDE, &tcp(ENDS, b"in the middle")));
    let counts = *firewall.counts();
    assert_eq!((counts.opened, counts.established, counts.denied_by_default), (2, 2, 3));
    assert_eq!((counts.invalid_tcp, firewall.hits()), (1, &[2][..]));
    assert_eq!(firewall.connections(), 2);
}

#[test]
fn the_first_rule_that_matches_decides_by_zone_group_protocol_and_port() {
    let prefix = |text: &str| text.parse::<Prefix>().expect("a prefix");
    let rules = vec![
        rule(Action::Deny, |rule| {
            rule.sources = vec![prefix("10.0.0.9/32"), prefix("fd00::9/128")];
        }),
        rule(Action::Permit, |rule| {
            rule.from = Some(1);
            rule.destinations = vec![prefix("10.0.0.80/32"), prefix("fd00::80/128")];
            rule.selector.protocol = Some(17);
            rule.selector.destination_ports = PortRange::new(53, 54);
        }),
        rule(Action::Permit, |rule| rule.from = Some(0)),
    ];
    let mut firewall = Firewall::new(&settings(rules)).expect("it makes sense");
    for (port, ends, expected) in [
        (INSIDE, ["10.0.0.9:1", "10.0.1.2:53"], false),
        (INSIDE, ["[fd00::9]:1", "[fd01::2]:53"], false),
        (INSIDE, ["10.0.0.8:1", "10.0.1.2:53"], true),
        (OUTSIDE, ["10.0.1.2:1", "10.0.0.80:53"], true),
        (OUTSIDE, ["10.0.1.2:1", "10.0.0.80:55"], false),
        (OUTSIDE, ["10.0.1.2:1", "10.0.0.81:53"], false),
        (OUTSIDE, ["[fd01::2]:1", "[fd00::80]:54"], true),
        (PortId(7), ["10.0.1.2:1", "10.0.0.80:53"], true),
    ] {
        let seen = passes(&mut firewall, port, &udp(ends, b""));
        assert_eq!(seen, expected, "{port:?} {ends:?}");
    }
    // The last one is of a connection that is there, from wherever.
    assert_eq!(firewall.hits(), [2, 2, 1]);
    let mut named = Vec::new();
    firewall.named_counters(&mut |name, help, hits| named.push(format!("{name} {hits}: {help}")));
    assert!(
        named[1].starts_with("rule_2 2: Connections that met: permit protocol 17"),
        "{named:?}"
    );
    let mixed = rule(Action::Permit, |rule| {
        rule.sources = vec![prefix("10.0.0.0/8")];
        rule.destinations = vec![prefix("fd00::/8")];
    });
    let refused = Firewall::new(&settings(vec![mixed])).err();
    assert_eq!(refused, Some(FirewallError::Rule { index: 0, error: SelectorError::Versions }));
}

#[test]
fn everything_that_is_dropped_is_counted_and_names_why() {
    let mut firewall = simple();
    let echo_reply = ipv4(1, &[], &[0, 0, 0, 0, 0, 7, 0, 1]);
    let mut tiny = ipv4(6, &[], &[1; 8]);
    tiny[20..22].copy_from_slice(&[0x20, 0]);
    crate::samples::correct_checksum(&mut tiny);
    let mut later = ipv4(17, &[], &[1; 8]);
    later[20..22].copy_from_slice(&[0, 9]);
    crate::samples::correct_checksum(&mut later);
    let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], &[8, 6], &[0; 28]].concat();
    assert!(passes(&mut firewall, INSIDE, &arp));
    let mut solicitation = ipv6(58, &[135, 0, 0, 0, 0, 0, 0, 0]);
    solicitation[14 + 7] = 255;
    assert!(passes(&mut firewall, OUTSIDE, &solicitation));
    for (at, byte) in [(14 + 7, 254), (14 + 40, 137)] {
        let mut other = solicitation.clone();
        other[at] = byte;
        assert!(!passes(&mut firewall, OUTSIDE, &other), "from another link, or a redirect");
    }
    for packet in [&echo_reply, &tiny, &later, &ipv4(6, &[], &[1; 12])] {
        assert!(!passes(&mut firewall, INSIDE, packet));
    }
    let counts = *firewall.counts();
    let all = [
        counts.not_ip_permitted,
        counts.invalid_icmp,
        counts.tiny_fragment,
        counts.invalid_fragment,
        counts.unreadable,
    ];
    assert_eq!(all, [2, 3, 1, 1, 1], "{counts:?}");
}

#[test]
fn a_table_that_is_full_of_connections_in_use_lets_them_be() {
    let rules = vec![rule(Action::Permit, |rule| rule.from = Some(0))];
    let mut all = settings(rules);
    all.track.connections = 1;
    let mut firewall = Firewall::new(&all).expect("it makes sense");
    assert!(passes(&mut firewall, INSIDE, &udp(ENDS, b"ask")));
    assert!(passes(&mut firewall, OUTSIDE, &udp(back(ENDS), b"answer")));
    assert!(passes(&mut firewall, INSIDE, &udp(ENDS, b"more")));
    assert!(!passes(&mut firewall, INSIDE, &udp(["10.0.0.3:1", "10.0.1.2:9"], b"one more")));
    assert_eq!(firewall.counts().table_full, 1);
    assert!(passes(&mut firewall, OUTSIDE, &udp(back(ENDS), b"answer")));
}

#[test]
fn connections_outlive_other_rules_and_hits_go_with_what_the_rule_says() {
    let mut before = simple();
    assert!(passes(&mut before, INSIDE, &udp(ENDS, b"ask")));
    let rules = vec![
        rule(Action::Deny, |rule| rule.selector.protocol = Some(17)),
        rule(Action::Permit, |rule| rule.from = Some(0)),
    ];
    let mut other = settings(rules);
    other.track.seed = 99;
    let mut firewall = Firewall::new(&other).expect("it makes sense");
    firewall.take_over(&mut before);
    assert!(passes(&mut firewall, OUTSIDE, &udp(back(ENDS), b"answer")));
    assert!(passes(&mut firewall, INSIDE, &udp(ENDS, b"more")));
    assert!(!passes(&mut firewall, INSIDE, &udp(["10.0.0.3:1", "10.0.1.2:9"], b"new")));
    assert_eq!((firewall.hits(), firewall.counts().opened), (&[1, 1][..], 1));
}
