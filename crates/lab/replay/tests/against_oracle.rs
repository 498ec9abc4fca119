//! Random captures of every kind against a count made while they were generated.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::*;
use proptest::prelude::*;
use replay::{Options, Report};

/// One packet of a random capture.
#[derive(Clone, Debug)]
enum Packet {
    Flow {
        is_tcp: bool,
        is_ipv6: bool,
        from: u8,
        to: u8,
        payload: usize,
    },
    /// Wrong by one bit of its payload's checksum.
    Damaged {
        from: u8,
    },
    Arp,
    Echo,
    Multicast,
    Fragment,
    Empty,
    /// Shorter than any link's header but Ethernet's, which the data path looks at itself.
    Stub,
}

fn packet() -> impl Strategy<Value = Packet> {
    let payload = prop_oneof![8 => 0..200_usize, 2 => 200..1500_usize, 1 => 1500..9000_usize];
    let flow = (any::<bool>(), any::<bool>(), 0..6_u8, 0..6_u8, payload).prop_map(
        |(is_tcp, is_ipv6, from, to, payload)| Packet::Flow { is_tcp, is_ipv6, from, to, payload },
    );
    prop_oneof![
        12 => flow,
        1 => (0..6_u8).prop_map(|from| Packet::Damaged { from }),
        1 => Just(Packet::Arp),
        1 => Just(Packet::Echo),
        1 => Just(Packet::Multicast),
        1 => Just(Packet::Fragment),
        1 => Just(Packet::Empty),
        1 => Just(Packet::Stub),
    ]
}

/// Hosts 0 to 2 and 3 to 5 share addresses and differ in ports, so that conversations have two
/// directions and near misses.
fn end(host: u8, is_ipv6: bool) -> String {
    let (address, port) = (host % 3 + 1, 2000 + u16::from(host / 3));
    if is_ipv6 { format!("[fd00::{address}]:{port}") } else { format!("10.0.0.{address}:{port}") }
}

impl Packet {
    fn ethernet(&self) -> Vec<u8> {
        match *self {
            Self::Flow { is_tcp, is_ipv6, from, to, payload } => {
                let (from, to) = (end(from, is_ipv6), end(to, is_ipv6));
                let payload = vec![0x5a; payload];
                if is_tcp {
                    tcp(&from, &to, (1, 2), 0x10, &payload)
                } else {
                    udp(&from, &to, &payload)
                }
            }
            Self::Damaged { from } => {
                let mut bytes = udp(&end(from, false), "10.0.0.9:9", &[1; 20]);
                bytes[50] ^= 4;
                bytes
            }
            Self::Arp => arp(),
            Self::Echo => icmp_echo(),
            Self::Multicast => udp("10.0.0.1:5353", "224.0.0.251:5353", &[0; 30]),
            Self::Fragment => ipv4(17, 0x2000, &[0; 64]),
            Self::Empty => Vec::new(),
            Self::Stub => vec![2, 0, 0],
        }
    }

    fn can_be_on(&self, link: u16) -> bool {
        match self {
            Self::Arp => matches!(link, 1 | 113 | 276),
            // A stub of raw IP is an IP packet that is too short.
            Self::Stub => !matches!(link, 101),
            _ => true,
        }
    }
}

/// Packets, bytes, and the ends of each flow.
type FlowSums = (u64, u64, BTreeSet<(String, String)>);

/// What a replay must find.
#[derive(Debug, Default)]
struct Expected {
    records: u64,
    bytes: u64,
    captured_bytes: u64,
    cut: u64,
    empty: u64,
    headerless: u64,
    played: u64,
    /// By protocol and IP version.
    flows: BTreeMap<(&'static str, u8), FlowSums>,
    drops: BTreeMap<&'static str, u64>,
    wrong: u64,
    /// When the first and the last record were captured.
    nanos: Option<(u64, u64)>,
}

/// Bytes that a cut leaves: all headers of every packet here.
const CUT_LEAST: usize = 20 + 40 + 20;

fn capture(link: u16, packets: &[(Packet, u64, Option<usize>)]) -> (Vec<Record>, Expected) {
    let mut expected = Expected::default();
    let mut records = Vec::new();
    let mut time = 1_600_000_000_000_000_000;
    for (packet, gap, cut) in packets.iter().filter(|(packet, ..)| packet.can_be_on(link)) {
        time += gap;
        let frame = packet.ethernet();
        let bytes = if frame.len() < 14 { frame } else { on_link(link, &frame) };
        let mut record = Record::whole(time, bytes);
        let is_flow = matches!(packet, Packet::Flow { .. });
        if let Some(cut) = cut.filter(|_| is_flow) {
            record = record.cut(CUT_LEAST + cut);
        }
        expected.note(packet, &record, link);
        records.push(record);
    }
    (records, expected)
}

impl Expected {
    fn note(&mut self, packet: &Packet, record: &Record, link: u16) {
        let wire = u64::from(record.wire);
        let first = self.nanos.map_or(record.nanos, |(first, _)| first);
        self.nanos = Some((first, record.nanos));
        self.records += 1;
        self.bytes += wire;
        self.captured_bytes += record.bytes.len() as u64;
        self.cut += u64::from((record.bytes.len() as u64) < wire);
        self.played += 1;
        let mut drop = |name| *self.drops.entry(name).or_default() += 1;
        match *packet {
            Packet::Flow { is_tcp, is_ipv6, from, to, .. } => {
                let kind = (if is_tcp { "tcp" } else { "udp" }, if is_ipv6 { 6 } else { 4 });
                self.flow(kind, end(from, is_ipv6), end(to, is_ipv6), wire);
            }
            Packet::Damaged { from } => {
                self.wrong += 1;
                self.flow(("udp", 4), end(from, false), "10.0.0.9:9".to_owned(), wire);
            }
            Packet::Arp => drop("not_ours_arp"),
            Packet::Echo => drop("not_ours_icmp"),
            Packet::Multicast => drop("not_ours_multicast"),
            Packet::Fragment => drop("not_ours_fragment"),
            Packet::Empty => {
                self.empty += 1;
                self.played -= 1;
            }
            Packet::Stub if link == ETHERNET => drop("malformed_ethernet_truncated"),
            Packet::Stub => {
                self.headerless += 1;
                self.played -= 1;
            }
        }
    }

    fn flow(&mut self, kind: (&'static str, u8), from: String, to: String, wire: u64) {
        let (packets, bytes, flows) = self.flows.entry(kind).or_default();
        *packets += 1;
        *bytes += wire;
        flows.insert((from, to));
    }

    fn check(&self, report: &Report, workers: &[u16]) {
        let records = &report.records;
        let found = (records.total, records.bytes, records.captured_bytes, records.cut);
        assert_eq!(found, (self.records, self.bytes, self.captured_bytes, self.cut));
        let found = (records.empty, records.headerless, records.other_link, report.played.packets);
        assert_eq!(found, (self.empty, self.headerless, 0, self.played));
        let (first, last) = self.nanos.unwrap_or_default();
        // Files of microseconds have lost less than one of them, a number since 1970 in 64 bits
        // a fraction of one.
        let differs = |found: f64, nanos: u64| (found - nanos as f64 / 1e9).abs() > 2e-6;
        assert!(
            !differs(report.played.capture_seconds, last - first),
            "{}",
            report.played.capture_seconds
        );
        assert!(
            !differs(report.played.capture_start.unwrap_or(0.0), first),
            "{:?}",
            report.played.capture_start
        );
        let mut all_packets = 0;
        let mut all_flows = 0;
        for row in &report.protocols {
            let (packets, bytes, flows) = &self.flows[&(row.protocol, row.ip)];
            let both: BTreeSet<_> =
                flows.iter().map(|(from, to)| (from.min(to), from.max(to))).collect();
            let expected = (*packets, *bytes, flows.len() as u64, both.len() as u64);
            assert_eq!((row.packets, row.bytes, row.flows, row.conversations), expected);
            all_packets += packets;
            all_flows += flows.len() as u64;
        }
        assert_eq!(report.protocols.len(), self.flows.len());
        assert_eq!(report.flows.tracked, all_flows);
        let of_workers = report.by_worker.iter().map(|row| (row.packets, row.flows));
        let of_workers = of_workers.fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
        assert_eq!(of_workers, (all_packets, all_flows), "workers had every packet");
        assert_eq!(report.by_worker.len(), usize::from(*workers.iter().max().expect("some")));
        let sums = &report.checksums;
        assert_eq!(sums.wrong, self.wrong);
        assert_eq!(sums.right + sums.unfinished + sums.wrong + sums.unknown, all_packets);
        let drops = report.counters.iter().filter(|counter| {
            ["drop_", "not_ours_", "malformed_"].iter().any(|kind| counter.name.starts_with(kind))
        });
        let drops: BTreeMap<&str, u64> =
            drops.map(|counter| (counter.name.as_str(), counter.value)).collect();
        assert_eq!(drops, self.drops);
        assert_eq!((report.faults.lost, report.faults.duplicated), (0, 0));
        assert_eq!(report.faults.damage, None);
        assert!(!report.played.interrupted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn every_figure_of_a_report_is_what_was_put_into_the_capture(
        packets in prop::collection::vec(
            (packet(), prop_oneof![0..3_u64, 0..100_000_u64, Just(3_000_000_000)], prop::option::of(0..40_usize)),
            0..400,
        ),
        format in prop::sample::select(&FORMATS[..]),
        link in prop::sample::select(vec![1_u16, 0, 101, 108, 113, 276]),
        policy in prop::sample::select(policy::steer::NAMES.map(|(name, _)| name).to_vec()),
        workers in prop::collection::vec(1..6_u16, 1..4),
        groups in prop::sample::select(vec![128_u32, 4096]),
        seed in any::<u64>(),
    ) {
        let (records, expected) = capture(link, &packets);
        let file = file(format, link, &records);
        let options = Options {
            policy: policy.to_owned(),
            workers: workers.clone(),
            groups,
            seed,
            ..Options::default()
        };
        let report = replayed(&file, &options);
        expected.check(&report, &workers);
        if policy != "shared" {
            prop_assert_eq!(report.flows.reordered, 0);
            prop_assert_eq!(report.failure(), None);
        }
        // What the machine's clock says is all that may differ.
        let mut again = replayed(&file, &options);
        again.played.seconds = report.played.seconds;
        again.played.packets_per_second = report.played.packets_per_second;
        prop_assert_eq!(again, report);
    }
}
