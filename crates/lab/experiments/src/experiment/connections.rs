//! `connections`: a server with many connections, a request outstanding on each.

use std::collections::BTreeMap;

use netsim::connections::{Cache, ConnectionsPlan, Cycles, RequestCosts, run as simulate};
use report::Parameter;
use sim::Level;

use super::form::{Experiment, Misfit, Row, Task};
use crate::scenario::Over;
use crate::setting::{Kind, Preset, Rule, Settings, rule};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "connections",
    help: "a server with many connections, a request outstanding on each, and caches of bounded size",
    rules: RULES,
    values: &[
        "throughput_mops",
        "p50_us",
        "p99_us",
        "cycles",
        "misses_percent",
        "segments_per_request",
        "fast_percent",
    ],
    over: &[Over::Points],
    has_costs: true,
    has_chance: false,
    rows: |_| 1,
    check,
    run,
    parameters,
};

const SYSTEMS: [(&str, RequestCosts); 3] = [
    ("engine", RequestCosts::CALISTO_ENGINE),
    ("sockets", RequestCosts::CALISTO_SOCKETS),
    ("linux", RequestCosts::LINUX),
];

fn systems() -> Vec<&'static str> {
    SYSTEMS.iter().map(|(name, _)| *name).collect()
}

const RULES: &[Rule] = &[
    rule("connections", Kind::Whole(1, 200_000), Preset::Number(1000.0), "connections"),
    rule("cores", Kind::Whole(1, 256), Preset::Number(20.0), "of the server"),
    rule("system", Kind::Word(systems), Preset::Word("engine"), "whose costs a request has"),
    rule(
        "requests",
        Kind::Whole(1, 1000),
        Preset::Number(3.0),
        "of each connection that are measured",
    ),
    rule("bytes", Kind::Whole(1, 128), Preset::Number(64.0), "of a request and of its answer"),
    rule(
        "round_trip",
        Kind::Time(0.001, 1e6),
        Preset::Number(10.0),
        "from the server to a client and back",
    ),
    rule(
        "cache_kib",
        Kind::Whole(1, 1 << 20),
        Preset::Number(2432.0),
        "of connections' state that a core keeps close",
    ),
    cost("request_warm", "cycles of a request while its connection is close"),
    cost("request_cold", "cycles more where it is not"),
    cost("state_bytes", "bytes of a connection that a request uses"),
    rule("ghz", Kind::Number(0.001, 10.0), Preset::Number(2.1), "cycles a nanosecond"),
];

fn costs(settings: &Settings) -> RequestCosts {
    let of = SYSTEMS.iter().find(|(name, _)| *name == settings.word("system"));
    let measured = of.map_or(RequestCosts::CALISTO_ENGINE, |(_, costs)| *costs);
    let own = |key: &str, measured: Cycles| {
        let at_end = settings.pinned(key).map(|end| measured.at(end));
        settings.maybe(key).or(at_end).map_or(measured, Cycles::exactly)
    };
    RequestCosts {
        warm: own("request_warm", measured.warm),
        cold: own("request_cold", measured.cold),
        state_bytes: own("state_bytes", measured.state_bytes),
    }
}

/// A cost instead of the measured one.
const fn cost(key: &'static str, help: &'static str) -> Rule {
    Rule { key, kind: Kind::Number(0.0, 1e9), default: Preset::Nothing, help }
}

fn plan(task: &Task<'_>, level: Level) -> ConnectionsPlan {
    let settings = task.settings;
    ConnectionsPlan {
        connections: settings.whole("connections") as u32,
        cores: settings.whole("cores") as u16,
        requests: settings.whole("requests") as u32,
        request_bytes: settings.whole("bytes") as u32,
        costs: costs(settings),
        cache: Cache {
            bytes_per_core: settings.whole("cache_kib") << 10,
            hertz: (settings.number("ghz") * 1e9) as u64,
        },
        level,
        round_trip: settings.time("round_trip"),
    }
}

fn check(task: &Task<'_>) -> Result<(), Misfit> {
    let refused = plan(task, Level::Median).check();
    refused.map_err(|refused| (refused.field.to_owned(), refused.to_string()))
}

fn run(task: &Task<'_>, level: Level, _: u64) -> Result<Vec<Row>, String> {
    let outcome = simulate(&plan(task, level)).map_err(|refused| refused.to_string())?;
    let values = BTreeMap::from([
        ("throughput_mops", outcome.throughput / 1e6),
        ("p50_us", outcome.p50.as_micros_f64()),
        ("p99_us", outcome.p99.as_micros_f64()),
        ("cycles", outcome.cycles),
        ("misses_percent", 100.0 * outcome.misses),
        ("segments_per_request", outcome.segments_per_request),
        ("fast_percent", 100.0 * outcome.fast_share),
    ]);
    Ok(vec![Row { at: None, values, saturated: false }])
}

fn parameters(_: &Settings) -> Vec<Parameter> {
    let range = |cycles: Cycles| format!("{} ({} to {})", cycles.median, cycles.low, cycles.high);
    let of = |(name, costs): &(&str, RequestCosts)| {
        let parameter = |what: &str, value: String, source: &str| Parameter {
            name: format!("{name}: {what}"),
            value,
            source: source.to_owned(),
        };
        let source = if *name == "engine" {
            "calisto bench tcp"
        } else {
            "calisto bench sockets --case breakdown"
        };
        [
            parameter("cycles of a request", range(costs.warm), source),
            parameter("cycles more without the cache", range(costs.cold), source),
            parameter("bytes of a connection in use", range(costs.state_bytes), source),
        ]
    };
    SYSTEMS.iter().flat_map(of).collect()
}
