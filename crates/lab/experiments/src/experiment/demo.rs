//! `demo`: a worker comes and goes; the daemon's own dispatcher says whose flows move.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::Nanos;
use netsim::demo::{DemoAct, DemoPlan, run as simulate};
use sim::Level;

use super::form::{Experiment, Misfit, Row, Task};
use crate::scenario::Over;
use crate::setting::{Kind, Preset, Rule, rule};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "demo",
    help: "a worker comes and goes; the daemon's own dispatcher says whose flows move",
    rules: RULES,
    values: &["moved_up_percent", "moved_down_percent", "p50_us", "p95_us"],
    over: &[Over::Points],
    has_costs: true,
    has_chance: true,
    rows: |_| 1,
    check,
    run,
    parameters: |_| Vec::new(),
};

fn policies() -> Vec<&'static str> {
    // Whoever shares one queue owns no flows.
    let named = policy::steer::NAMES.iter().map(|(name, _)| *name);
    named.filter(|name| *name != "shared").collect()
}

const RULES: &[Rule] = &[
    rule("workers", Kind::Whole(1, 63), Preset::Number(4.0), "workers; one more comes and goes"),
    rule("policy", Kind::Word(policies), Preset::Word("sticky"), "who gets a packet"),
    rule("flows", Kind::Whole(1, 1_000_000), Preset::Number(4000.0), "flows"),
    rule("groups", Kind::PowerOfTwo(128, 1 << 20), Preset::Number(65_536.0), "flow groups"),
    rule("rate", Kind::Rate(1.0, 1e7), Preset::Number(20e3), "requests a second"),
    rule("length", Kind::Time(1000.0, 6e7), Preset::Number(2e6), "how long is watched"),
];

/// A client's flow, by its number: addresses and ports one after the other.
fn flow(number: u32) -> (SocketAddr, SocketAddr) {
    let address = Ipv4Addr::from_bits(u32::from_be_bytes([10, 0, 0, 0]) + number / 40_000 + 1);
    let client = SocketAddr::new(IpAddr::V4(address), 20_000 + (number % 40_000) as u16);
    (client, SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2)), 7))
}

/// Requests of a run: each is a number that is kept until the end.
const REQUESTS_MAX: f64 = 2e7;

fn check(task: &Task<'_>) -> Result<(), Misfit> {
    let (rate, length) = (task.settings.number("rate"), task.settings.time("length"));
    let requests = rate * length.as_secs_f64();
    if requests > REQUESTS_MAX {
        let says = format!(
            "`rate` and `length` make {requests:.0} requests; allowed are at most {REQUESTS_MAX}"
        );
        return Err(("rate".to_owned(), says));
    }
    Ok(())
}

fn run(task: &Task<'_>, level: Level, seed: u64) -> Result<Vec<Row>, String> {
    let settings = task.settings;
    let flows = settings.whole("flows") as u32;
    let part = if task.quick { 10 } else { 1 };
    let act = DemoAct {
        policy: settings.word("policy").to_owned(),
        flows: (0..flows).map(flow).collect(),
    };
    let plan = DemoPlan {
        acts: vec![act],
        groups: settings.whole("groups") as u32,
        seed,
        workers: settings.whole("workers") as u16,
        rate: settings.number("rate"),
        length: Nanos(settings.time("length").0 / part),
        level,
        ..DemoPlan::default()
    };
    let outcomes = simulate(&plan).map_err(|refused| refused.to_string())?;
    let row = |outcome: &netsim::demo::DemoOutcome| {
        let percent = |count: usize| 100.0 * count as f64 / outcome.moves.flows().max(1) as f64;
        let values = BTreeMap::from([
            ("moved_up_percent", percent(outcome.moves.up())),
            ("moved_down_percent", percent(outcome.moves.down())),
            ("p50_us", outcome.latency.p50.as_micros_f64()),
            ("p95_us", outcome.latency.p95.as_micros_f64()),
        ]);
        // More than the server's CPU can do: how long requests take is how long one has looked.
        Row { at: None, values, saturated: outcome.latency.load >= 1.0 }
    };
    Ok(outcomes.iter().map(row).collect())
}
