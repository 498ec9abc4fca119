//! What a replay does with flows: who gets them, what moves, whether order holds, and how it ends.

use crate::common::*;
use replay::{Args, Options, Pace, play, run};

fn with(policy: &str, workers: &[u16], seed: u64) -> Options {
    Options { policy: policy.to_owned(), workers: workers.to_vec(), seed, ..Options::default() }
}

#[test]
fn a_fifth_worker_gets_as_many_flows_as_its_policy_says() {
    let file = plain(&many(2000, 40_000, 500));
    for seed in 1..4 {
        let moved = |policy| {
            let report = replayed(&file, &with(policy, &[4, 5], seed));
            adds_up(&report);
            assert_eq!(report.flows.reordered, 0, "{policy}");
            assert_eq!(report.flows.tracked, 2000);
            report.flows.moved
        };
        let sticky = moved("sticky");
        assert!((300..500).contains(&sticky), "about a fifth: {sticky}");
        let modulo = moved("modulo");
        assert!((1500..1700).contains(&modulo), "about four fifths: {modulo}");
        assert_eq!(moved("calisto"), 0, "where a flow is, it stays");
    }
}

#[test]
fn hand_overs_meet_packets_on_their_way_and_keep_the_order() {
    let file = plain(&many(300, 20_000, 200));
    let mut held = 0;
    for seed in 0..10 {
        for policy in ["sticky", "modulo", "prefilled", "hybrid", "balanced", "least_loaded"] {
            let report = replayed(&file, &with(policy, &[3, 8, 1, 5], seed));
            adds_up(&report);
            assert_eq!(report.flows.reordered, 0, "{policy}, seed {seed}");
            let aborted = ["moves_aborted", "barriers_aborted"].map(|name| report.counter(name));
            assert_eq!(aborted, [0, 0], "{policy}, seed {seed}");
            held += report.counter("held_packets");
        }
    }
    assert!(held > 1000, "packets had to wait for hand-overs: {held}");
}

#[test]
fn a_policy_that_promises_no_order_is_seen_to_keep_none() {
    let report = replayed(&plain(&many(5, 20_000, 200)), &with("shared", &[4], 1));
    assert!(report.flows.reordered > 100, "{}", report.table());
    assert!(report.flows.moves > 1000);
    assert_eq!(report.failure(), None);
    adds_up(&report);
}

#[test]
fn workers_that_leave_keep_no_flow_that_goes_on() {
    let file = plain(&many(500, 20_000, 1000));
    let report = replayed(&file, &with("sticky", &[6, 2], 1));
    let flows: Vec<u64> = report.by_worker.iter().map(|row| row.flows).collect();
    assert!(flows[..2].iter().all(|&flows| flows > 200), "{flows:?}");
    assert_eq!(flows[2..], [0; 4]);
    assert!(report.by_worker[2..].iter().all(|row| row.packets > 1000), "they had packets before");
}

#[test]
fn pauses_and_times_that_step_back_or_are_missing_change_no_count() {
    let options = with("sticky", &[3, 4, 2], 7);
    let records = many(50, 600, 0);
    let expected = replayed(&plain(&records), &options);
    let hour = 3_600_000_000_000;
    for gap in [1, 49_000, 51_000, 10_000_000, hour] {
        let report = replayed(&plain(&many(50, 600, gap)), &options);
        assert_eq!(report.protocols, expected.protocols, "{gap}");
        assert_eq!(report.flows.reordered + report.faults.lost, 0, "{gap}");
        assert_eq!(report.counter("barriers_aborted"), 0, "{gap}");
        let seconds = (599 * gap) as f64 / 1e9;
        assert!((report.played.capture_seconds - seconds).abs() < 1e-6, "{gap}");
    }
    let mut backwards = many(50, 600, hour);
    backwards.reverse();
    let report = replayed(&plain(&backwards), &options);
    assert_eq!(report.protocols, expected.protocols);
    assert!((report.played.capture_seconds - 599.0 * 3600.0).abs() < 1e-6);
    let mut timeless = records;
    timeless.iter_mut().for_each(|record| record.nanos = 0);
    let report = replayed(&plain(&timeless), &options);
    assert_eq!(report.protocols, expected.protocols);
    assert_eq!((report.played.capture_start, report.played.capture_seconds), (None, 0.0));
}

#[test]
fn at_a_recorded_pace_no_packet_is_early_and_the_counts_are_the_same() {
    let file = plain(&many(20, 200, 500_000));
    let options = with("modulo", &[2, 3], 1);
    let fast = replayed(&file, &options);
    let paced = Options { pace: Pace::Recorded { speed: 2.0 }, ..options };
    let report = replayed(&file, &paced);
    assert_eq!(report.protocols, fast.protocols);
    assert_eq!((report.flows.reordered, report.faults.lost), (0, 0));
    assert!(report.played.seconds >= report.played.capture_seconds / 2.0, "{}", report.table());
    assert!(report.played.late_max_us.is_some());
    assert!(report.table().contains("pace         2 times as captured"), "{}", report.table());
    adds_up(&report);
}

#[test]
fn wrong_checksums_are_played_unless_they_are_to_be_checked() {
    let mut records = many(4, 40, 1000);
    records[5].bytes[44] ^= 1;
    records[6].bytes[26] ^= 1;
    records.push(records[7].clone().cut(43));
    let file = plain(&records);
    let report = replayed(&file, &Options::default());
    let sums = &report.checksums;
    assert_eq!((sums.right, sums.wrong, sums.unknown), (38, 2, 1));
    assert_eq!(report.counter("drop_bad_checksum"), 0);
    assert_eq!(report.counter("consumed_packets"), 41);
    let checked = Options { check_checksums: true, ..Options::default() };
    let report = replayed(&file, &checked);
    assert_eq!(report.counter("drop_bad_checksum"), 3, "what is cut cannot have a right one");
    assert_eq!(report.counter("consumed_packets"), 38);
    assert_eq!(report.checksums.wrong, 2);
    adds_up(&report);
}

#[test]
fn a_question_for_the_unspecified_address_is_answered_and_not_lost() {
    let mut question = arp();
    question[38..42].copy_from_slice(&[0; 4]);
    let report = replayed(&plain(&spaced(vec![question; 3000], 10)), &Options::default());
    assert_eq!(report.counter("arp_answered"), 3000);
    adds_up(&report);
}

#[test]
fn a_replay_that_is_ended_early_reports_what_it_played() {
    let file = plain(&many(50, 60_000, 1000));
    let mut asked = 0;
    let report = play(&file[..], Some(file.len() as u64), &Options::default(), |seen| {
        asked += 1;
        assert!(seen.position <= file.len() as u64);
        seen.packets < 10_000
    });
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.played.interrupted && asked > 1);
    assert!((10_000..20_000).contains(&report.played.packets), "{}", report.played.packets);
    assert_eq!(report.counter("consumed_packets"), report.played.packets);
    assert_eq!((report.faults.lost, report.flows.reordered), (0, 0));
    assert!(report.table().contains("ended early"), "{}", report.table());
}

#[test]
fn the_top_flows_are_exactly_those_with_most_bytes() {
    let packets = (1..=50_u16).flat_map(|flow| {
        let source = format!("10.0.0.1:{}", 1000 + flow);
        let packet = udp(&source, "10.0.0.2:7", &vec![0; usize::from(flow) * 10]);
        vec![packet; usize::from(flow % 7) + 1]
    });
    let report =
        replayed(&plain(&spaced(packets, 1000)), &Options { top: 5, ..Options::default() });
    let mut all: Vec<(u64, u64)> =
        (1..=50_u64).map(|flow| ((flow % 7 + 1) * (42 + 10 * flow), flow)).collect();
    all.sort_unstable_by_key(|&(bytes, flow)| (std::cmp::Reverse(bytes), flow));
    let found: Vec<_> = report.top.iter().map(|flow| (flow.bytes, flow.flow.clone())).collect();
    let name = |flow| format!("udp 10.0.0.1:{} -> 10.0.0.2:7", 1000 + flow);
    let expected: Vec<_> = all[..5].iter().map(|&(bytes, flow)| (bytes, name(flow))).collect();
    assert_eq!(found, expected);
    let none = replayed(&plain(&many(3, 9, 1)), &Options { top: 0, ..Options::default() });
    assert!(none.top.is_empty());
}

#[test]
fn a_file_gives_the_same_report_as_its_bytes_and_text_and_json_name_every_figure() {
    let mut packets = vec![arp(), icmp_echo()];
    packets.extend(session("10.0.0.1:4000", "10.0.0.2:80", 4));
    let file = plain(&spaced(packets, 1000));
    let path = std::env::temp_dir().join(format!("calisto-report-{}.pcap", std::process::id()));
    std::fs::write(&path, &file).expect("the directory for temporary files can be written");
    let report = run(&Args::new(&path), true);
    std::fs::remove_file(&path).expect("it was written above");
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    let from_bytes = replayed(&file, &Options::default());
    let mut same = from_bytes;
    same.setup.file.clone_from(&report.setup.file);
    same.played.seconds = report.played.seconds;
    same.played.packets_per_second = report.played.packets_per_second;
    assert_eq!(same, report);
    let table = report.table();
    for words in [
        report.setup.file.as_str(),
        "sticky, 4 worker(s), 65536 groups, seed 1",
        "16 packets in",
        "flows        2 in 1 conversations; 0 moved",
        "0 packets reordered, 0 lost",
        "14 right",
        "tcp over IPv4",
        "worker 3",
        "tcp 10.0.0.2:80 -> 10.0.0.1:4000",
        "not_ours_arp",
        "An ICMP or ICMPv6 message that reports no error",
    ] {
        assert!(table.contains(words), "{words}:\n{table}");
    }
    let json = serde_json::to_value(&report).expect("a report is plain data");
    assert_eq!(json["flows"]["conversations"], 1);
    assert_eq!(json["protocols"][0]["protocol"], "tcp");
    assert_eq!(json["records"]["total"], 16);
    assert_eq!(json["damage"], serde_json::Value::Null);
}
