//! `disciplines`: who serves whom next, by the rules of other systems, and what these cost.

use std::collections::BTreeMap;

use base::Nanos;
use load::Distribution;
use sim::Level;
use sim::disciplines::{Discipline, Plan, reserved_for};

use super::form::{Experiment, Row, Task};
use super::machine;
use crate::scenario::Over;
use crate::setting::{Kind, Preset, Rule, Settings, rule};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "disciplines",
    help: "queues and servers: the disciplines of other systems, and what each costs",
    rules: RULES,
    values: &[
        "p50_us",
        "p99_us",
        "p99_9_us",
        "mean_us",
        "short_p99_us",
        "short_p99_9_us",
        "long_p99_us",
        "preempted_percent",
    ],
    over: &[Over::Points],
    has_costs: false,
    has_chance: true,
    rows: |_| 1,
    check: |_| Ok(()),
    run,
    parameters: |_| Vec::new(),
};

fn disciplines() -> Vec<&'static str> {
    vec!["bounded", "choices", "reserved"]
}

const RULES: &[Rule] = &[
    rule("cores", Kind::Whole(1, 1024), Preset::Number(16.0), "servers"),
    rule(
        "discipline",
        Kind::Word(disciplines),
        Preset::Word("bounded"),
        "bounded: JBSQ(k), one queue and k requests at a server; choices: the shortest of k queues; \
         reserved: DARC",
    ),
    rule("k", Kind::Whole(1, 1024), Preset::Number(1.0), "the k of JBSQ(k), or of the choices"),
    rule("load", Kind::Number(0.0001, 2.0), Preset::Number(0.5), "of what the servers can do"),
    rule(
        "distribution",
        Kind::Word(machine::distributions),
        Preset::Word("exponential"),
        "of the time that a request takes",
    ),
    rule("mean", Kind::Time(0.001, 1e6), Preset::Number(10.0), "its mean"),
    rule(
        "long_above",
        Kind::Time(0.0, 1e9),
        Preset::Number(10.0),
        "who takes longer is long: what servers are reserved against",
    ),
    rule(
        "slice",
        Kind::Time(0.0, 1e9),
        Preset::Number(0.0),
        "who takes longer gives way; 0: nobody",
    ),
    rule("preemption", Kind::Time(0.0, 1e6), Preset::Number(0.0), "what giving way costs"),
    rule("hand_off", Kind::Time(0.0, 1e6), Preset::Number(0.0), "from the one queue to a server"),
    rule(
        "pause",
        Kind::Time(0.0, 1e6),
        Preset::Number(0.0),
        "an idle server sleeps for; 0: it looks",
    ),
    rule("packets", Kind::Whole(100, 20_000_000), Preset::Number(100_000.0), "requests measured"),
];

/// Draws to find the share of work that short requests have.
const DRAWS: u32 = 100_000;

fn discipline(settings: &Settings, service: Distribution) -> Discipline {
    let k = settings.whole("k") as u32;
    match settings.word("discipline") {
        "choices" => Discipline::Choices(k),
        "reserved" => {
            let (mean, long) = (settings.time("mean"), settings.time("long_above"));
            let mut random = load::Random::new(1);
            let works = (0..DRAWS).map(|_| service.sample(mean.0, &mut random));
            let (short, all) = works.fold((0, 0), |(short, all), work| {
                (short + if work > long.0 { 0 } else { work }, all + work)
            });
            let share = short as f64 / (all as f64).max(1.0);
            Discipline::Reserved(reserved_for(settings.whole("cores") as u32, share))
        }
        _ => Discipline::Bounded(k),
    }
}

fn run(task: &Task<'_>, _: Level, seed: u64) -> Result<Vec<Row>, String> {
    let settings = task.settings;
    let service = machine::distribution(settings);
    let (servers, mean) = (settings.whole("cores") as u32, settings.time("mean"));
    let slice = settings.time("slice");
    let gap = mean.0 as f64 / settings.number("load") / f64::from(servers);
    let plan = Plan {
        servers,
        gap: Nanos((gap.round() as u64).max(1)),
        service,
        service_mean: mean,
        long_above: settings.time("long_above"),
        discipline: discipline(settings, service),
        quantum: if slice == Nanos::ZERO { Nanos::FAR_FUTURE } else { slice },
        preemption: settings.time("preemption"),
        hand_off: settings.time("hand_off"),
        pause: settings.time("pause"),
        requests: task.part(settings.whole("packets")).max(100),
    };
    let served = plan.run(seed);
    let all = served.all.percentiles();
    let (short, long) = (served.short.percentiles(), served.long.percentiles());
    let values = BTreeMap::from([
        ("p50_us", all.p50_us),
        ("p99_us", all.p99_us),
        ("p99_9_us", all.p99_9_us),
        ("mean_us", all.mean_us),
        ("short_p99_us", short.p99_us),
        ("short_p99_9_us", short.p99_9_us),
        ("long_p99_us", long.p99_us),
        ("preempted_percent", 100.0 * served.preemptions as f64 / served.arrived.max(1) as f64),
    ]);
    Ok(vec![Row { at: None, values, saturated: served.is_saturated }])
}
