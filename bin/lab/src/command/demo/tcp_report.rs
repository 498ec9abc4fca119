//! What the third act has shown: a table for people, lines of JSON for programs.

use cli::failure::Failure;
use cli::table::{Cell, Table};

use super::Demo;
use super::placement::Placement;
use super::tcp_act::{TcpAct, connections, core_layout};
use super::tcp_client::REQUEST_BYTES;
use super::turns_report;

/// Prints the act, a line for each server.
pub(super) fn rows(demo: &Demo, TcpAct { ours, linux, port }: &TcpAct) -> Result<(), Failure> {
    turns_report::rows("tcp", port, demo.connections, [ours, linux])
}

/// The act, for a person.
pub(super) fn text(demo: &Demo, act: &TcpAct, placement: &Placement) -> String {
    let TcpAct { ours, linux, port } = act;
    let mut table = Table::new([
        "server",
        "requests/s",
        "p50 (us)",
        "p95 (us)",
        "fast path",
        "packets out/request",
        "bulk (Mbit/s)",
        "sent again",
    ]);
    for shown in [ours, linux] {
        table.row([
            shown.server.into(),
            Cell::decimal(shown.requests_per_s, 0, ""),
            Cell::decimal(shown.p50_us, 0, ""),
            Cell::decimal(shown.p95_us, 0, ""),
            Cell::decimal(100.0 * shown.fast.unwrap_or(f64::NAN), 1, " %"),
            Cell::decimal(shown.packets_per_request, 2, ""),
            Cell::decimal(shown.bulk_mbit_per_s, 0, ""),
            shown.sent_again.into(),
        ]);
    }
    let (connections, rounds) = (connections(demo.connections), demo.rounds);
    format!(
        "\n{}\n\
         {}\n\
         requests: {REQUEST_BYTES} B each way, {connections}, one request at a time over \
         each, Linux sockets; the median of {rounds} rounds\n\
         bulk: one connection, as much as fits, counted when it is back; the servers take turns\n\
         fast path: share of the segments of the requests, connecting and closing included; sent \
         again: segments, requests and bulk together\n\
         port {port}, {}; Linux on the same veth, without segmentation by the NIC\n",
        table.render(),
        act.sentence(),
        core_layout(placement),
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;
    use crate::command::Command;
    use crate::command::demo::tcp_act::Shown;

    fn shown(server: &'static str, requests_per_s: f64, fast: Option<f64>) -> Shown {
        Shown {
            server,
            requests_per_s,
            p50_us: 400.4,
            p95_us: 700.0,
            fast,
            packets_per_request: 1.004,
            bulk_mbit_per_s: 2500.0,
            sent_again: 0,
        }
    }

    fn act() -> TcpAct {
        let ours = shown("calisto", 150_000.0, Some(0.9987));
        TcpAct { ours, linux: shown("linux", 100_000.0, None), port: "xdp:veth0".to_owned() }
    }

    #[test]
    fn the_table_has_both_servers_and_a_sentence_says_who_did_what() {
        let cli = Cli::try_parse_from(["calisto", "demo"]).expect("no option is needed");
        let Command::Demo(demo) = cli.command else { panic!("{:?}", cli.command) };
        let text = text(&demo, &act(), &Placement::of(&[0, 1]));
        let words = |line: usize| -> Vec<&str> {
            text.lines().nth(line).expect("a line").split_whitespace().collect()
        };
        assert_eq!(words(2), ["calisto", "150000", "400", "700", "99.9", "%", "1.00", "2500", "0"]);
        assert_eq!(words(3)[4], "-", "Linux does not tell");
        for part in [
            "1.50 x as many requests a second as Linux",
            "sent nothing again",
            "64 B each way, 64 connections",
            "the median of 3 rounds",
            "port xdp:veth0",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
