//! Tests of rules: each against its plain meaning.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;

use super::*;
use crate::samples::{Frames, ipv4, ipv6, tcp, udp};
use crate::{PortRange, Prefix};

const FOUR: [&str; 2] = ["10.0.0.1:5000", "10.0.1.2:80"];
const SIX: [&str; 2] = ["[fd00::1]:5000", "[fd01::2]:80"];

fn rule(action: Action, change: impl FnOnce(&mut Selector)) -> Rule {
    let mut selector = Selector::default();
    change(&mut selector);
    Rule { action, selector }
}

fn prefix(text: &str) -> Option<Prefix> {
    Some(text.parse().expect("a test writes prefixes that parse"))
}

fn port(number: u16) -> Option<PortRange> {
    PortRange::new(number, number)
}

fn judged(acl: &mut Acl, packet: &[u8]) -> Verdict {
    let mut frames = Frames::new();
    let mut batch = frames.batch(&[packet]);
    let mut verdicts = Verdicts::new();
    acl.process(&mut batch, &mut verdicts, Nanos::ZERO);
    assert_eq!(batch[0].bytes(), packet, "it changes no packet");
    frames.give(batch);
    verdicts[0]
}

#[test]
fn the_first_rule_that_matches_decides_and_is_counted() {
    let rules = [
        rule(Action::Deny, |s| s.source = prefix("10.0.0.1/32")),
        rule(Action::Permit, |s| s.source = prefix("10.0.0.0/8")),
        rule(Action::Permit, |s| s.destination_ports = port(443)),
        rule(Action::Deny, |s| s.protocol = Some(58)),
    ];
    let mut acl = Acl::new(&rules, Action::Deny, Action::Permit).expect("rules");
    for (packet, expected) in [
        (udp(FOUR, b""), Verdict::Drop),
        (udp(["10.0.0.2:1", FOUR[1]], b""), Verdict::Next),
        (tcp([SIX[0], "[fd01::2]:443"], b""), Verdict::Next),
        (tcp(SIX, b""), Verdict::Drop),
        (ipv6(58, &[128, 0, 0, 0]), Verdict::Drop),
        (udp(["11.0.0.1:1", FOUR[1]], b""), Verdict::Drop),
    ] {
        assert_eq!(judged(&mut acl, &packet), expected, "{packet:02x?}");
    }
    assert_eq!(acl.hits(), [1, 1, 1, 1]);
    let counts = AclCounters { permitted: 2, denied: 2, denied_by_default: 2, ..acl.counters };
    assert_eq!(*acl.counts(), counts);
}

#[test]
fn rules_with_ports_do_not_match_later_fragments_and_rules_without_do() {
    let mut fragment = udp(FOUR, b"something longer");
    fragment[20..22].copy_from_slice(&[0, 9]);
    let ports = rule(Action::Permit, |s| s.destination_ports = port(80));
    let mut acl = Acl::new(&[ports], Action::Deny, Action::Permit).expect("rules");
    assert_eq!(judged(&mut acl, &fragment), Verdict::Drop);
    let host = rule(Action::Permit, |s| s.destination = prefix("10.0.1.2"));
    let mut acl = Acl::new(&[ports, host], Action::Deny, Action::Permit).expect("rules");
    assert_eq!(judged(&mut acl, &fragment), Verdict::Next);
}

#[test]
fn what_cannot_be_read_for_sure_is_dropped_even_where_all_is_permitted() {
    let all = rule(Action::Permit, |_| {});
    let mut acl = Acl::new(&[all], Action::Permit, Action::Permit).expect("rules");
    let mut tiny = ipv4(6, &[], &[0, 80]);
    tiny[20] = 0x20;
    assert_eq!(judged(&mut acl, &tiny), Verdict::Drop);
    assert_eq!(judged(&mut acl, &udp(FOUR, b"")[..40]), Verdict::Drop);
    assert_eq!((acl.counts().tiny_fragment, acl.counts().unreadable), (1, 1));
    assert_eq!(acl.hits(), [0]);
}

#[test]
fn frames_without_ip_have_a_default_of_their_own() {
    let mut arp = udp(FOUR, b"");
    arp[12..14].copy_from_slice(&[8, 6]);
    for (not_ip, expected) in [(Action::Permit, Verdict::Next), (Action::Deny, Verdict::Drop)] {
        let mut acl = Acl::new(&[], Action::Deny, not_ip).expect("rules");
        assert_eq!(judged(&mut acl, &arp), expected);
        let counts = acl.counts();
        assert_eq!(counts.not_ip_permitted + counts.not_ip_denied, 1);
    }
}

#[test]
fn rules_that_make_no_sense_are_refused_by_their_number() {
    let good = rule(Action::Permit, |_| {});
    let bad = rule(Action::Permit, |s| {
        s.source = prefix("10.0.0.0/8");
        s.destination = prefix("fd00::/8");
    });
    let error = Acl::new(&[good, bad], Action::Deny, Action::Deny).map(|_| ());
    let expected = AclError::Rule { index: 1, error: SelectorError::Versions };
    assert_eq!(error, Err(expected));
    assert!(expected.to_string().starts_with("rule 2: "), "{expected}");
    let many = vec![good; RULES_MAX + 1];
    let error = Acl::new(&many, Action::Deny, Action::Deny).map(|_| ());
    assert_eq!(error, Err(AclError::TooMany(RULES_MAX + 1)));
}

/// A selector in the plain words that it was made from.
#[derive(Clone, Debug)]
struct Plain {
    source: Option<Prefix>,
    destination: Option<Prefix>,
    protocol: Option<u8>,
    ports: [Option<(u16, u16)>; 2],
}

impl Plain {
    fn rule(&self, action: Action) -> Rule {
        let range = |ports: Option<(u16, u16)>| {
            ports.map(|(first, last)| PortRange::new(first, last).expect("in order"))
        };
        let Self { source, destination, protocol, ports: [from, to] } = self.clone();
        let (source_ports, destination_ports) = (range(from), range(to));
        let selector = Selector { source, destination, protocol, source_ports, destination_ports };
        Rule { action, selector }
    }

    fn means(&self, source: SocketAddr, destination: SocketAddr, protocol: u8) -> bool {
        let is_in = |prefix: Option<Prefix>, end: SocketAddr| {
            prefix.is_none_or(|prefix| prefix.contains(end.ip()))
        };
        let is_between = |ports: Option<(u16, u16)>, end: SocketAddr| {
            ports.is_none_or(|(first, last)| first <= end.port() && end.port() <= last)
        };
        is_in(self.source, source)
            && is_in(self.destination, destination)
            && self.protocol.is_none_or(|number| number == protocol)
            && is_between(self.ports[0], source)
            && is_between(self.ports[1], destination)
    }
}

/// Ends of few networks and ports, so that rules meet them; both of one version.
fn any_end(is_six: bool) -> impl Strategy<Value = SocketAddr> {
    (0..3u8, 0..4u8, 0..6u16).prop_map(move |(net, host, port)| {
        let ip = match is_six {
            true => IpAddr::from([0xfd, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host | 4]),
            false => IpAddr::from([10, net, 0, host | 4]),
        };
        SocketAddr::new(ip, 80 + port)
    })
}

fn any_plain() -> impl Strategy<Value = Plain> {
    let prefix = |is_six: bool| {
        let bits = if is_six { vec![0u8, 8, 16, 64, 127, 128] } else { vec![0, 8, 16, 31, 32] };
        let network = any_end(is_six).prop_flat_map(move |end| {
            prop::sample::select(bits.clone()).prop_map(move |bits| Prefix::of(end.ip(), bits))
        });
        prop::option::of(network)
    };
    let ports = || {
        prop::option::weighted(0.3, (80..86u16, 80..86u16).prop_map(|(a, b)| (a.min(b), a.max(b))))
    };
    any::<bool>().prop_flat_map(move |is_six| {
        let protocol = prop::option::weighted(0.3, prop::sample::select(vec![6u8, 17]));
        (prefix(is_six), prefix(is_six), protocol, ports(), ports()).prop_map(
            |(source, destination, protocol, from, to)| Plain {
                source,
                destination,
                protocol,
                ports: [from, to],
            },
        )
    })
}

proptest! {
    #[test]
    fn rules_decide_as_their_plain_words_do(
        rules in prop::collection::vec((any_plain(), any::<bool>()), 0..12),
        packets in prop::collection::vec(any::<bool>().prop_flat_map(|is_six| {
            (any_end(is_six), any_end(is_six), any::<bool>())
        }), 1..20),
    ) {
        let action = |permits| if permits { Action::Permit } else { Action::Deny };
        let table: Vec<Rule> = rules.iter().map(|(plain, permits)| plain.rule(action(*permits))).collect();
        let mut acl = Acl::new(&table, Action::Deny, Action::Deny).expect("rules");
        for (source, destination, is_tcp) in packets {
            let ends = [source.to_string(), destination.to_string()];
            let ends = [&ends[0][..], &ends[1][..]];
            let (packet, protocol) = if is_tcp { (tcp(ends, b""), 6) } else { (udp(ends, b""), 17) };
            let permits = rules
                .iter()
                .find(|(plain, _)| plain.means(source, destination, protocol))
                .is_some_and(|(_, permits)| *permits);
            let expected = if permits { Verdict::Next } else { Verdict::Drop };
            prop_assert_eq!(judged(&mut acl, &packet), expected, "{} > {}", source, destination);
        }
    }

    #[test]
    fn a_packet_that_is_denied_changes_nothing_for_the_others(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..20),
    ) {
        let rules = [rule(Action::Permit, |s| s.protocol = Some(17))];
        let mut frames = Frames::new();
        let slices: Vec<&[u8]> = packets.iter().map(|packet| &packet[..]).collect();
        let mut batch = frames.batch(&slices);
        let mut verdicts = Verdicts::new();
        let mut together = Acl::new(&rules, Action::Deny, Action::Permit).expect("rules");
        together.process(&mut batch, &mut verdicts, Nanos::ZERO);
        let mut alone = Acl::new(&rules, Action::Deny, Action::Permit).expect("rules");
        for (index, packet) in packets.iter().enumerate() {
            prop_assert_eq!(batch[index].bytes(), &packet[..]);
            prop_assert_eq!(verdicts[index], judged(&mut alone, packet));
        }
        prop_assert_eq!(together.counts(), alone.counts());
        frames.give(batch);
    }
}
