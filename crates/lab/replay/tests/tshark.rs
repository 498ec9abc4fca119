//! Agreement with tshark: frames, bytes, flows and conversations of many kinds of captures.
//!
//! Needs tshark of Debian's package `tshark` (`DEBIAN_FRONTEND=noninteractive apt-get install -y
//! tshark`): as root a missing one is installed, and a failure of that fails the test.
//!
//! What differs differs by definition, and each case says so in its filter: a data path gives
//! packets of groups and fragments to no worker, while tshark reassembles fragments and has
//! conversations with groups; and tshark begins another TCP conversation when a port is used again.

use std::process::Command;
use std::sync::Once;

use crate::common::*;
use replay::{Options, Report};
use wire::tcp::{ACK, SYN};

/// Frames and bytes.
type Sum = (u64, u64);

/// What tshark finds.
#[derive(Debug, Default)]
struct Findings {
    all: Sum,
    tcp: Sum,
    udp: Sum,
    /// By protocol, tcp first: conversations, frames in them, directions with a frame.
    conversations: [(u64, u64, u64); 2],
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if Command::new("tshark").arg("--version").output().is_ok() {
            return;
        }
        for words in [&["update"][..], &["install", "-y", "tshark"]] {
            let status = Command::new("apt-get")
                .args(words)
                .env("DEBIAN_FRONTEND", "noninteractive")
                .status()
                .unwrap_or_else(|error| panic!("tshark is missing and apt-get too: {error}"));
            assert!(status.success(), "tshark is missing: `apt-get {}` failed", words.join(" "));
        }
    });
}

/// Asks tshark about `file`, leaving packets out of conversations that do not match `filter`.
fn ask(name: &str, file: &[u8], filter: &str) -> Findings {
    install();
    let path = std::env::temp_dir().join(format!("calisto-{}-{name}", std::process::id()));
    std::fs::write(&path, file).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // A packet that an ICMP error quotes is no packet of the capture.
    let only = |protocol: &str| format!("{protocol} and not icmp and not icmpv6 and ({filter})");
    let statistics = [
        format!("conv,tcp,{filter}"),
        format!("conv,udp,{filter}"),
        format!("io,stat,0,,{},{}", only("tcp"), only("udp")),
    ];
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-q").arg("-r").arg(&path);
    for statistic in &statistics {
        command.arg("-z").arg(statistic);
    }
    let output = command.output().expect("tshark is there");
    std::fs::remove_file(&path).expect("it was written above");
    let text = String::from_utf8(output.stdout).expect("addresses and numbers are ASCII");
    let complaint = String::from_utf8_lossy(&output.stderr);
    let findings = parse(&text).unwrap_or_else(|| panic!("{name}: {text}\n{complaint}"));
    // A truncated file makes it complain, and say the rest.
    assert!(output.status.success() || complaint.contains("cut short"), "{name}: {complaint}");
    findings
}

fn parse(text: &str) -> Option<Findings> {
    let mut findings = Findings::default();
    let mut section = None;
    let mut has_sums = false;
    for line in text.lines() {
        match line.trim() {
            "TCP Conversations" => section = Some(0),
            "UDP Conversations" => section = Some(1),
            line if line.starts_with("====") => {}
            line if line.starts_with('|') && line.contains("<>") => {
                let numbers = line.split('|').skip(2).filter_map(|text| text.trim().parse().ok());
                let numbers: Vec<u64> = numbers.collect();
                let &[frames, bytes, tcp, tcp_bytes, udp, udp_bytes] = &numbers[..] else {
                    return None;
                };
                findings.all = (findings.all.0 + frames, findings.all.1 + bytes);
                findings.tcp = (findings.tcp.0 + tcp, findings.tcp.1 + tcp_bytes);
                findings.udp = (findings.udp.0 + udp, findings.udp.1 + udp_bytes);
                has_sums = true;
            }
            line => {
                // ADDRESS <-> ADDRESS FRAMES BYTES UNIT FRAMES BYTES UNIT FRAMES BYTES UNIT …
                let words: Vec<&str> = line.split_whitespace().collect();
                if let [_, "<->", _, to, _, _, from, _, _, both, ..] = words[..] {
                    let of_protocol = &mut findings.conversations[section?];
                    of_protocol.0 += 1;
                    of_protocol.1 += both.parse::<u64>().ok()?;
                    of_protocol.2 += u64::from(to != "0") + u64::from(from != "0");
                }
            }
        }
    }
    has_sums.then_some(findings)
}

/// Packets and bytes of a protocol, and conversations, packets again, flows.
fn of_protocol(report: &Report, protocol: &str) -> (Sum, (u64, u64, u64)) {
    let rows = report.protocols.iter().filter(|row| row.protocol == protocol);
    rows.fold(((0, 0), (0, 0, 0)), |(sum, conversations), row| {
        (
            (sum.0 + row.packets, sum.1 + row.bytes),
            (
                conversations.0 + row.conversations,
                conversations.1 + row.packets,
                conversations.2 + row.flows,
            ),
        )
    })
}

/// Everything that tshark and we count of `file` must be the same, packets outside of `filter`
/// aside, which reach no worker here.
fn agrees(name: &str, file: &[u8], filter: &str) -> Report {
    let report = replayed(file, &Options { workers: vec![2, 3], ..Options::default() });
    let found = ask(name, file, filter);
    assert_eq!((report.records.total, report.records.bytes), found.all, "{name}: frames, bytes");
    let (tcp, tcp_conversations) = of_protocol(&report, "tcp");
    let (udp, udp_conversations) = of_protocol(&report, "udp");
    assert_eq!(tcp, found.tcp, "{name}: TCP packets, bytes\n{}", report.table());
    assert_eq!(udp, found.udp, "{name}: UDP packets, bytes\n{}", report.table());
    assert_eq!(
        [tcp_conversations, udp_conversations],
        found.conversations,
        "{name}: conversations, packets, flows\n{}",
        report.table()
    );
    assert!(tcp.0 + udp.0 > 0, "{name}: a case without a flow shows nothing");
    assert_eq!((report.faults.lost, report.flows.reordered), (0, 0), "{name}");
    report
}

const ALL: &str = "frame";
const MICROS: Format = Format::Classic { big_endian: false, nanos: false };

fn udp4() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for number in 0..60_u8 {
        let client = format!("10.0.{}.1:{}", number % 7, 4000 + u16::from(number % 11));
        packets.push(udp(&client, "10.0.0.2:53", &vec![1; usize::from(number)]));
        if number % 3 == 0 {
            packets.push(udp("10.0.0.2:53", &client, &[2; 300]));
        }
    }
    packets
}

fn udp6() -> Vec<Vec<u8>> {
    let client = |number: u16| format!("[fd00::{:x}]:{}", number % 9 + 1, 4000 + number % 5);
    let packets = (0..50).flat_map(|number| {
        let there = udp(&client(number), "[fd00::ffff]:443", &[1; 40]);
        let back = udp("[fd00::ffff]:443", &client(number + 1), &[2; 1200]);
        [there, back]
    });
    packets.collect()
}

fn sessions(clients: &[&str], server: &str) -> Vec<Vec<u8>> {
    let sessions: Vec<_> = clients.iter().map(|client| session(client, server, 5)).collect();
    // One packet of each in turn.
    let longest = sessions.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .flat_map(|at| sessions.iter().filter_map(move |all| all.get(at).cloned()))
        .collect()
}

fn tcp4() -> Vec<Vec<u8>> {
    sessions(&["10.0.0.1:40000", "10.0.0.1:40001", "10.0.0.3:40000"], "10.0.0.2:80")
}

fn tcp6() -> Vec<Vec<u8>> {
    sessions(&["[fd00::1]:40000", "[fd00::1]:40001", "[fd00::3]:40000"], "[fd00::2]:80")
}

fn everything() -> Vec<Vec<u8>> {
    [udp4(), tcp6(), udp6(), tcp4()].concat()
}

#[test]
fn udp_over_ipv4() {
    agrees("udp4.pcap", &file(MICROS, ETHERNET, &spaced(udp4(), 1_000_000)), ALL);
}

#[test]
fn udp_over_ipv6() {
    agrees("udp6.pcap", &file(MICROS, ETHERNET, &spaced(udp6(), 10_000)), ALL);
}

#[test]
fn tcp_sessions_over_ipv4() {
    agrees("tcp4.pcap", &file(MICROS, ETHERNET, &spaced(tcp4(), 50_000)), ALL);
}

#[test]
fn tcp_sessions_over_ipv6() {
    agrees("tcp6.pcap", &file(MICROS, ETHERNET, &spaced(tcp6(), 50_000)), ALL);
}

#[test]
fn neighbours_pings_errors_and_bridges_among_flows() {
    let asked = udp("10.0.0.1:9999", "10.0.0.2:9998", &[0; 8]);
    let mut bridge = ethernet(38, &[&[0x42, 0x42, 3][..], &[0; 35]].concat());
    bridge[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 0]);
    let mut packets = vec![arp(), icmp_echo(), asked.clone(), icmp_error(&asked), bridge];
    packets.extend(tcp4());
    packets.push(icmp_error(&tcp4()[0]));
    let report = agrees("mixed.pcap", &plain(&spaced(packets, 1000)), ALL);
    assert_eq!(report.counter("not_ours_icmp_error"), 2);
    assert_eq!(report.counter("not_ours_llc_frame"), 1);
    assert_eq!(report.counter("not_ours_arp"), 1);
}

#[test]
fn vlan_tags_of_one_and_two_levels() {
    let tagged = |vlan| {
        let (from, to) = (address("10.0.0.1:5000"), address("10.0.0.2:7"));
        udp_to(from, to, &[7; 30], Some(vlan))
    };
    let mut doubly = tagged(5);
    doubly.splice(12..12, [0x88, 0xa8, 0, 100]);
    let packets = [vec![tagged(5), tagged(6), doubly], udp4()].concat();
    let report = agrees("vlan.pcap", &plain(&spaced(packets, 1000)), ALL);
    let untagged = replayed(&plain(&spaced(udp4(), 1000)), &Options::default());
    assert_eq!(report.flows.tracked, untagged.flows.tracked + 1, "a tag is no part of a flow");
}

#[test]
fn short_frames_padded_by_the_link() {
    let mut packets = udp4();
    packets.iter_mut().for_each(|packet| packet.resize(packet.len().max(60), 0));
    agrees("padded.pcap", &plain(&spaced(packets, 1000)), ALL);
}

/// tshark puts the parts together, and counts the frame that completes a packet as one of UDP.
const NO_FRAGMENTS: &str = "not (ip.flags.mf == 1 or ip.frag_offset > 0 or (ipv6.fraghdr and (ipv6.fraghdr.more == 1 or ipv6.fraghdr.offset > 0)))";

#[test]
fn fragments_reach_no_worker() {
    let whole = udp("10.0.0.1:700", "10.0.0.2:701", &[3; 1600]);
    let segment = &whole[34..];
    let mut packets = vec![ipv4(17, 0x2000, &segment[..800]), ipv4(17, 100, &segment[800..])];
    let six = udp("[fd00::1]:700", "[fd00::2]:701", &[3; 1600]);
    let segment = &six[54..];
    let part = |offset: u16, rest: &[u8]| {
        let [high, low] = offset.to_be_bytes();
        ipv6(44, &[&[17, 0, high, low, 0, 0, 0, 9][..], rest].concat())
    };
    packets.push(part(1, &segment[..800]));
    packets.push(part(800, &segment[800..]));
    packets.extend(udp4());
    let report = agrees("fragments.pcap", &plain(&spaced(packets, 1000)), NO_FRAGMENTS);
    assert_eq!(report.counter("not_ours_fragment"), 4);
}

#[test]
fn extension_headers_before_the_transport() {
    let plain_packet = udp("[fd00::1]:800", "[fd00::2]:801", &[5; 64]);
    let segment = &plain_packet[54..];
    let with = |first: u8, headers: &[u8]| ipv6(first, &[headers, segment].concat());
    let hop_by_hop = [17, 0, 5, 2, 0, 0, 1, 0];
    let options = [17, 0, 1, 4, 0, 0, 0, 0];
    let atomic = [17, 0, 0, 0, 0, 0, 0, 1];
    let both = [60, 0, 5, 2, 0, 0, 1, 0, 17, 0, 1, 4, 0, 0, 0, 0];
    let packets = vec![
        with(0, &hop_by_hop),
        with(60, &options),
        with(44, &atomic),
        with(0, &both),
        plain_packet.clone(),
    ];
    let report = agrees("extensions.pcap", &plain(&spaced(packets, 1000)), ALL);
    assert_eq!((report.protocols[0].packets, report.protocols[0].flows), (5, 1));
}

#[test]
fn packets_cut_by_the_snapshot_length() {
    for snaplen in [60, 96, 128] {
        let packets = [udp4(), tcp4()].concat();
        let records = spaced(packets, 1000).into_iter().map(|record| record.cut(snaplen));
        let records: Vec<_> = records.collect();
        let report = agrees("cut.pcap", &plain(&records), ALL);
        assert!(report.records.cut > 10, "{snaplen}");
    }
}

#[test]
fn jumbo_frames_and_packets_that_the_nic_was_to_segment() {
    let big = |payload| tcp("10.0.0.1:5001", "10.0.0.2:80", (1, 1), ACK, &vec![1; payload]);
    let packets =
        vec![big(8960), big(60_000), big(65_000), udp("[fd00::1]:1", "[fd00::2]:2", &[1; 8900])];
    let report = agrees("jumbo.pcap", &plain(&spaced(packets, 1000)), ALL);
    assert_eq!(report.records.too_long, 4);
    assert_eq!(report.checksums.right, 4, "what is not played is verified before it is cut off");
}

#[test]
fn every_format_and_byte_order() {
    for (number, format) in FORMATS.into_iter().enumerate() {
        let file = file(format, ETHERNET, &spaced(everything(), 123_457));
        agrees(&format!("format{number}.pcap"), &file, ALL);
    }
}

#[test]
fn pcapng_of_several_interfaces_and_sections() {
    let packets = [udp4(), tcp6()].concat();
    let mut file = Writer::new(true);
    for big_endian in [true, false] {
        file.big_endian = big_endian;
        file = file.raw(&ng_section(big_endian).bytes);
        let links = [ETHERNET, 113, 101, 276];
        for link in links {
            file = file.block(1, ng_interface(big_endian, link));
        }
        // A name resolution, and a block that nobody knows. (Custom blocks are frames to tshark.)
        file = file.block(4, Writer::new(big_endian).word(0));
        file = file.block(0x4000_0123, Writer::new(big_endian).word(1).raw(&[7; 21]));
        for (number, record) in spaced(packets.clone(), 777).into_iter().enumerate() {
            let interface = number % links.len();
            let record = Record::whole(record.nanos, on_link(links[interface], &record.bytes));
            file = file.block(6, ng_packet(big_endian, interface as u32, &record));
            if number % 10 == 0 {
                let simple = udp("10.9.9.9:1", "10.9.9.8:2", &[1; 9]);
                let body = Writer::new(big_endian).word(simple.len() as u32).raw(&simple);
                file = file.block(3, body);
            }
        }
    }
    agrees("interfaces.pcapng", &file.bytes, ALL);
}

#[test]
fn links_without_ethernet() {
    for link in [113, 276, 101, 12, 0, 108] {
        let packets = everything().into_iter().map(|packet| on_link(link, &packet));
        let file = file(MICROS, link, &spaced(packets, 2000));
        let report = agrees(&format!("link{link}.pcap"), &file, ALL);
        assert_eq!(report.played.packets, report.records.total);
    }
    for (link, packets) in [(228, [udp4(), tcp4()].concat()), (229, [udp6(), tcp6()].concat())] {
        let packets = packets.into_iter().map(|packet| on_link(link, &packet));
        agrees(&format!("link{link}.pcap"), &file(MICROS, link, &spaced(packets, 2000)), ALL);
    }
}

#[test]
fn groups_and_everybody_reach_no_worker() {
    let mut broadcast = udp("10.0.0.1:68", "255.255.255.255:67", &[0; 100]);
    broadcast[..6].fill(0xff);
    let mut group = udp("10.0.0.1:5353", "224.0.0.251:5353", &[0; 40]);
    group[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 0xfb]);
    let packets = [vec![broadcast, group], udp6()].concat();
    let report = agrees("groups.pcap", &plain(&spaced(packets, 1000)), "eth.dst.ig == 0");
    assert_eq!(report.counter("not_ours_broadcast") + report.counter("not_ours_multicast"), 2);
}

#[test]
fn wrong_and_unfinished_checksums_are_counted_and_played() {
    let mut packets = tcp4();
    packets[9][60] ^= 1;
    // What a kernel leaves to its NIC: the sum of the pseudo-header.
    let unfinished = &mut packets[10];
    let len = (unfinished.len() - 34) as u16;
    let sum = wire::checksum::Sum::ZERO;
    let sum = sum.pseudo_ipv4([10, 0, 0, 1], [10, 0, 0, 2], 6, len);
    assert_eq!(&unfinished[26..34], [10, 0, 0, 1, 10, 0, 0, 2]);
    unfinished[50..52].copy_from_slice(&sum.fold().to_be_bytes());
    let report = agrees("sums.pcap", &plain(&spaced(packets, 1000)), ALL);
    assert_eq!((report.checksums.wrong, report.checksums.unfinished), (1, 1));
}

#[test]
fn a_port_used_again_is_one_flow_here_and_another_conversation_there() {
    let first = session("10.0.0.1:40000", "10.0.0.2:80", 2);
    let again = tcp("10.0.0.1:40000", "10.0.0.2:80", (9_000_000, 0), SYN, &[]);
    let file = plain(&spaced([first, vec![again]].concat(), 1000));
    let report = replayed(&file, &Options::default());
    let found = ask("again.pcap", &file, ALL);
    assert_eq!(found.conversations[0].0, 2);
    assert_eq!(report.flows.conversations, 1);
    assert_eq!(of_protocol(&report, "tcp").0, found.tcp);
}

#[test]
fn a_file_cut_in_the_middle_counts_up_to_there() {
    let (file, ends) = file_with_ends(MICROS, ETHERNET, &spaced(udp4(), 1000));
    let report = agrees("short.pcap", &file[..ends[30] + 20], ALL);
    assert_eq!(report.records.total, 30);
    assert!(report.faults.damage.is_some());
}

#[test]
fn records_without_a_byte_are_frames_too() {
    let mut records = spaced(udp4(), 1000);
    records.insert(3, Record::whole(records[3].nanos, Vec::new()));
    let report = agrees("empty.pcap", &plain(&records), ALL);
    assert_eq!(report.records.empty, 1);
}
