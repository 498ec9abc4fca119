//! Tests of limits.

use proptest::prelude::*;

use super::*;
use crate::PortRange;
use crate::samples::{Frames, udp};

const TO: &str = "10.0.1.2:80";

/// Everything, at 1 MB a second and 3000 bytes at once.
const ALL: Class = Class {
    selector: Selector {
        source: None,
        destination: None,
        protocol: None,
        source_ports: None,
        destination_ports: None,
    },
    bytes_per_second: 1_000_000,
    burst_bytes: 3000,
    per_source: None,
};

fn to_port(port: u16) -> Selector {
    Selector { destination_ports: PortRange::new(port, port), ..Selector::default() }
}

/// How many of `count` packets of 1000 bytes pass, in batches.
fn passed(policer: &mut Policer, ends: [&str; 2], count: usize, now: Nanos) -> usize {
    let packet = udp(ends, &vec![0; 1000 - if ends[0].starts_with('[') { 62 } else { 42 }]);
    let mut frames = Frames::new();
    let mut passed = 0;
    for start in (0..count).step_by(64) {
        let slices = vec![&packet[..]; 64.min(count - start)];
        let mut batch = frames.batch(&slices);
        let mut verdicts = Verdicts::new();
        policer.process(&mut batch, &mut verdicts, now);
        passed += verdicts.of(batch.len()).iter().filter(|v| **v == Verdict::Next).count();
        assert!(batch.iter().all(|frame| frame.bytes() == packet), "it changes no packet");
        frames.give(batch);
    }
    passed
}

#[test]
fn a_class_passes_its_burst_and_then_its_rate() {
    let mut policer = Policer::new(&[ALL], 1).expect("a class");
    assert_eq!(passed(&mut policer, ["10.0.0.1:1", TO], 100, Nanos::ZERO), 3);
    assert_eq!(passed(&mut policer, ["10.0.0.2:1", TO], 100, Nanos::from_millis(2)), 2);
    let counts = *policer.counts();
    assert_eq!((counts.passed, counts.exceeded, counts.unmatched), (5, 195, 0));
}

#[test]
fn policers_that_share_limits_let_no_more_pass_together_than_one_alone() {
    let per_source = Some(PerSource { ipv4_bits: 32, ipv6_bits: 64 });
    for class in [ALL, Class { per_source, ..ALL }] {
        let mut first = Policer::new(&[class], 1).expect("a class");
        let mut second = first.sharing_limits();
        let ends = ["10.0.0.1:1", TO];
        assert_eq!(passed(&mut first, ends, 2, Nanos::ZERO), 2);
        assert_eq!(passed(&mut second, ends, 100, Nanos::ZERO), 1);
        let later = Nanos::from_millis(3);
        assert_eq!(passed(&mut second, ends, 2, later), 2);
        assert_eq!(passed(&mut first, ends, 100, later), 1);
        assert_eq!((first.counts().passed, second.counts().passed), (3, 3));
    }
}

#[test]
fn the_first_class_that_matches_counts_and_packets_of_none_pass() {
    let slow = Class { selector: to_port(80), burst_bytes: 1000, ..ALL };
    let fast = Class { selector: to_port(81), burst_bytes: 5000, ..ALL };
    let mut policer = Policer::new(&[slow, fast], 1).expect("classes");
    let ends = |port: &'static str| ["10.0.0.1:1", port];
    assert_eq!(passed(&mut policer, ends("10.0.1.2:80"), 10, Nanos::ZERO), 1);
    assert_eq!(passed(&mut policer, ends("10.0.1.2:81"), 10, Nanos::ZERO), 5);
    assert_eq!(passed(&mut policer, ends("10.0.1.2:82"), 10, Nanos::ZERO), 10);
    assert_eq!(policer.counts().unmatched, 10);
}

#[test]
fn each_source_has_a_bucket_of_its_own_as_wide_as_its_prefix() {
    let per_source = Some(PerSource { ipv4_bits: 24, ipv6_bits: 64 });
    let mut policer = Policer::new(&[Class { per_source, ..ALL }], 1).expect("a class");
    for (source, expected) in [
        ("10.0.0.1:1", 3),
        ("10.0.0.200:1", 0),
        ("10.0.1.1:1", 3),
        ("[fd00::1]:1", 3),
        ("[fd00::ffff:0:0:1]:1", 0),
        ("[fd00:0:0:1::1]:1", 3),
    ] {
        let to = if source.starts_with('[') { "[fd09::1]:9" } else { TO };
        assert_eq!(passed(&mut policer, [source, to], 10, Nanos::ZERO), expected, "{source}");
    }
}

#[test]
fn ever_new_sources_take_no_place_for_longer_than_their_packet_and_harm_nobody() {
    let per_source = Some(PerSource { ipv4_bits: 32, ipv6_bits: 64 });
    let mut policer = Policer::new(&[Class { per_source, ..ALL }], 7).expect("a class");
    let mut frames = Frames::new();
    let mut packet = udp(["10.0.0.1:1", TO], &[0; 58]);
    let mut now = Nanos::ZERO;
    let mut batch = frames.batch(&[&packet]);
    // At 100 ns each: 1000 at a time are on their way to be full again.
    for n in 0..300_000u32 {
        now += Nanos(100);
        packet[26..30].copy_from_slice(&(0x0b00_0000 | n).to_be_bytes());
        assert!(batch[0].fill(&packet));
        let mut verdicts = Verdicts::new();
        policer.process(&mut batch, &mut verdicts, now);
        assert_eq!(verdicts[0], Verdict::Next, "{n}");
    }
    frames.give(batch);
    assert_eq!(policer.counts().sources_shared, 0);
    assert_eq!(passed(&mut policer, ["10.0.0.1:1", TO], 10, now), 3);
}

#[test]
fn more_busy_sources_than_places_share_one_bucket() {
    let per_source = Some(PerSource { ipv4_bits: 32, ipv6_bits: 64 });
    let slow = Class { per_source, bytes_per_second: 1, burst_bytes: 200, ..ALL };
    let mut policer = Policer::new(&[slow], 7).expect("a class");
    let mut packet = udp(["10.0.0.1:1", TO], &[0; 58]);
    let mut admitted = 0;
    for n in 0..200_000u32 {
        packet[26..30].copy_from_slice(&(0x0b00_0000 | n).to_be_bytes());
        admitted += usize::from(policer.admits(&packet, Nanos::ZERO));
    }
    // One packet each of those with a place, and two of all others together.
    assert!(admitted > 60_000 && admitted <= 65_536 + 2, "{admitted}");
    let counts = policer.counts();
    assert_eq!(counts.sources_shared as usize, 200_000 - admitted + 2);
}

#[test]
fn what_is_not_ip_is_of_the_class_that_asks_for_nothing() {
    let port = Class { selector: to_port(80), ..ALL };
    let mut policer = Policer::new(&[port, ALL], 1).expect("classes");
    let admitted = (0..10).filter(|_| policer.admits(&[2; 1000], Nanos::ZERO)).count();
    assert_eq!(admitted, 3);
    let mut policer = Policer::new(&[port], 1).expect("a class");
    assert!((0..10).all(|_| policer.admits(&[2; 1000], Nanos::ZERO)));
}

#[test]
fn classes_that_make_no_sense_are_refused_by_their_number() {
    for (class, error) in [
        (Class { bytes_per_second: 0, ..ALL }, ClassError::Rate),
        (Class { burst_bytes: 0, ..ALL }, ClassError::Burst(0)),
        (Class { burst_bytes: 1 << 33, ..ALL }, ClassError::Burst(1 << 33)),
        (
            Class { per_source: Some(PerSource { ipv4_bits: 33, ipv6_bits: 64 }), ..ALL },
            ClassError::Bits { ipv4_bits: 33, ipv6_bits: 64 },
        ),
    ] {
        let refused = Policer::new(&[ALL, class], 1).map(|_| ());
        assert_eq!(refused, Err(PolicerError::Class { index: 1, error }));
        assert!(PolicerError::Class { index: 1, error }.to_string().starts_with("class 2: "));
    }
    let many = Policer::new(&[ALL; CLASSES_MAX + 1], 1).map(|_| ());
    assert_eq!(many, Err(PolicerError::TooMany(CLASSES_MAX + 1)));
}

proptest! {
    #[test]
    fn no_class_ever_passes_more_than_its_burst_and_rate(
        packets in prop::collection::vec((0..3u8, 60..1500usize, 0..300_000u64), 1..300),
        is_per_source in any::<bool>(),
    ) {
        let per_source = is_per_source.then_some(PerSource { ipv4_bits: 32, ipv6_bits: 64 });
        let mut policer = Policer::new(&[Class { per_source, ..ALL }], 1).expect("a class");
        let (mut now, mut bytes) = (0u64, [0u64; 3]);
        for (host, len, pause) in packets {
            now += pause;
            let source = format!("10.0.0.{host}:1");
            let packet = udp([&source, TO], &vec![0; len - 42]);
            if policer.admits(&packet, Nanos(now)) {
                bytes[usize::from(host)] += len as u64;
            }
        }
        let allowed = 3000 + now / 1000;
        match is_per_source {
            true => prop_assert!(bytes.iter().all(|bytes| *bytes <= allowed)),
            false => prop_assert!(bytes.iter().sum::<u64>() <= allowed),
        }
    }
}
