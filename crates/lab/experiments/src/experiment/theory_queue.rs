//! `theory_queue`: requests, a queue and servers, with nothing that costs anything. The bound of
//! what can be.

use std::collections::BTreeMap;

use base::Nanos;
use sim::Level;
use sim::theory_queue::TheoryQueue;

use super::form::{Experiment, Row, Task};
use super::machine;
use crate::scenario::Over;
use crate::setting::{Kind, Preset, Rule};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "station",
    help: "requests, a queue and servers, and nothing that costs anything: the bound of what can be",
    rules: RULES,
    values: &["p50_us", "p90_us", "p99_us", "p99_9_us", "mean_us", "wait_mean_us", "load"],
    over: &[Over::Points],
    has_costs: false,
    has_chance: true,
    rows: |_| 1,
    check: |_| Ok(()),
    run,
    parameters: |_| Vec::new(),
};

fn queues() -> Vec<&'static str> {
    vec!["one", "each"]
}

const RULES: &[Rule] = &[
    Rule {
        key: "cores",
        kind: Kind::Whole(1, 1024),
        default: Preset::Number(10.0),
        help: "servers",
    },
    Rule {
        key: "queues",
        kind: Kind::Word(queues),
        default: Preset::Word("one"),
        help: "one for all servers, or each has its own",
    },
    Rule {
        key: "rate",
        kind: Kind::Rate(1.0, 1e9),
        default: Preset::Number(20e3),
        help: "requests a second",
    },
    Rule {
        key: "load",
        kind: Kind::Number(0.0001, 10.0),
        default: Preset::Nothing,
        help: "instead of a rate, a share of what the plant's cores can do: the same requests as there",
    },
    Rule {
        key: "distribution",
        kind: Kind::Word(machine::distributions),
        default: Preset::Word("constant"),
        help: "of the time that a request takes",
    },
    Rule {
        key: "mean",
        kind: Kind::Time(0.001, 1e6),
        default: Preset::Number(10.0),
        help: "its mean",
    },
    Rule {
        key: "packets",
        kind: Kind::Whole(1, 20_000_000),
        default: Preset::Number(100_000.0),
        help: "requests that are measured",
    },
];

/// A queue that grows as long as the run lasts is no queue: up to this share of the servers' time.
const LOAD_MAX: f64 = 0.999;

fn load(task: &Task<'_>) -> f64 {
    let settings = task.settings;
    machine::rate(settings) * settings.number("mean") / 1e6 / settings.number("cores")
}

fn run(task: &Task<'_>, _: Level, seed: u64) -> Result<Vec<Row>, String> {
    let settings = task.settings;
    let load = load(task);
    if load > LOAD_MAX {
        let values = BTreeMap::from([("load", load)]);
        return Ok(vec![Row { at: None, values, saturated: true }]);
    }
    let cores = settings.whole("cores");
    // With a queue each, every server is a queue of its own, and all are alike.
    let (servers, sharers) =
        if settings.word("queues") == "one" { (cores as u32, 1.0) } else { (1, cores as f64) };
    let theory_queue = TheoryQueue {
        servers,
        gap: Nanos((1e9 * sharers / machine::rate(settings)).round() as u64),
        service: machine::distribution(settings),
        service_mean: settings.time("mean"),
    };
    let part = if task.quick { 10 } else { 1 };
    let customers = (settings.whole("packets") / part).max(100);
    let served = theory_queue.run(seed, customers / 10, customers);
    let at = |share| served.sojourn_quantiles.quantile(share).as_micros_f64();
    let values = BTreeMap::from([
        ("p50_us", at(0.5)),
        ("p90_us", at(0.9)),
        ("p99_us", at(0.99)),
        ("p99_9_us", at(0.999)),
        ("mean_us", served.sojourn_quantiles.percentiles().mean_us),
        ("wait_mean_us", served.waits.interval().map_or(0.0, |waits| waits.mean / 1e3)),
        ("load", load),
    ]);
    Ok(vec![Row { at: None, values, saturated: false }])
}
