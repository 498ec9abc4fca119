//! Any bytes as a capture file, played through the data path: every record is accounted for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use replay::{Options, Report, play};

/// Packets after which a replay is ended, so that long inputs stay quick.
const PACKETS_MAX: u64 = 2_000;

fuzz_target!(|input: (u8, &[u8])| {
    let (bits, file) = input;
    let names = policy::steer::NAMES;
    let options = Options {
        policy: names[usize::from(bits) % names.len()].0.to_owned(),
        workers: vec![2, 3],
        groups: 128,
        flows_max: 8,
        check_checksums: bits & 0x80 != 0,
        ..Options::default()
    };
    let length = Some(file.len() as u64);
    match play(file, length, &options, |seen| seen.packets < PACKETS_MAX) {
        Err(error) => {
            assert!(!error.is_usage(), "{error}");
            assert!(!error.to_string().contains(char::is_control), "{error}");
        }
        Ok(report) => adds_up(&report, file.len()),
    }
});

/// Every record is a packet or a counted exception, every packet was worked on or dropped.
fn adds_up(report: &Report, file_bytes: usize) {
    let records = &report.records;
    // A record header has 16 bytes, the shortest block 12.
    assert!(records.total <= file_bytes as u64 / 12);
    let without_packet = records.empty + records.headerless + records.other_link;
    // One packet may have been read and not played when the replay was ended.
    let unplayed = records.total - report.played.packets - without_packet;
    assert!(unplayed <= u64::from(report.played.interrupted), "{report:?}");
    let worked: u64 = report.by_worker.iter().map(|row| row.packets).sum();
    let dropped = report.counters.iter().filter(|counter| {
        let kinds = ["drop_", "not_ours_", "malformed_", "arp_answered"];
        kinds.iter().any(|kind| counter.name.starts_with(kind))
    });
    let dropped: u64 = dropped.map(|counter| counter.value).sum();
    assert_eq!(worked + dropped, report.played.packets, "{report:?}");
    assert_eq!((report.faults.lost, report.faults.duplicated), (0, 0), "{report:?}");
    assert!(report.flows.tracked <= 8 && report.top.len() as u64 <= report.flows.tracked);
    if report.setup.policy != "shared" {
        assert_eq!(report.flows.reordered, 0, "{report:?}");
    }
    assert!(!report.table().is_empty());
}
