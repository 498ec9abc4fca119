//! What the fourth act has shown: a table for people, lines of JSON for programs.

use cli::failure::Failure;
use cli::table::{Cell, Table, grouped};

use super::Demo;
use super::placement::Placement;
use super::redis_act::{RedisAct, Shown};
use super::redis_client::{CONNECTIONS, REQUESTS, VALUE_BYTES};
use super::tcp_act::core_layout;
use super::turns_report;

/// Prints the act, a line for each server.
pub(super) fn rows(RedisAct { ours, linux, port, .. }: &RedisAct) -> Result<(), Failure> {
    turns_report::rows("redis", port, CONNECTIONS, [ours, linux])
}

/// The act, for a person.
pub(super) fn text(demo: &Demo, act: &RedisAct, placement: &Placement) -> String {
    let RedisAct { ours, linux, segments, port } = act;
    let mut table =
        Table::new(["redis-server on", "GET/s", "SET/s", "GET p50 (us)", "SET p50 (us)"]);
    let figures =
        |shown: &Shown| [shown.get_per_s, shown.set_per_s, shown.get_p50_us, shown.set_p50_us];
    for shown in [ours, linux] {
        let [a, b, c, d] = figures(shown).map(|value| Cell::decimal(value, 0, ""));
        table.row([shown.server.into(), a, b, c, d]);
    }
    let mut ratios = figures(ours);
    for (ratio, linux) in ratios.iter_mut().zip(figures(linux)) {
        *ratio /= linux;
    }
    let [a, b, c, d] = ratios.map(|ratio| Cell::decimal(ratio, 2, " x"));
    table.row(["ratio".into(), a, b, c, d]);
    format!(
        "\n{}\n\
         redis-server, unmodified under `calisto run`, answered {:.2} x as many GETs and {:.2} x as \
         many SETs a second as on Linux\n\
         accelerated: {} segments came by the data path, none by the kernel, no socket fell back\n\
         redis-benchmark: {CONNECTIONS} connections on Linux sockets, one request at a time over each, \
         values of {VALUE_BYTES} B, {} requests of each kind a round; the median of {} rounds; the \
         servers take turns\n\
         port {port}, {}; Linux on the same veth, without segmentation by the NIC\n",
        table.render(),
        ratios[0],
        ratios[1],
        grouped(*segments),
        grouped(u64::from(REQUESTS)),
        demo.rounds,
        core_layout(placement),
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;
    use crate::command::Command;

    fn act() -> RedisAct {
        let shown = |server, get_per_s, get_p50_us| Shown {
            server,
            get_per_s,
            set_per_s: get_per_s / 2.0,
            get_p50_us,
            set_p50_us: get_p50_us,
        };
        RedisAct {
            ours: shown("calisto", 150_000.0, 300.0),
            linux: shown("linux", 100_000.0, 400.0),
            segments: 240_000,
            port: "xdp:veth0".to_owned(),
        }
    }

    #[test]
    fn the_table_has_both_servers_and_their_ratio() {
        let cli = Cli::try_parse_from(["calisto", "demo"]).expect("no option is needed");
        let Command::Demo(demo) = cli.command else { panic!("{:?}", cli.command) };
        let text = text(&demo, &act(), &Placement::of(&[0, 1]));
        let words = |line: usize| -> Vec<&str> {
            text.lines().nth(line).expect("a line").split_whitespace().collect()
        };
        assert_eq!(words(2), ["calisto", "150000", "75000", "300", "300"]);
        assert_eq!(words(4), ["ratio", "1.50", "x", "1.50", "x", "0.75", "x", "0.75", "x"]);
        for part in ["1.50 x as many GETs", "240,000 segments", "the median of 3 rounds"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
