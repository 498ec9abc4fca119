//! A capture that the test makes, and how many cores it needs.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;

use base::Nanos;
use clap::Parser;
use port::pcap::PcapWriter;
use wire::build::UdpPacket;

use super::*;
use crate::args::Cli;
use crate::command::Command;

/// A folder of its own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("calisto-plan-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the folder of temporary files can be written to");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn packet(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let packet = UdpPacket {
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        source: from,
        destination: to,
        payload: b"request",
        vlan: None,
    };
    let mut bytes = vec![0; packet.len()];
    assert_eq!(packet.write(&mut bytes), Some(bytes.len()));
    bytes
}

/// 4,000 requests of 64 clients, 25 us apart, each answered after 40 us: 1.6 cores are busy.
fn capture(folder: &Folder) -> String {
    let path = folder.0.join("trace.pcap");
    let mut all: Vec<(u64, Vec<u8>)> = Vec::new();
    let server: SocketAddr = "10.0.0.1:7".parse().expect("an address");
    for number in 0..4000_u64 {
        let client: SocketAddr =
            format!("10.0.1.{}:5000", number % 64).parse().expect("an address");
        let at = 1_000_000_000 + number * 25_000;
        all.push((at, packet(client, server)));
        all.push((at + 40_000, packet(server, client)));
    }
    all.sort();
    let file = File::create(&path).expect("the folder is ours");
    let mut writer = PcapWriter::new(file).expect("it can be written to");
    for (at, bytes) in all {
        writer.write(Nanos(at), &bytes).expect("it can be written to");
    }
    writer.flush().expect("it can be written to");
    path.to_str().expect("it is a plain name").to_owned()
}

fn plan(words: &[&str]) -> Plan {
    let words = ["calisto", "plan"].iter().chain(words);
    let cli = Cli::try_parse_from(words).expect("well formed");
    let Command::Plan(plan) = cli.command else { panic!("{:?}", cli.command) };
    plan
}

fn load_of(plan: &Plan) -> OwnLoad {
    let how = How { runs: Some(6), threads: Some(2), ..How::default() };
    plan.source.load(None, how).expect("the capture is sound")
}

#[test]
fn a_capture_of_one_and_a_half_busy_cores_needs_two_or_more_and_its_service_times_are_measured() {
    let folder = Folder::new("measured");
    let path = capture(&folder);
    let plan = plan(&["--p99", "2ms", "--from-pcap", &path, "--cores", "4"]);
    let load = load_of(&plan);
    let told: Vec<String> =
        load.told.iter().map(|one| format!("{} {} {}", one.name, one.value, one.source)).collect();
    assert!(told[0].contains("4000 in 0.1"), "{told:?}");
    assert!(told[1].contains("64"), "{told:?}");
    assert!(told[2].contains("40") && told[2].contains("4000 of 4000 requests"), "{told:?}");
    let tried = load.run().expect("it is possible");
    let sticky = found(&tried, DEFAULT, "p99_us", Nanos::from_millis(2), None);
    let cores = sticky.cores.expect("four are enough");
    assert!((2..=4).contains(&cores), "{cores}");
    assert_eq!(sticky.kept_in_runs, Some(6));
    let one = found(&tried, DEFAULT, "p99_us", Nanos::from_micros(39), None);
    assert_eq!(one.cores, None, "what takes 40 us is not done in 39");
    let policies: Vec<FoundWay> =
        ways().map(|way| found(&tried, way, "p99_us", Nanos::from_millis(2), None)).collect();
    let shown = text(&load, &policies, "p99", Nanos::from_millis(2), 4);
    assert!(shown.contains("with 95 % confidence") && shown.contains("packing"), "{shown}");
    assert!(!shown.contains("watts"), "nobody said what a core takes: {shown}");
    let all = ways().map(|way| found(&tried, way, "p99_us", Nanos::from_millis(2), Some(10.0)));
    let policies: Vec<FoundWay> = all.collect();
    for one in &policies {
        let expected = one.cores_held.map(|held| held * 10.0);
        assert_eq!(one.watts, expected, "{}", one.policy);
    }
    assert!(text(&load, &policies, "p99", Nanos::from_millis(2), 4).contains("watts"));
}

#[test]
fn service_times_that_are_given_go_before_those_of_the_replies() {
    let folder = Folder::new("given");
    let path = capture(&folder);
    let words =
        ["--p99", "2ms", "--from-pcap", &path, "--service", "5us", "--distribution", "constant"];
    let load = load_of(&plan(&words));
    assert!(load.told[2].value.starts_with("5.0 us"), "{:?}", load.told);
    assert!(load.told[2].source.starts_with("given"), "{:?}", load.told);
}

#[test]
fn what_is_missing_is_asked_for_with_an_example() {
    let folder = Folder::new("missing");
    let path = capture(&folder);
    let recording = ["--p99", "1ms", "--from-record", &path];
    let failure = plan(&recording).run(false).expect_err("no service times");
    assert!(failure.exit_code() == 2 && failure.to_string().contains("--service 5us"), "{failure}");
    let failure = plan(&["--p99", "1ms", "--rate", "10k"]).run(false).expect_err("none either");
    assert!(failure.to_string().contains("--service 5us"), "{failure}");
    let failure = plan(&["--p99", "1ms"]).run(false).expect_err("no load");
    assert!(failure.to_string().contains("--from-pcap"), "{failure}");
    let bare = Cli::try_parse_from(["calisto", "plan", "--rate", "10k"]).expect_err("no target");
    assert_eq!(bare.exit_code(), 2);
    let both = ["calisto", "plan", "--p99", "1ms", "--rate", "1k", "--from-pcap", "x"];
    assert!(Cli::try_parse_from(both).is_err(), "one load at a time");
    let wrong = folder.0.join("wrong.pcap");
    fs::write(&wrong, "this is no capture at all").expect("the folder is ours");
    let wrong = wrong.to_str().expect("a plain name");
    let failure = plan(&["--p99", "1ms", "--from-pcap", wrong]).run(false).expect_err("no capture");
    assert!(failure.to_string().contains("wrong.pcap: "), "{failure}");
}
