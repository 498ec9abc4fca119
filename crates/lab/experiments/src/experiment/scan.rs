//! `scan`: one core that serves many queues: it polls them in turn, or asks a ready set.

use std::collections::BTreeMap;

use report::Parameter;
use sim::Level;
use sim::scan::one_core::{Feed, Idle, Outcome, Plan, run as simulate};
use sim::scan::{ByCache, FineRange, ScanCosts, Waiting};

use super::form::{Experiment, Misfit, Row, Task};
use crate::scenario::Over;
use crate::setting::{Kind, Preset, Rule, Settings, rule};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "scan",
    help: "one core that serves many queues: it polls them in turn, or asks a ready set",
    rules: RULES,
    values: &[
        "mean_us",
        "p50_us",
        "p99_us",
        "throughput_mpps",
        "tax_percent",
        "useless_percent",
        "asleep_percent",
        "empty_looks_per_item",
        "instructions_per_cycle",
        "corunner_percent",
    ],
    over: &[Over::Points],
    has_costs: true,
    has_chance: true,
    rows: |_| 1,
    check,
    run,
    parameters: |settings| parameters(&costs(settings)),
};

pub(super) fn waits() -> Vec<&'static str> {
    Waiting::ALL.iter().map(|waiting| waiting.name()).collect()
}

fn idles() -> Vec<&'static str> {
    vec!["spins", "halts", "sleeps"]
}

const RULES: &[Rule] = &[
    rule("queues", Kind::Whole(1, 65_536), Preset::Number(1.0), "queues that the core looks at"),
    rule(
        "busy_queues",
        Kind::Whole(0, 65_536),
        Preset::Number(0.0),
        "of these, queues with traffic; 0: all",
    ),
    rule(
        "waiting",
        Kind::Word(waits),
        Preset::Word("polling"),
        "how it learns which queue has something",
    ),
    rule("idle", Kind::Word(idles), Preset::Word("spins"), "what it does when none has"),
    rule(
        "sleep_after",
        Kind::Time(0.0, 1e6),
        Preset::Number(50.0),
        "when it sleeps: after so long without anything",
    ),
    rule(
        "saturated",
        Kind::Flag,
        Preset::Flag(false),
        "queues with traffic always have something: the most that can be",
    ),
    rule("rate", Kind::Rate(1.0, 1e9), Preset::Number(100e3), "items a second"),
    rule(
        "full_from",
        Kind::Rate(1.0, 1e9),
        Preset::Nothing,
        "from this rate on it is `saturated`: a sweep's last point is full load",
    ),
    rule("work", Kind::Time(0.0, 1000.0), Preset::Number(0.0), "for each item"),
    rule(
        "burst",
        Kind::Whole(1, 1024),
        Preset::Number(32.0),
        "items that it takes from a queue at once",
    ),
    rule(
        "items",
        Kind::Whole(100, 10_000_000),
        Preset::Number(50_000.0),
        "items that are measured",
    ),
    rule(
        "corunner_spinning",
        Kind::Number(0.0, 1.0),
        Preset::Number(0.696),
        "what the other hyper-thread of its CPU is left of its speed while this one finds nothing",
    ),
    rule(
        "corunner_working",
        Kind::Number(0.0, 1.0),
        Preset::Number(0.688),
        "... while this one works",
    ),
    COSTS[0],
    COSTS[1],
    COSTS[2],
    COSTS[3],
    COSTS[4],
    COSTS[5],
    COSTS[6],
    COSTS[7],
];

/// Costs instead of the measured ones.
pub(super) const COSTS: [Rule; 8] = [
    cost("scan_look", "a look at an empty queue, wherever its line is"),
    cost("scan_item", "taking an item out"),
    cost("scan_fetch", "the line with an item, from the sender's core"),
    cost("scan_ask", "a ready set is asked while it has something"),
    cost("scan_notice", "from a mark in an empty ready set to its reader"),
    cost("scan_line", "a line from core to core"),
    cost("scan_wake", "from the mark to a core that sleeps"),
    cost("scan_sleep", "CPU time of falling asleep and waking"),
];

const fn cost(key: &'static str, help: &'static str) -> Rule {
    Rule { key, kind: Kind::Time(0.0, 1e6), default: Preset::Nothing, help }
}

/// The measured costs, but for those that the scenario sets.
pub(super) fn costs(settings: &Settings) -> ScanCosts {
    let mut costs = ScanCosts::default();
    // A look costs fractions of a nanosecond, which a time of whole ones would lose.
    let exactly = |nanos| FineRange::new(nanos, nanos, nanos);
    let own = |key: &str| Some(exactly(1e3 * settings.maybe(key)?));
    if let Some(look) = own("scan_look") {
        costs.empty = ByCache { l1: look, l2: look, beyond: look };
    } else if let Some(end) = settings.pinned("scan_look") {
        let ByCache { l1, l2, beyond } = costs.empty;
        let [l1, l2, beyond] = [l1, l2, beyond].map(|range| exactly(range.at(end)));
        costs.empty = ByCache { l1, l2, beyond };
    }
    for (key, cost) in [
        ("scan_item", &mut costs.item),
        ("scan_fetch", &mut costs.fetch),
        ("scan_ask", &mut costs.ask),
        ("scan_notice", &mut costs.notice),
        ("scan_line", &mut costs.line),
        ("scan_wake", &mut costs.wake),
        ("scan_sleep", &mut costs.sleep),
    ] {
        let at_end = settings.pinned(key).map(|end| exactly(cost.at(end)));
        *cost = own(key).or(at_end).unwrap_or(*cost);
    }
    costs
}

fn check(task: &Task<'_>) -> Result<(), Misfit> {
    let (queues, busy) = (task.settings.whole("queues"), task.settings.whole("busy_queues"));
    if busy > queues {
        let says =
            format!("`busy_queues` is {busy}; allowed are as many as there are `queues`, {queues}");
        return Err(("busy_queues".to_owned(), says));
    }
    Ok(())
}

fn run(task: &Task<'_>, level: Level, seed: u64) -> Result<Vec<Row>, String> {
    let settings = task.settings;
    let queues = settings.whole("queues") as u32;
    let busy = settings.whole("busy_queues") as u32;
    let is_full = settings.maybe("full_from").is_some_and(|full| settings.number("rate") >= full);
    let plan = Plan {
        queues,
        busy_queues: if busy == 0 { queues } else { busy },
        feed: match settings.flag("saturated") || is_full {
            true => Feed::Saturated,
            false => Feed::Rate(settings.number("rate")),
        },
        waiting: waiting(settings),
        idle: match settings.word("idle") {
            "halts" => Idle::Halts,
            "sleeps" => Idle::Sleeps(settings.time("sleep_after")),
            _ => Idle::Spins,
        },
        work: settings.time("work"),
        burst: settings.whole("burst") as u32,
        level,
        costs: costs(settings),
        items: settings.whole("items") / if task.quick { 10 } else { 1 },
        ..Plan::default()
    };
    let outcome = simulate(&plan, seed);
    let percentiles = outcome.latency.percentiles();
    let share = |nanos: f64| 100.0 * nanos / outcome.elapsed_ns.max(1.0);
    let values = BTreeMap::from([
        ("mean_us", percentiles.mean_us),
        ("p50_us", percentiles.p50_us),
        ("p99_us", percentiles.p99_us),
        ("throughput_mpps", outcome.throughput() / 1e6),
        ("tax_percent", 100.0 * outcome.tax()),
        ("useless_percent", share(outcome.useless_ns)),
        ("asleep_percent", share(outcome.asleep_ns)),
        ("empty_looks_per_item", outcome.empty_looks_per_item()),
        ("instructions_per_cycle", outcome.instructions_per_cycle()),
        (
            "corunner_percent",
            share(outcome.asleep_ns)
                + settings.number("corunner_spinning") * share(outcome.useless_ns)
                + settings.number("corunner_working") * share(outcome.useful_ns),
        ),
    ]);
    Ok(vec![Row { at: None, values, saturated: is_saturated(&plan, &outcome, seed) }])
}

/// Whether more came than could be done: some of it found its queue full, or the rate is above what
/// the core does when every queue always has something. The queues of a short run may just not be
/// full yet.
fn is_saturated(plan: &Plan, outcome: &Outcome, seed: u64) -> bool {
    let offered = outcome.delivered + outcome.dropped;
    let Feed::Rate(rate) = plan.feed else { return false };
    let peak = simulate(&Plan { feed: Feed::Saturated, ..*plan }, seed).throughput();
    outcome.dropped * 100 > offered || rate > peak
}

/// How a core learns that there is something.
pub(super) fn waiting(settings: &Settings) -> Waiting {
    let is_named = |waiting: &Waiting| waiting.name() == settings.word("waiting");
    Waiting::ALL.into_iter().find(is_named).unwrap_or(Waiting::Polling)
}

/// What the models of looking for work take for given.
pub(super) fn parameters(costs: &ScanCosts) -> Vec<Parameter> {
    let range = |range: sim::scan::FineRange| {
        format!("{} ns ({:.1} to {:.1})", range.median, range.low, range.high)
    };
    let rows = [
        ("look at an empty queue, first level", range(costs.empty.l1)),
        ("... second level", range(costs.empty.l2)),
        ("... beyond", range(costs.empty.beyond)),
        ("first look at one that has something, second level", range(costs.touch.l2)),
        ("... beyond", range(costs.touch.beyond)),
        ("line with an item", range(costs.fetch)),
        ("item", range(costs.item)),
        ("ready set: from the mark to the queue", range(costs.notice)),
        ("ready set: asked while it has something", range(costs.ask)),
        ("a line from core to core", range(costs.line)),
    ];
    let parameter = |(name, value): (&str, String)| Parameter {
        name: format!("cost of {name}"),
        value,
        source: "calisto bench wait".to_owned(),
    };
    rows.into_iter().map(parameter).collect()
}
