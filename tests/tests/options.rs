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
