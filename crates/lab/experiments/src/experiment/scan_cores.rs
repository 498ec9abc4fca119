//! `scan_cores`: some cores with a queue each (scale-out), or shared queues (scale-up).

use std::collections::BTreeMap;

use base::Nanos;
use load::Distribution;
use sim::Level;
use sim::scan::many_cores::{Plan, Queues, run as simulate};

use super::form::{Experiment, Misfit, Row, Task};
use super::{machine, scan};
use crate::scenario::Over;
use crate::setting::{Kind, Preset, Rule, rule};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "scan_cores",
    help: "some cores with a queue each (scale-out), or shared queues (scale-up)",
    rules: RULES,
    values: &[
        "mean_us",
        "p50_us",
        "p99_us",
        "p99_9_us",
        "delivered_mpps",
        "mpps_per_core",
        "dropped_percent",
    ],
    over: &[Over::Points],
    has_costs: true,
    has_chance: true,
    rows: |_| 1,
    check,
    run,
    parameters: |settings| scan::parameters(&scan::costs(settings)),
};

fn queues() -> Vec<&'static str> {
    Queues::ALL.iter().map(|queues| queues.name()).collect()
}

const RULES: &[Rule] = &[
    rule("cores", Kind::Whole(1, 1024), Preset::Number(10.0), "cores"),
    rule("queues", Kind::Word(queues), Preset::Word("scale_out"), "whose queues they are"),
    rule(
        "waiting",
        Kind::Word(scan::waits),
        Preset::Word("polling"),
        "how cores learn that there is something",
    ),
    rule("rate", Kind::Rate(1.0, 1e9), Preset::Number(30e6), "items a second in all"),
    rule(
        "saturated",
        Kind::Flag,
        Preset::Flag(false),
        "three times as many come as the cores could work through: the most that can be",
    ),
    rule(
        "distribution",
        Kind::Word(machine::distributions),
        Preset::Word("constant"),
        "of an item's work",
    ),
    rule("work", Kind::Time(0.0, 1000.0), Preset::Number(0.16), "its mean"),
    rule(
        "hiccup_share",
        Kind::Number(0.0, 1.0),
        Preset::Number(0.0),
        "items that take longer, of 1",
    ),
    rule("hiccup", Kind::Time(0.0, 1e6), Preset::Number(1.0), "by how much"),
    rule("flows", Kind::Whole(1, 65_536), Preset::Number(64.0), "queues of a shared ready set"),
    rule("burst", Kind::Whole(1, 1024), Preset::Number(32.0), "items that a core takes at once"),
    rule("ring", Kind::Whole(1, 1 << 20), Preset::Number(512.0), "items that wait for a core"),
    rule("items", Kind::Whole(100, 20_000_000), Preset::Number(200_000.0), "items that arrive"),
    scan::COSTS[0],
    scan::COSTS[1],
    scan::COSTS[2],
    scan::COSTS[3],
    scan::COSTS[4],
    scan::COSTS[5],
    scan::COSTS[6],
    scan::COSTS[7],
];

fn check(task: &Task<'_>) -> Result<(), Misfit> {
    let (rate, items) = (task.settings.number("rate"), task.settings.number("items"));
    if items / rate > 1000.0 {
        let says = format!(
            "`items` takes {:.0} s at this `rate`; allowed are 1000 s at most",
            items / rate
        );
        return Err(("items".to_owned(), says));
    }
    Ok(())
}

fn run(task: &Task<'_>, level: Level, seed: u64) -> Result<Vec<Row>, String> {
    let settings = task.settings;
    let whose = Queues::ALL.into_iter().find(|one| one.name() == settings.word("queues"));
    let named = |word: &str| Distribution::ALL.into_iter().find(|one| one.name() == word);
    let (cores, work) = (settings.whole("cores") as u32, settings.time("work"));
    let costs = scan::costs(settings);
    let is_full = settings.flag("saturated");
    // Beyond work, taking an item out is the least that any of them takes.
    let most = 1e9 * f64::from(cores) / (work.0 as f64 + costs.item.at(level)).max(1.0);
    let plan = Plan {
        cores,
        queues: whose.unwrap_or(Queues::Own),
        waiting: scan::waiting(settings),
        rate: if is_full { 3.0 * most } else { settings.number("rate") },
        service: named(settings.word("distribution")).unwrap_or(Distribution::Constant),
        work,
        hiccup_share: settings.number("hiccup_share"),
        hiccup: settings.time("hiccup"),
        flows: settings.whole("flows") as u32,
        burst: settings.whole("burst") as u32,
        ring: settings.whole("ring") as u32,
        level,
        costs,
        items: settings.whole("items") / if task.quick { 10 } else { 1 },
    };
    let outcome = simulate(&plan, seed);
    let percentiles = outcome.latency.percentiles();
    let elapsed = outcome.elapsed.max(Nanos(1)).as_secs_f64();
    let values = BTreeMap::from([
        ("mean_us", percentiles.mean_us),
        ("p50_us", percentiles.p50_us),
        ("p99_us", percentiles.p99_us),
        ("p99_9_us", percentiles.p99_9_us),
        ("delivered_mpps", outcome.delivered as f64 / elapsed / 1e6),
        ("mpps_per_core", outcome.delivered as f64 / elapsed / 1e6 / f64::from(cores)),
        ("dropped_percent", 100.0 * outcome.dropped as f64 / outcome.offered.max(1) as f64),
    ]);
    // Where all that can be served is asked for, what is served is no failure.
    Ok(vec![Row { at: None, values, saturated: !is_full && outcome.is_saturated() }])
}
