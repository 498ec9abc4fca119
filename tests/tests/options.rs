//! Every socket option, on Linux and on Calisto: what a program is told differs only where the
//! table of `docs/reference/options.md` says so, and what it leaves to the kernel is the kernel's.

use std::collections::HashMap;

use whole::{Accelerated, Trap, project};

/// What becomes of an option on a TCP and on a UDP socket, and why, by its level and number.
type Table = HashMap<(String, u32), [String; 3]>;

fn table() -> Table {
    let path = project().join("docs/reference/options.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let mut level = String::new();
    let mut table = Table::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            level = title.split(' ').next().expect("a word").to_owned();
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if let [number, _, stream, datagram, why, ..] = cells[..]
            && let Ok(number) = number.parse()
        {
            table.insert((level.clone(), number), [stream, datagram, why].map(str::to_owned));
        }
    }
    assert!(table.len() > 200, "{} options", table.len());
    table
}

/// A line of `tests/c/every_option.c`: which option on which socket, and what was said.
fn parts(line: &str) -> Option<((String, u32), &str, &str, &str)> {
    let mut words = line.splitn(5, ' ');
    let (level, number) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
    Some(((level, number), words.next()?, words.next()?, words.next()?))
}

#[test]
fn every_socket_option_says_what_linux_says_or_what_the_table_says() {
    let table = table();
    let accelerated = Accelerated::start();
    let trap = Trap::build("every_option");
    let linux = trap.on_linux(&accelerated);
    let calisto = trap.on_calisto(&accelerated);
    assert_eq!(linux.lines().count(), calisto.lines().count());
    let (mut unlike, mut left_to_the_kernel) = (Vec::new(), 0);
    for (there, here) in linux.lines().zip(calisto.lines()) {
        let Some((option, kind, when, said)) = parts(there) else {
            assert_eq!(there, here);
            continue;
        };
        let words = table.get(&option);
        let word = words.map_or("falls back", |words| &words[usize::from(kind == "udp")]);
        let was_set = said.starts_with("set:0");
        // One is IP_PMTUDISC_WANT: what every socket does.
        let is_usual =
            [("IPPROTO_IP", 10), ("IPPROTO_IPV6", 23)].contains(&(option.0.as_str(), option.1));
        let leaves = match when {
            _ if is_usual => false,
            "early" => matches!(word, "falls back" | "early"),
            _ => word == "falls back",
        };
        left_to_the_kernel += u64::from(was_set && leaves && (kind, when) != ("tcp", "late"));
        let is_allowed = match (word, kind, when) {
            ("falls back", "tcp", "late") => here.contains("set:ENOPROTOOPT"),
            ("refused", ..) => !here.contains("set:0"),
            _ => false,
        };
        let is_unconnected = words.is_some_and(|words| words[2].contains("ENOTCONN"))
            && here.contains("get:ENOTCONN");
        let is_allowed = is_allowed || is_unconnected;
        // Whatever it was told, it goes on talking.
        let still_talks = said.contains("talks:word") <= here.contains("talks:word");
        if there != here && !(is_allowed && still_talks) {
            unlike.push(format!("{word}:\n  Linux   {there}\n  Calisto {here}"));
        }
    }
    assert!(unlike.is_empty(), "{}", unlike.join("\n"));
    // Values that are usual, and those that both refuse, leave nothing.
    let told = accelerated.fallbacks();
    let told = told.iter().map(|total| total.count).sum::<u64>();
    assert!(left_to_the_kernel > 60, "{left_to_the_kernel} sockets");
    assert!(told >= left_to_the_kernel, "{told} of {left_to_the_kernel} sockets fell back");
}

#[test]
fn what_stands_beside_a_datagram_is_heeded() {
    whole::looks_like_linux("beside");
}

/// What a packet says that options are about; of segments without payload, only those with a SYN.
fn facts_of(packet: &[u8], from: &Accelerated) -> Option<(u16, String)> {
    let wire::Outcome::Flow(flow) = wire::classify(packet) else { return None };
    let source = flow.key.source();
    let here = from.here();
    if source.ip() != here.ipv4() && source.ip() != here.ipv6() {
        return None;
    }
    let (own, other) = (source.port(), flow.key.destination().port());
    let port = if own < 7000 { own } else { other };
    let ip = packet.get(usize::from(flow.l3_offset)..)?;
    let (class, hops) = match flow.key.is_ipv6() {
        true => (ip[0] << 4 | ip[1] >> 4, ip[7]),
        false => (ip[1], ip[8]),
    };
    let fields = format!("class {class:#x}, {hops} hops");
    if flow.key.protocol() == wire::Protocol::Udp {
        return Some((port, format!("datagram: {fields}")));
    }
    let segment = packet.get(usize::from(flow.l4_offset)..)?;
    if segment[13] & wire::tcp::SYN == 0 {
        let bytes = flow.payload_len;
        return (bytes > 0).then(|| (port, format!("data: {fields}")));
    }
    // The first option of a SYN, with Linux and here.
    let mss = u16::from_be_bytes([segment[22], segment[23]]);
    Some((port, format!("SYN: {fields}, MSS {mss}")))
}

/// What was heard of each port, each thing once, and the longest payload.
fn digest(sniffer: &whole::Sniffer, from: &Accelerated) -> Vec<String> {
    let packets = sniffer.packets();
    let facts = packets.iter().filter_map(|packet| facts_of(packet, from));
    let ports: std::collections::BTreeSet<(u16, String)> = facts.collect();
    ports.into_iter().map(|(port, fact)| format!("{port} {fact}")).collect()
}

/// Connections that the kernel has opened or accepted so far at the end where the daemon is.
fn connections(accelerated: &Accelerated) -> u64 {
    let count = |name| whole::kernel_tcp(accelerated.here(), name);
    count("ActiveOpens") + count("PassiveOpens")
}

#[test]
fn what_options_change_on_the_wire_is_what_linux_changes() {
    let accelerated = Accelerated::start();
    let trap = Trap::build("on_the_wire");
    let six = accelerated.there().ipv6().to_string();
    std::fs::write(accelerated.daemon().folder().join("there6"), six).expect("the folder is ours");
    let sniffer = whole::Sniffer::with_buffer(accelerated.there(), 1 << 22);
    let linux = trap.on_linux(&accelerated);
    let on_linux = digest(&sniffer, &accelerated);
    let before = connections(&accelerated);
    let calisto = trap.on_calisto(&accelerated);
    let on_calisto = digest(&sniffer, &accelerated);
    assert_eq!(accelerated.fallbacks(), [], "sockets were left to the kernel");
    assert_eq!(connections(&accelerated), before, "the kernel has connections");
    assert_eq!(calisto, linux, "Calisto on the left, Linux on the right");
    assert!(on_linux.len() > 15, "{on_linux:?}");
    assert_eq!(on_calisto, on_linux, "Calisto on the left, Linux on the right");
}
