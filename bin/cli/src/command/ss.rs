//! `calisto ss`: the accelerated sockets, as `ss` of iproute2 shows the kernel's.

use std::fmt::Write;

use admin::{ReplyBody, SocketRow, SocketState, TcpRow};
use clap::Args;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::table::{Cell, Table};
use crate::target::{About, Admin};
use crate::{output, sockets};

/// Show the accelerated sockets, with the columns of `ss -tinp`.
///
/// What the kernel serves is shown by `ss`; why it does is told by `calisto explain PID`.
/// Addresses and ports are always numbers.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto ss                                            connections, TCP and UDP\n  \
    calisto ss -tinp                                      as one is used to\n  \
    calisto ss -l --app redis-server\n  \
    calisto ss -a -j | jq '.sockets[].local'")]
pub(crate) struct Ss {
    /// TCP sockets (with -u: both, as without either).
    #[arg(short = 't', long)]
    tcp: bool,
    /// UDP sockets.
    #[arg(short = 'u', long)]
    udp: bool,
    /// Only those that listen.
    #[arg(short = 'l', long)]
    listening: bool,
    /// Those that listen, too.
    #[arg(short = 'a', long, conflicts_with = "listening")]
    all: bool,
    /// Numbers instead of names: they always are, and `ss -tinp` may be typed as usual.
    #[arg(short = 'n', long)]
    numeric: bool,
    /// With the processes that may have it open.
    #[arg(short = 'p', long)]
    processes: bool,
    /// With a second line: what TCP knows, and who serves it.
    #[arg(short = 'i', long)]
    info: bool,
    #[command(flatten)]
    admin: Admin,
    #[command(flatten)]
    about: About,
}

impl Ss {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let daemon = Daemon::at(&self.admin.socket).about(self.about.app.as_deref());
        let mut rows = sockets::all(&daemon)?;
        rows.retain(|row| self.shows(row));
        if json {
            return output::json(&ReplyBody::Sockets { sockets: rows, next: None });
        }
        output::text(&self.render(&rows))
    }

    fn shows(&self, row: &SocketRow) -> bool {
        // A datagram socket without a peer is to UDP what a listener is to TCP.
        let listens = matches!(row.state, SocketState::Listen | SocketState::Unconn);
        let protocol = self.tcp == self.udp || (row.protocol == "tcp") == self.tcp;
        protocol && (self.all || listens == self.listening)
    }

    fn render(&self, rows: &[SocketRow]) -> String {
        let mut table = Table::new([
            "Netid",
            "State",
            "Recv-Q",
            "Send-Q",
            "Local Address:Port",
            "Peer Address:Port",
            if self.processes { "Process" } else { "" },
        ]);
        for row in rows {
            table.row([
                row.protocol.as_str().into(),
                row.state.as_str().into(),
                // Scripts read these columns: no marks between thousands.
                Cell::Number(row.recv_q.to_string()),
                Cell::Number(row.send_q.to_string()),
                row.local.as_str().into(),
                row.remote.as_deref().unwrap_or("*:*").into(),
                if self.processes { users(row).into() } else { "".into() },
            ]);
        }
        let table = table.render();
        if !self.info {
            return table;
        }
        let mut text = String::new();
        let mut lines = table.lines();
        if let Some(line) = lines.next() {
            let _ = writeln!(text, "{line}");
        }
        for (line, row) in lines.zip(rows) {
            let _ = writeln!(text, "{line}\n\t {}", info(row));
        }
        text
    }
}

/// As `ss -p` writes it.
fn users(row: &SocketRow) -> String {
    let users = row.pids.iter().map(|pid| format!("(\"{}\",pid={pid})", row.app_name));
    format!("users:({})", users.collect::<Vec<_>>().join(","))
}

/// As `ss -i` writes it; what only we have is at the end.
fn info(row: &SocketRow) -> String {
    let mut words = Vec::new();
    if let Some(tcp) = &row.tcp {
        of_tcp(tcp, &mut words);
    }
    words.push(format!("bytes_sent:{}", row.bytes_sent));
    words.push(format!("bytes_received:{}", row.bytes_received));
    if let Some(timer) = &row.timer {
        let name = if timer.name == "retransmit" { "on" } else { &timer.name };
        words.push(format!("timer:({name},{},{})", left(timer.left_ms), timer.expirations));
    }
    words.push(format!("uid:{}", row.uid));
    for (name, value) in [("ino", row.inode), ("sk", row.cookie)] {
        if value != 0 {
            words.push(format!("{name}:{value}"));
        }
    }
    words.push(format!("app:{}", row.app));
    match row.worker {
        Some(worker) => words.push(format!("worker:{worker}")),
        None if row.is_local => words.push("shared_memory".to_owned()),
        None => {}
    }
    words.push(row.profile.clone());
    words.join(" ")
}

/// A timer's time as `ss -o` writes it: the longer, the coarser.
fn left(ms: u64) -> String {
    let (minutes, seconds, ms) = (ms / 60_000, ms / 1000 % 60, ms % 1000);
    match (minutes, seconds) {
        (0, 0) => format!("{ms:03}ms"),
        (0, 1..10) if ms > 0 => format!("{seconds}.{ms:03}ms"),
        (0, _) => format!("{seconds}sec"),
        (10.., _) | (_, 0) => format!("{minutes}min"),
        _ => format!("{minutes}min{seconds}sec"),
    }
}

fn of_tcp(tcp: &TcpRow, words: &mut Vec<String>) {
    let ms = |us: u64| us as f64 / 1000.0;
    words.extend(tcp.options.iter().cloned());
    if !tcp.congestion.is_empty() {
        words.push(tcp.congestion.clone());
    }
    words.push(format!("rto:{}", ms(tcp.rto_us)));
    if tcp.rtt_us > 0 {
        words.push(format!("rtt:{}/{}", ms(tcp.rtt_us), ms(tcp.rttvar_us)));
    }
    words.push(format!("mss:{} cwnd:{}", tcp.mss, tcp.cwnd));
    words.extend(tcp.ssthresh.map(|ssthresh| format!("ssthresh:{ssthresh}")));
    if tcp.retransmits > 0 {
        words.push(format!("retrans:{}", tcp.retransmits));
    }
    words.push(format!("rcv_wnd:{} snd_wnd:{}", tcp.rcv_wnd, tcp.snd_wnd));
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;
    use crate::command::Command;
    use crate::sockets::tests::{listener, row};

    fn parse(line: &str) -> Result<Ss, clap::Error> {
        let words = ["calisto", "ss"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words)?.command {
            Command::Ss(ss) => Ok(ss),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_connection_is_two_lines_that_a_reader_of_ss_knows() {
        let text = parse("-tinp").expect("as usual").render(&[row()]);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let users = "users:((\"redis-server\",pid=4712),(\"redis-server\",pid=4713))";
        let ends = ["10.0.0.2:6379", "10.0.0.1:40112"];
        assert_eq!(lines[1], ["tcp", "ESTAB", "0", "64", ends[0], ends[1], users]);
        assert!(text.lines().nth(2).expect("a second line").starts_with("\t "), "{text}");
        for word in [
            "sack",
            "cubic",
            "wscale:7,7",
            "rto:201",
            "rtt:0.038/0.012",
            "mss:1448",
            "cwnd:10",
            "bytes_received:52100",
            "timer:(on,201ms,0)",
            "ino:88240",
            "sk:4098",
            "worker:1",
            "latency",
        ] {
            assert!(lines[2].contains(&word), "{word}: {text}");
        }
        assert!(!text.contains("ssthresh") && !text.contains("retrans:"), "{text}");
    }

    #[test]
    fn a_timers_time_is_written_as_ss_writes_it() {
        let cases = [
            (7, "007ms"),
            (201, "201ms"),
            (1500, "1.500ms"),
            (2000, "2sec"),
            (12_345, "12sec"),
            (61_000, "1min1sec"),
            (120_000, "2min"),
            (7_190_000, "119min"),
        ];
        for (ms, text) in cases {
            assert_eq!(left(ms), text);
        }
    }

    #[test]
    fn listeners_are_shown_when_asked_for() {
        let udp = SocketRow {
            protocol: "udp".to_owned(),
            state: SocketState::Unconn,
            is_local: true,
            worker: None,
            tcp: None,
            ..row()
        };
        let shown = |line: &str| {
            let ss = parse(line).expect(line);
            let rows = [row(), listener(), udp.clone()];
            rows.iter().map(|row| ss.shows(row)).collect::<Vec<_>>()
        };
        assert_eq!(shown(""), [true, false, false]);
        assert_eq!(shown("-l"), [false, true, true]);
        assert_eq!(shown("-lt"), [false, true, false]);
        assert_eq!(shown("-a"), [true, true, true]);
        assert_eq!(shown("-au"), [false, false, true]);
        assert_eq!(shown("-aut"), [true, true, true]);
        assert_eq!(parse("-al").expect_err("they exclude each other").exit_code(), 2);
        let text = parse("-ai").expect("letters").render(&[listener(), udp]);
        assert!(text.contains("*:*") && text.contains("shared_memory"), "{text}");
    }

    #[test]
    fn without_sockets_there_are_the_heads_alone() {
        let text = parse("-i").expect("a letter").render(&[]);
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
