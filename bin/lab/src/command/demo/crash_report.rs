//! What the fifth and the sixth act have shown: a table for people, lines of JSON for programs.

use std::time::Duration;

use cli::failure::Failure;
use cli::output;
use cli::table::{Cell, Table, grouped};
use serde::Serialize;

use super::crash_act::{CrashAct, Death, Ending};

/// One death, or the end of it all, for a script.
#[derive(Serialize)]
struct Row<'a, T> {
    act: &'a str,
    port: &'a str,
    #[serde(flatten)]
    shown: &'a T,
}

#[derive(Serialize)]
struct Sum {
    connections: usize,
    broken: usize,
    answered: u64,
    stall_p50_ms: f64,
    stall_p99_ms: f64,
    stall_max_ms: f64,
}

/// Prints the act, a line for each death and one for all of them.
pub(super) fn rows(act: &CrashAct) -> Result<(), Failure> {
    let name = act.ending.act();
    for death in &act.deaths {
        output::json(&Row { act: name, port: &act.port, shown: death })?;
    }
    let of_all = format!("{name}_sum");
    output::json(&Row { act: &of_all, port: &act.port, shown: &sum(act) })?;
    check(act)
}

/// The act, for a person.
pub(super) fn text(act: &CrashAct) -> String {
    let (ended, verb, who) = match act.ending {
        Ending::Killed => ("kill -9", "killed", "the guardian"),
        Ending::Replaced => ("up --replace", "replaced", "calisto up --replace"),
    };
    let names = [ended, "connections", "just served", "requests/s before", "after"];
    let mut table = Table::new(names);
    for Death { death, served, connections, before_per_s, after_per_s, .. } in &act.deaths {
        table.row([
            Cell::from(*death),
            (*connections).into(),
            (*served).into(),
            Cell::decimal(*before_per_s, 0, ""),
            Cell::decimal(*after_per_s, 0, ""),
        ]);
    }
    let Sum { connections, broken, answered, stall_p50_ms, stall_p99_ms, stall_max_ms } = sum(act);
    format!(
        "\n{}\n\
         the daemon was {verb} {} times under redis-server, unmodified: {broken} of {connections} \
         connections broke, {} requests were answered, each by the number that had to come\n\
         longest time without an answer: p50 {stall_p50_ms:.0} ms, p99 {stall_p99_ms:.0} ms, at most \
         {stall_max_ms:.0} ms\n\
         {who}: {}\n\
         a connection is the kernel's from its daemon's end on; the next daemon serves new ones\n\
         port {}; each connection asks one request at a time, over Linux sockets\n",
        table.render(),
        act.deaths.len(),
        grouped(answered),
        act.deaths.last().map_or("nothing", |death| &death.said),
        act.port,
    )
}

/// A demonstration of nothing broken fails if something is.
pub(super) fn check(act: &CrashAct) -> Result<(), Failure> {
    match act.broken.first() {
        None => Ok(()),
        Some(first) => Err(Failure::new(format!(
            "{} connections broke, the first because of this: {first}",
            act.broken.len()
        ))),
    }
}

fn sum(act: &CrashAct) -> Sum {
    let mut stalls = act.stalls.clone();
    stalls.sort_unstable();
    let of = |percent: usize| {
        let at = (stalls.len() * percent).div_ceil(100).saturating_sub(1);
        stalls.get(at).copied().unwrap_or(Duration::ZERO).as_secs_f64() * 1000.0
    };
    Sum {
        connections: stalls.len(),
        broken: act.broken.len(),
        answered: act.answered,
        stall_p50_ms: of(50),
        stall_p99_ms: of(99),
        stall_max_ms: of(100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act(broken: &[&str]) -> CrashAct {
        CrashAct {
            ending: Ending::Killed,
            deaths: vec![Death {
                death: 1,
                served: 64,
                connections: 64,
                before_per_s: 50_000.0,
                after_per_s: 40_000.0,
                said: "the kernel goes on with 64 connections; 0 are lost, 9 ms".to_owned(),
            }],
            answered: 123_456,
            stalls: (1..=100).rev().map(Duration::from_millis).collect(),
            broken: broken.iter().map(|&why| why.to_owned()).collect(),
            port: "xdp:veth0".to_owned(),
        }
    }

    #[test]
    fn the_page_says_how_often_how_many_and_how_long() {
        let text = text(&act(&[]));
        for part in [
            "was killed 1 times",
            "0 of 100 connections broke, 123,456 requests",
            "p50 50 ms, p99 99 ms, at most 100 ms",
            "goes on with 64 connections; 0 are lost",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert_eq!(check(&act(&[])), Ok(()));
        let replaced = CrashAct { ending: Ending::Replaced, ..act(&[]) };
        assert!(super::text(&replaced).contains("was replaced 1 times"));
    }

    #[test]
    fn a_connection_that_broke_is_a_failure_that_says_why() {
        let failed = check(&act(&["reset", "late"])).expect_err("two broke").to_string();
        assert_eq!(failed, "2 connections broke, the first because of this: reset");
    }
}
