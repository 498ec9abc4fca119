//! `machine`: a dispatcher, cores that come and go, applications, and the daemon's own policies.

mod plan;
mod rows;

use load::{Arrival, Distribution};
use sim::Level;
use sim::model::Machine;

use super::form::{Experiment, Row, Task};
use super::parameters;
use crate::scenario::Over;
use crate::setting::{Kind, Preset, Rule, rule};

pub(super) use plan::{distribution, rate};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "plant",
    help: "a dispatcher, cores that come and go, applications, and the daemon's own policies",
    rules: RULES,
    values: rows::VALUES,
    over: &[Over::Points, Over::Steps, Over::Time],
    has_costs: true,
    has_chance: true,
    rows: |task| plan::timetable(task).rows(),
    check: plan::check,
    run,
    parameters: |settings| {
        parameters::of_costs(&plan::costs(settings), |name| settings.maybe(name).is_some())
    },
};

/// Words that `policy` may hold: the daemon's policies, and two rules that have no table.
fn policies() -> Vec<&'static str> {
    let ours = policy::steer::NAMES.iter().map(|(name, _)| *name);
    ["shenango", "one_queue"].into_iter().chain(ours).collect()
}

fn cores_policies() -> Vec<&'static str> {
    policy::cores::NAMES.iter().map(|(name, _)| *name).collect()
}

/// The load generator's distributions.
pub(super) fn distributions() -> Vec<&'static str> {
    Distribution::ALL.iter().map(|distribution| distribution.name()).collect()
}

fn arrivals() -> Vec<&'static str> {
    Arrival::ALL.iter().map(|arrival| arrival.name()).collect()
}

const RULES: &[Rule] = &[
    rule("cores", Kind::Whole(1, 1024), Preset::Number(10.0), "cores that are given out"),
    rule(
        "cores_policy",
        Kind::Word(cores_policies),
        Preset::Word("queue_delay"),
        "who gives them out",
    ),
    rule(
        "interval",
        Kind::Time(1.0, 10_000.0),
        Preset::Number(5.0),
        "from one of its ticks to the next",
    ),
    rule("policy", Kind::Word(policies), Preset::Word("sticky"), "who gets a packet"),
    rule("groups", Kind::PowerOfTwo(128, 1 << 20), Preset::Number(65_536.0), "flow groups"),
    rule(
        "workers",
        Kind::Whole(0, 1024),
        Preset::Number(0.0),
        "of an application; 0: one for each core",
    ),
    rule(
        "own_cores",
        Kind::Flag,
        Preset::Flag(false),
        "all its cores are always its own, and it spins on them",
    ),
    rule(
        "guaranteed",
        Kind::Whole(0, 1024),
        Preset::Number(0.0),
        "cores that an application always gets",
    ),
    rule(
        "queue_delay",
        Kind::Time(0.0, 1e6),
        Preset::Number(0.0),
        "congested from this on; 0: from a tick on",
    ),
    rule(
        "apps",
        Kind::Whole(1, 2000),
        Preset::Number(1.0),
        "applications that share rate and flows",
    ),
    rule(
        "apps_zipf",
        Kind::Number(0.0, 3.0),
        Preset::Number(0.0),
        "how unevenly they share the rate; 0: evenly",
    ),
    rule("batch", Kind::Flag, Preset::Flag(false), "a batch job takes what is left of the cores"),
    rule("rate", Kind::Rate(1.0, 1e9), Preset::Number(20e3), "requests a second"),
    rule(
        "load",
        Kind::Number(0.0001, 10.0),
        Preset::Nothing,
        "instead of a rate, a share of what the cores can do",
    ),
    rule(
        "loadshift",
        Kind::Shifts,
        Preset::Nothing,
        "rates one after the other instead; the first is not measured (of a sweep in one run: what comes before it)",
    ),
    rule(
        "repeat",
        Kind::Whole(1, 10_000),
        Preset::Number(1.0),
        "times that the shifts after the first come",
    ),
    rule("arrival", Kind::Word(arrivals), Preset::Word("poisson"), "when requests come"),
    rule("flows", Kind::Whole(1, 10_000_000), Preset::Number(1000.0), "flows"),
    rule(
        "churn",
        Kind::Number(0.0, 1e8),
        Preset::Number(0.0),
        "flows that end a second, each followed by a new one",
    ),
    rule("zipf", Kind::Number(0.0, 3.0), Preset::Number(0.0), "how unevenly they send; 0: evenly"),
    rule(
        "distribution",
        Kind::Word(distributions),
        Preset::Word("constant"),
        "of the time that a request takes",
    ),
    rule("mean", Kind::Time(0.0, 1e6), Preset::Number(0.0), "its mean"),
    rule(
        "ring",
        Kind::Whole(1, 1 << 20),
        Preset::Number(1024.0),
        "packets that a worker's ring holds",
    ),
    rule("steals", Kind::Flag, Preset::Flag(false), "a worker without work takes it from others"),
    rule(
        "quantum",
        Kind::Time(0.1, 1e9),
        Preset::Nothing,
        "a request that takes longer is put aside for others; else it runs to its end",
    ),
    rule(
        "spin",
        Kind::Time(0.0, 1e9),
        Preset::Number(50.0),
        "how long a worker looks for work before it gives its core back",
    ),
    rule(
        "rest_after",
        Kind::Time(0.0, 1e9),
        Preset::Number(10_000.0),
        "a parked worker gives its groups away after this",
    ),
    rule(
        "packets",
        Kind::Whole(1, 100_000_000),
        Preset::Number(100_000.0),
        "requests that are measured, at least",
    ),
    rule(
        "length",
        Kind::Time(100.0, 6e8),
        Preset::Number(20_000.0),
        "how long is measured, at least",
    ),
    rule(
        "warmup",
        Kind::Time(0.0, 6e8),
        Preset::Number(10_000.0),
        "how long is not measured before",
    ),
    rule(
        "slice",
        Kind::Time(1.0, 6e8),
        Preset::Number(1000.0),
        "of a sweep over time: from one point to the next",
    ),
    cost("dispatch", "the dispatcher's time for a packet"),
    cost("flow_lookup", "a look into an exact table of flows"),
    cost("flow_insert", "an insertion into it"),
    cost("flow_log", "a line of log when it is full"),
    cost("packet", "a worker's own time for a packet"),
    cost("cold", "a flow's state is in another core's cache"),
    cost("wake", "from the grant of a core to the first packet"),
    cost("switch", "the core had another application's worker"),
    cost("steal", "a packet taken from another worker's ring"),
    cost("revoke", "from the order to park to the free core"),
    cost("look", "the dispatcher's look at the load of 4096 groups"),
    cost("tick", "a control tick, for each worker with a core"),
    cost("outside", "wire, NIC and client"),
];

/// A cost instead of the measured one.
const fn cost(key: &'static str, help: &'static str) -> Rule {
    Rule { key, kind: Kind::Time(0.0, 1e6), default: Preset::Nothing, help }
}

fn run(task: &Task<'_>, level: Level, seed: u64) -> Result<Vec<Row>, String> {
    let timetable = plan::timetable(task);
    let plan = plan::plan(task, &timetable, level);
    let machine = Machine::new(plan, seed).map_err(|error| error.to_string())?;
    Ok(rows::rows(task, &timetable, &machine.run()))
}
