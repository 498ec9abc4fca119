//! `whole`: the daemon's own data path, dispatcher, workers and TCP, behind links that lose and
//! delay.

use std::collections::BTreeMap;

use base::Nanos;
use netsim::link::LinkPlan;
use netsim::whole::{WholeOutcome, WholePlan, WorkerStep, run as simulate};
use report::Parameter;
use sim::Level;

use super::form::{Experiment, Misfit, Row, Task};
use super::net::{CONGESTION, congestions};
use crate::scenario::Over;
use crate::setting::{Kind, Preset, Rule, Settings, rule};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "whole",
    help: "the daemon's data path whole, with its TCP and its hand-overs, and clients behind links",
    rules: RULES,
    values: VALUES,
    over: &[Over::Points],
    has_costs: false,
    has_chance: true,
    rows: |_| 1,
    check,
    run,
    parameters,
};

const VALUES: &[&str] = &[
    "p50_us",
    "p99_us",
    "unanswered",
    "wrong_bytes",
    "flows_moved",
    "retransmitted_percent",
    "dropped_packets",
    "late_packets",
];

fn policies() -> Vec<&'static str> {
    policy::steer::NAMES.iter().map(|(name, _)| *name).collect()
}

const RULES: &[Rule] = &[
    rule("clients", Kind::Whole(1, 1000), Preset::Number(8.0), "hosts, each behind its link"),
    rule("connections", Kind::Whole(1, 4000), Preset::Number(8.0), "of each client"),
    rule("requests", Kind::Whole(1, 100_000), Preset::Number(100.0), "of each connection"),
    rule("bytes", Kind::Whole(1, 65_536), Preset::Number(4096.0), "of a request and its answer"),
    rule("policy", Kind::Word(policies), Preset::Word("sticky"), "who gets a flow"),
    rule("groups", Kind::PowerOfTwo(128, 1 << 20), Preset::Number(4096.0), "flow groups"),
    rule("workers", Kind::Whole(1, 62), Preset::Number(4.0), "workers"),
    rule(
        "comings",
        Kind::Whole(0, 1000),
        Preset::Number(0.0),
        "how often one more comes, and goes",
    ),
    rule("period", Kind::Time(1.0, 1e6), Preset::Number(1000.0), "from one change to the next"),
    rule("congestion", Kind::Word(congestions), Preset::Word("cubic"), "congestion control"),
    rule(
        "gbps",
        Kind::Number(0.001, 250.0),
        Preset::Number(10.0),
        "of a client's link; the server's: four times",
    ),
    rule("delay", Kind::Time(0.0, 1e6), Preset::Number(1.0), "of each link"),
    rule(
        "lost_ppm",
        Kind::Whole(0, 500_000),
        Preset::Number(0.0),
        "of a million packets lost on each link",
    ),
    rule(
        "late_ppm",
        Kind::Whole(0, 1_000_000),
        Preset::Number(0.0),
        "of a million packets overtaken on each link",
    ),
    rule("late_by", Kind::Time(0.0, 1e6), Preset::Number(50.0), "how much later those arrive"),
    rule(
        "time_limit",
        Kind::Time(1000.0, 3.6e9),
        Preset::Number(6e7),
        "a run that lasts longer is cut off",
    ),
];

fn plan(task: &Task<'_>) -> WholePlan {
    let settings = task.settings;
    let client_link = LinkPlan {
        rate: (settings.number("gbps") * 1e9) as u64,
        delay: settings.time("delay"),
        lost_ppm: settings.whole("lost_ppm") as u32,
        late_ppm: settings.whole("late_ppm") as u32,
        late_by: settings.time("late_by"),
        ..LinkPlan::default()
    };
    let (workers, period) = (settings.whole("workers") as u16, settings.time("period"));
    let changes = 2 * settings.whole("comings");
    let worker_step = |number: u64| WorkerStep {
        at: Nanos(period.0 * number),
        workers: workers + (number % 2) as u16,
    };
    let congestion = CONGESTION.iter().find(|(name, _)| *name == settings.word("congestion"));
    let default = WholePlan::default();
    WholePlan {
        clients: settings.whole("clients") as u32,
        connections: settings.whole("connections") as u32,
        requests: task.part(settings.whole("requests")) as u32,
        request_bytes: settings.whole("bytes") as u32,
        client_link,
        server_link: LinkPlan { rate: client_link.rate * 4, ..client_link },
        congestion: congestion.map_or(default.congestion, |(_, algorithm)| *algorithm),
        policy: settings.word("policy").to_owned(),
        groups: settings.whole("groups") as u32,
        worker_steps: (0..=changes).map(worker_step).collect(),
        time_limit: settings.time("time_limit"),
        ..default
    }
}

fn check(task: &Task<'_>) -> Result<(), Misfit> {
    let whole = Task { quick: false, ..task.clone() };
    let refused = plan(&whole).check();
    refused.map_err(|refused| (refused.field.to_owned(), refused.to_string()))
}

fn run(task: &Task<'_>, _: Level, seed: u64) -> Result<Vec<Row>, String> {
    let outcome = simulate(&plan(task), seed).map_err(|refused| refused.to_string())?;
    Ok(vec![row(&outcome)])
}

fn row(outcome: &WholeOutcome) -> Row {
    let micros = |share| outcome.latency(share).map_or(f64::NAN, Nanos::as_micros_f64);
    let answered = outcome.latencies.len() as u64;
    let values = BTreeMap::from([
        ("p50_us", micros(0.5)),
        ("p99_us", micros(0.99)),
        ("unanswered", outcome.requests.saturating_sub(answered) as f64),
        ("wrong_bytes", outcome.wrong_bytes as f64),
        ("flows_moved", outcome.flows_moved as f64),
        (
            "retransmitted_percent",
            100.0 * outcome.retransmitted as f64 / outcome.links.packets.max(1) as f64,
        ),
        ("dropped_packets", (outcome.links.dropped + outcome.port_full) as f64),
        ("late_packets", outcome.links.late as f64),
    ]);
    // Who answers nothing has no latency to show.
    Row { at: None, values, saturated: answered == 0 }
}

fn parameters(_: &Settings) -> Vec<Parameter> {
    let plan = WholePlan::default();
    let parameter = |name: &str, nanos: Nanos, source: &str| Parameter {
        name: name.to_owned(),
        value: format!("{} ns", nanos.0),
        source: source.to_owned(),
    };
    vec![
        parameter(
            "a turn of the data path",
            plan.turn,
            "a turn with nothing to do, calisto bench cores",
        ),
        parameter(
            "... and more for a packet",
            plan.packet,
            "calisto bench sockets --breakdown: a server's packet",
        ),
    ]
}
