//! Files that are damaged, cut, absurd or of something else: a sentence or a counter, never more.

use crate::common::*;
use proptest::prelude::*;
use replay::{Args, Error, Options, Report, play, run};

fn try_replay(file: &[u8]) -> Result<Report, Error> {
    let options = Options { workers: vec![2, 3], groups: 128, ..Options::default() };
    play(file, Some(file.len() as u64), &options, |_| true)
}

fn three_packets() -> Vec<Record> {
    let packets = vec![
        udp("10.0.0.1:1", "10.0.0.2:2", b"abc"),
        arp(),
        tcp("[fd00::1]:3", "[fd00::2]:4", (1, 1), 0x10, b"defgh"),
    ];
    spaced(packets, 1000)
}

#[test]
fn a_file_cut_anywhere_is_reported_and_everything_before_the_cut_counts() {
    for format in FORMATS {
        let (file, ends) = file_with_ends(format, ETHERNET, &three_packets());
        let header_bytes = if matches!(format, Format::Ng { .. }) { 28 } else { 24 };
        for cut in 0..=file.len() {
            let Ok(report) = try_replay(&file[..cut]) else {
                assert!(cut < header_bytes, "{format:?} cut at {cut}");
                continue;
            };
            assert!(cut >= header_bytes, "{format:?} cut at {cut}");
            let whole = ends[1..].iter().filter(|&&end| end <= cut).count() as u64;
            assert_eq!(report.records.total, whole, "{format:?} cut at {cut}");
            let is_between = cut == header_bytes || ends.contains(&cut);
            assert_eq!(report.faults.damage.is_none(), is_between, "{format:?} cut at {cut}");
            assert_eq!(report.failure().is_none(), is_between);
            adds_up(&report);
        }
    }
}

#[test]
fn what_is_no_capture_is_refused_by_a_sentence() {
    for (file, words) in [
        (&b""[..], "ends in the middle"),
        (b"GIF89a, and so on", "not a capture file"),
        (&[0; 4096], "not a capture file"),
        (&classic_header(false, true, 105).bytes, "link type 105"),
    ] {
        let error = try_replay(file).expect_err(words);
        assert!(error.to_string().contains(words), "{error}");
        assert!(!error.is_usage());
    }
    let error = try_replay(&classic_header(true, false, 105).bytes).expect_err("no monitor mode");
    assert!(error.to_string().contains("Linux cooked (113, 276)"), "{error}");
}

#[test]
fn lengths_that_cannot_be_end_the_replay_where_they_stand() {
    let good = plain(&three_packets());
    for length in [262_145, 1 << 30, u32::MAX] {
        let bad = Writer { big_endian: false, bytes: good.clone() };
        let bad = bad.word(1).word(1).word(length).word(length).raw(&[0; 100]);
        let report = try_replay(&bad.bytes).expect("the header is good");
        assert_eq!(report.records.total, 3);
        let damage = report.faults.damage.as_ref().expect("no packet is that long");
        assert!(damage.contains(&length.to_string()), "{damage}");
        assert!(report.table().contains("DAMAGED"), "{}", report.table());
        adds_up(&report);
    }
}

#[test]
fn a_packet_that_claims_an_absurd_length_on_the_wire_is_still_a_packet() {
    let mut records = three_packets();
    records[0].wire = u32::MAX;
    records[2].wire = 0;
    let report = try_replay(&plain(&records)).expect("a good file");
    let captured = records[2].bytes.len() as u64;
    assert_eq!(report.records.bytes, u64::from(u32::MAX) + 42 + captured, "no shorter than it is");
    assert_eq!((report.records.cut, report.flows.tracked), (1, 2));
    adds_up(&report);
}

#[test]
fn a_packet_that_a_nic_was_yet_to_segment_and_that_says_no_length_is_of_its_flow() {
    let mut four = tcp("10.0.0.1:1", "10.0.0.2:2", (1, 1), 0x10, &[7; 3000]);
    four[16..18].copy_from_slice(&[0, 0]);
    four[24..26].fill(0);
    let sum = wire::checksum::of(&four[14..34]);
    four[24..26].copy_from_slice(&sum.to_be_bytes());
    let mut six = tcp("[fd00::1]:3", "[fd00::2]:4", (1, 1), 0x10, &[7; 900]);
    six[18..20].copy_from_slice(&[0, 0]);
    let whole = spaced([four, six], 1000);
    let cut = whole.iter().map(|record| record.clone().cut(80)).collect();
    for records in [whole, cut] {
        let report = try_replay(&plain(&records)).expect("a good file");
        assert_eq!(report.flows.tracked, 2, "{}", report.table());
        adds_up(&report);
    }
}

#[test]
fn a_cut_packet_that_claimed_more_than_its_link_had_is_as_malformed_as_the_whole_one() {
    for claims in [60_u16, 61] {
        let mut four = udp("10.0.0.1:1", "10.0.0.2:2", &[0; 32]);
        four[16..18].copy_from_slice(&claims.to_be_bytes());
        let mut six = udp("[fd00::1]:1", "[fd00::2]:2", &[0; 32]);
        six[18..20].copy_from_slice(&(claims - 20).to_be_bytes());
        let records = spaced([four, six], 1000).into_iter().map(|record| record.cut(70));
        let report = try_replay(&plain(&records.collect::<Vec<_>>())).expect("a good file");
        let is_good = claims == 60;
        assert_eq!(report.flows.tracked, if is_good { 2 } else { 0 }, "{}", report.table());
        assert_eq!(report.counter("malformed_ipv4_beyond_frame"), u64::from(!is_good));
        assert_eq!(report.counter("malformed_ipv6_beyond_frame"), u64::from(!is_good));
        assert_eq!(report.records.cut, 2);
        adds_up(&report);
    }
}

#[test]
fn records_of_other_links_and_unknown_interfaces_are_counted_by_link() {
    let mut file = ng_section(false);
    for link in [ETHERNET, 105, 127] {
        file = file.block(1, ng_interface(false, link));
    }
    let record = &three_packets()[0];
    for interface in [0, 1, 1, 2, 9] {
        file = file.block(6, ng_packet(false, interface, record));
    }
    let report = try_replay(&file.bytes).expect("a good file");
    let links: Vec<_> = report.records.other_links.iter().collect();
    let links: Vec<_> = links.iter().map(|other| (other.link_type, other.records)).collect();
    assert_eq!(links, [(None, 1), (Some(105), 2), (Some(127), 1)]);
    assert_eq!((report.played.packets, report.flows.tracked), (1, 1));
    assert!(report.table().contains("2 of link type 105: not played"), "{}", report.table());
    adds_up(&report);
}

#[test]
fn the_obsolete_packet_block_is_read() {
    let record = &three_packets()[0];
    let len = record.bytes.len() as u32;
    // Interface 0, 7 drops, time, lengths, packet.
    let body = Writer::new(true).half(0).half(7).word(0).word(5).word(len).word(len);
    let file = ng_section(true).block(1, ng_interface(true, ETHERNET));
    let file = file.block(2, body.raw(&record.bytes));
    let report = try_replay(&file.bytes).expect("a good file");
    assert_eq!((report.flows.tracked, report.faults.damage), (1, None));
}

#[test]
fn names_that_are_no_files_are_told_apart() {
    let missing = run(&Args::new("no-such-file.pcap"), true).expect_err("it is not there");
    assert!(missing.to_string().starts_with("no-such-file.pcap: cannot open it"), "{missing}");
    let directory = run(&Args::new(std::env::temp_dir()), true).expect_err("a directory");
    assert!(directory.to_string().contains("it is a directory"), "{directory}");
}

#[test]
fn settings_that_make_no_sense_are_usage_errors() {
    let good = Options::default();
    for (options, words) in [
        (Options { policy: "stcky".to_owned(), ..good.clone() }, "did you mean \"sticky\"?"),
        (Options { workers: vec![], ..good.clone() }, "1 to 64"),
        (Options { workers: vec![4, 0], ..good.clone() }, "1 to 64"),
        (Options { workers: vec![65], ..good.clone() }, "1 to 64"),
        (Options { groups: 1000, ..good.clone() }, "power of two"),
        (Options { groups: 1 << 21, ..good.clone() }, "power of two"),
        (Options { pace: replay::Pace::Recorded { speed: 0.0 }, ..good.clone() }, "--speed 0"),
        (Options { pace: replay::Pace::Recorded { speed: f64::NAN }, ..good.clone() }, "--speed"),
        (Options { flows_max: usize::MAX, ..good.clone() }, "--flows-max"),
    ] {
        let file = plain(&three_packets());
        let error = play(&file[..], None, &options, |_| true).expect_err(words);
        assert!(error.is_usage() && error.to_string().contains(words), "{error}");
    }
    let file = plain(&three_packets());
    let options = Options { workers: vec![4, 5], ..good };
    let error = play(&file[..], None, &options, |_| true).expect_err("parts of what?");
    assert!(error.is_usage() && error.to_string().contains("save the capture"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1500, ..ProptestConfig::default() })]
    #[test]
    fn no_bytes_make_a_replay_panic_and_its_counters_add_up(
        format in prop::sample::select(&FORMATS[..]),
        link in prop::sample::select(vec![1_u16, 0, 101, 113, 276]),
        cut in prop::option::of(0..100_usize),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        noise in prop::collection::vec(any::<u8>(), 0..80),
        check_checksums in any::<bool>(),
    ) {
        let mut packets = session("10.0.0.1:9", "10.0.0.2:80", 3);
        packets.extend([ipv4(17, 0, &[1; 20]), ipv6(0, &[17, 0, 5, 2, 0, 0, 1, 0, 0, 1, 0, 2, 0, 8, 0, 0])]);
        packets.extend([udp("[fd00::1]:3", "[fd00::2]:4", &[1; 3000]), arp()]);
        let records = spaced(packets, 700_000).into_iter().map(|record| {
            let record = Record { bytes: on_link(link, &record.bytes), ..record };
            match cut {
                Some(cut) => record.cut(cut),
                None => record,
            }
        });
        let mut file = file(format, link, &records.collect::<Vec<_>>());
        for (index, value) in flips {
            *index.get_mut(&mut file) ^= value;
        }
        file.extend(noise);
        let options = Options {
            workers: vec![3, 1],
            groups: 128,
            check_checksums,
            flows_max: 4,
            ..Options::default()
        };
        if let Ok(report) = play(&file[..], Some(file.len() as u64), &options, |_| true) {
            adds_up(&report);
            prop_assert_eq!(report.flows.reordered, 0);
            prop_assert!(report.flows.tracked <= 4);
        }
    }
}
