//! `calisto bench --costs`: what things cost on this machine, as `calisto sim --costs` takes it.
//!
//! Each cost is a number that some case of a bench prints anyway. So the benches are asked for
//! these cases, and what they say becomes a line of TOML with the range of its rounds beside it.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use serde::Deserialize;

use crate::cases::Args;
use crate::cores::Cores;
use crate::error::Error;
use crate::steer::Steer;
use crate::wait::Wait;

/// A cost of the simulator, and what measures it.
struct Measured {
    key: &'static str,
    bench: &'static str,
    case: &'static str,
    metric: &'static str,
    of: Of,
    /// Nanoseconds of what the bench printed.
    nanos: fn(f64) -> f64,
}

/// Which number of a figure.
#[derive(Clone, Copy)]
enum Of {
    Value,
    Baseline,
}

const fn measured(
    key: &'static str,
    [bench, case, metric]: [&'static str; 3],
    of: Of,
    nanos: fn(f64) -> f64,
) -> Measured {
    Measured { key, bench, case, metric, of, nanos }
}

/// Waking a thread on the CPU that another one leaves is in the time that it takes to reclaim a
/// CPU, and a cost of its own in the model.
const SWITCH_NS: f64 = 3_200.0;

fn from_micros(micros: f64) -> f64 {
    micros * 1e3
}

fn from_millions(a_second: f64) -> f64 {
    1e3 / a_second
}

static MEASURED: [Measured; 10] = [
    measured(
        "dispatch",
        ["steer", "rate", "classify + dispatch + ring push"],
        Of::Value,
        from_millions,
    ),
    measured("flow_insert", ["steer", "cost", "rte_hash first packet"], Of::Value, |nanos| nanos),
    measured("flow_lookup", ["steer", "cost", "rte_hash later packet"], Of::Value, |nanos| nanos),
    measured("outside", ["steer", "echo", "fused, 1 outstanding, p50"], Of::Value, from_micros),
    measured("wake", ["cores", "grant", "halted CPU, p50"], Of::Value, from_micros),
    measured("revoke", ["cores", "reclaim", "from a SCHED_IDLE job, p50"], Of::Value, |micros| {
        (from_micros(micros) - SWITCH_NS).max(0.0)
    }),
    measured("tick", ["cores", "tick", "64 active workers"], Of::Value, |micros| {
        from_micros(micros) / 64.0
    }),
    measured(
        "scan_fetch",
        ["wait", "latency", "1 queues: p50, ready set"],
        Of::Baseline,
        |nanos| nanos,
    ),
    measured(
        "scan_notice",
        ["wait", "latency", "1 queue: the ready set's price"],
        Of::Value,
        |nanos| nanos.max(0.0),
    ),
    measured(
        "scan_item",
        ["wait", "throughput", "all busy, 1 queues: ready set"],
        Of::Value,
        from_millions,
    ),
];

/// As much of a printed figure as a cost needs.
#[derive(Deserialize)]
struct Printed {
    case: String,
    metric: String,
    value: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    baseline: Option<PrintedBaseline>,
    note: Option<String>,
}

#[derive(Deserialize)]
struct PrintedBaseline {
    value: f64,
}

/// Runs the cases that measure costs, some minutes of them (with `quick` in short), and writes them
/// as a file of costs. What could not be measured here is a comment in it that says why.
///
/// # Errors
/// A bench could not be run at all, or the file could not be written.
pub(crate) fn write(path: &Path, quick: bool, out: &mut dyn Write) -> Result<(), Error> {
    let mut printed = Vec::new();
    asked::<Args<Steer>>("steer", quick).run(true, &mut printed)?;
    asked::<Args<Cores>>("cores", quick).run(true, &mut printed)?;
    asked::<Args<Wait>>("wait", quick).run(true, &mut printed)?;
    let text = text(&String::from_utf8_lossy(&printed))?;
    let name = path.display();
    sys::whole_file::write(path, &text).map_err(|error| {
        Error::needs("file of costs")(&format_args!("cannot write {name}: {error}"))
    })?;
    writeln!(out, "{text}\nwritten to {name}").map_err(Error::Output)
}

/// What is asked of a bench: those of its cases that measure costs.
fn asked<A: clap::Args>(bench: &'static str, quick: bool) -> A {
    let mut words = vec![bench, "--case"];
    for one in MEASURED.iter().filter(|one| one.bench == bench) {
        if !words.contains(&one.case) {
            words.push(one.case);
        }
    }
    words.extend(quick.then_some("--quick"));
    let matches = A::augment_args(clap::Command::new(bench)).try_get_matches_from(words);
    let parsed = matches.and_then(|matches| A::from_arg_matches(&matches));
    parsed.expect("the cases are those that the bench has, to which a test holds them")
}

/// Figures, an object a line, as a file of costs.
fn text(printed: &str) -> Result<String, Error> {
    let figures: Result<Vec<Printed>, _> =
        printed.lines().filter(|line| line.starts_with('{')).map(serde_json::from_str).collect();
    let figures = figures.map_err(|error| Error::Output(io::Error::other(error)))?;
    let mut text =
        "# What things cost on this machine: for `calisto sim --costs`, `calisto plan --costs`.\n"
            .to_owned();
    for cost in &MEASURED {
        let Measured { key, bench, case, metric, of, nanos } = cost;
        let is_it = |one: &&Printed| one.case == *case && one.metric == *metric;
        let found = figures.iter().find(is_it);
        let value = found.and_then(|one| match of {
            Of::Value => one.value,
            Of::Baseline => one.baseline.as_ref().map(|baseline| baseline.value),
        });
        let Some(value) = value.map(nanos).filter(|value| value.is_finite()) else {
            let missing = figures.iter().find(|one| one.case == *case && one.value.is_none());
            let why = found.or(missing).and_then(|one| one.note.clone());
            let why = why.unwrap_or_else(|| "the bench did not print it".to_owned());
            // A reason may have several lines, and none of them may become a cost.
            let why = why.replace(['\n', '\r'], " ");
            let _ = writeln!(text, "# {key}: not measured (bench {bench}, case {case}): {why}");
            continue;
        };
        let ends = found.filter(|_| matches!(of, Of::Value)).and_then(|one| {
            let ends = [one.min?, one.max?].map(nanos);
            Some(format!(", {:.1} to {:.1} ns", ends[0].min(ends[1]), ends[0].max(ends[1])))
        });
        let ends = ends.unwrap_or_default();
        let _ = writeln!(
            text,
            "{key} = {:.6} # us{ends}; bench {bench}, case {case}: {metric}",
            value / 1e3
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_printed_becomes_a_cost_in_microseconds_and_what_was_not_a_reason() {
        let printed = concat!(
            r#"{"bench":"steer","case":"rate","metric":"classify + dispatch + ring push","value":25.0,"unit":"Mpps","min":20.0,"max":50.0,"n":2,"baseline":null,"ratio":null,"target":null,"met":null}"#,
            "\n",
            r#"{"bench":"cores","case":"reclaim","metric":"from a SCHED_IDLE job, p50","value":20.4,"unit":"us","min":15.0,"max":28.0,"n":2,"baseline":{"name":"bare","value":19.0},"ratio":1.0,"target":null,"met":null}"#,
            "\n",
            r#"{"bench":"wait","case":"latency","metric":"1 queues: p50, ready set","value":165.0,"unit":"ns","min":140.0,"max":204.0,"n":2,"baseline":{"name":"polling","value":94.0},"ratio":1.7,"target":null,"met":null}"#,
            "\n",
            r#"{"bench":"steer","case":"cost","metric":"rte_hash","value":null,"unit":"","min":null,"max":null,"n":0,"baseline":null,"ratio":null,"target":null,"met":null,"note":"no\nDPDK"}"#,
            "\n",
        );
        let text = text(printed).expect("it can be read");
        let has = |line: &str| assert!(text.lines().any(|one| one.starts_with(line)), "{text}");
        has("dispatch = 0.040000 # us, 20.0 to 50.0 ns; bench steer");
        has("revoke = 17.200000 # us");
        has("scan_fetch = 0.094000 # us; bench wait");
        has("# flow_lookup: not measured (bench steer, case cost): no DPDK");
        has("# wake: not measured (bench cores, case grant): the bench did not print it");
        assert!(text.lines().all(|line| line.starts_with('#') || line.contains(" = ")), "{text}");
    }

    #[test]
    fn every_cost_names_a_case_of_its_bench() {
        let steer: Args<Steer> = asked("steer", true);
        assert_eq!(steer.cases, ["rate", "cost", "echo"]);
        let cores: Args<Cores> = asked("cores", false);
        assert_eq!(cores.cases, ["grant", "reclaim", "tick"]);
        let wait: Args<Wait> = asked("wait", true);
        assert!(wait.quick && wait.cases == ["latency", "throughput"]);
        assert!(MEASURED.iter().all(|one| ["steer", "cores", "wait"].contains(&one.bench)));
    }
}
