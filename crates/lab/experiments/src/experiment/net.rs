//! `net`: TCP engines at the ends of a fabric of switches.

use std::collections::BTreeMap;

use base::Nanos;
use netsim::Sizes;
use netsim::link::LinkPlan;
use netsim::net::{LeafSpine, NetOutcome, NetPlan, TcpPlan, Traffic, run as simulate};
use report::Parameter;
use sim::Level;
use tcp::Algorithm;

use super::form::{Experiment, Misfit, Row, Task};
use crate::scenario::Over;
use crate::setting::{Kind, Preset, Rule, Settings, rule};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "net",
    help: "TCP engines, the daemon's own, at the ends of a fabric of switches",
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
    "fct_p50_us",
    "fct_p99_us",
    "fct_mean_us",
    "fct_small_p99_us",
    "queue_mean_kb",
    "queue_p99_kb",
    "queue_max_kb",
    "fairness",
    "goodput_gbps",
    "makespan_us",
    "completed_percent",
    "retransmitted_percent",
    "timeouts",
    "marked_percent",
    "dropped_packets",
    "fast_percent",
];

/// A flow that one window carries, and that somebody waits for.
const SMALL_BYTES: u64 = 100_000;

fn traffics() -> Vec<&'static str> {
    vec!["arriving", "incast", "lasting"]
}

pub(super) const CONGESTION: [(&str, Algorithm); 4] = [
    ("newreno", Algorithm::NewReno),
    ("cubic", Algorithm::Cubic),
    ("dctcp", Algorithm::Dctcp),
    ("timely", Algorithm::Timely),
];

pub(super) fn congestions() -> Vec<&'static str> {
    CONGESTION.iter().map(|(name, _)| *name).collect()
}

const RULES: &[Rule] = &[
    rule("traffic", Kind::Word(traffics), Preset::Word("arriving"), "who sends what to whom"),
    rule("congestion", Kind::Word(congestions), Preset::Word("cubic"), "congestion control"),
    rule("ecn", Kind::Flag, Preset::Flag(false), "the others ask for marks, too"),
    rule(
        "flows",
        Kind::Whole(1, 100_000),
        Preset::Number(1000.0),
        "flows of arriving and lasting traffic",
    ),
    rule(
        "load",
        Kind::Number(0.01, 0.99),
        Preset::Number(0.5),
        "of arriving traffic: the share of the hosts' links",
    ),
    rule(
        "shrink",
        Kind::Whole(1, 10_000),
        Preset::Number(10.0),
        "its flows are the web search's divided by this",
    ),
    rule("senders", Kind::Whole(1, 4095), Preset::Number(32.0), "of incast"),
    rule("bytes", Kind::Whole(1, 1 << 30), Preset::Number(65_536.0), "of each sender of incast"),
    rule(
        "spread",
        Kind::Time(0.0, 1e6),
        Preset::Number(10.0),
        "within which incast and lasting flows begin",
    ),
    rule(
        "length",
        Kind::Time(1000.0, 6e7),
        Preset::Number(50_000.0),
        "of lasting traffic: how long is measured",
    ),
    rule("warmup", Kind::Time(0.0, 6e7), Preset::Number(20_000.0), "... and how long not, before"),
    rule("leaves", Kind::Whole(1, 256), Preset::Number(4.0), "leaf switches"),
    rule("spines", Kind::Whole(0, 256), Preset::Number(4.0), "spine switches"),
    rule("hosts_per_leaf", Kind::Whole(1, 4096), Preset::Number(16.0), "hosts of each leaf"),
    rule(
        "gbps",
        Kind::Number(0.001, 250.0),
        Preset::Number(10.0),
        "of a host's link; a spine's is four times that",
    ),
    rule("delay", Kind::Time(0.0, 1e6), Preset::Number(1.0), "of each link"),
    rule("queue_kib", Kind::Whole(2, 1 << 20), Preset::Number(512.0), "that a switch's port holds"),
    rule("mark_kib", Kind::Whole(1, 1 << 20), Preset::Number(95.0), "from which on it marks"),
    rule(
        "lost_ppm",
        Kind::Whole(0, 999_999),
        Preset::Number(0.0),
        "of a million packets lost on each wire",
    ),
    rule(
        "rto_min",
        Kind::Time(100.0, 1e7),
        Preset::Number(10_000.0),
        "shortest retransmission timeout",
    ),
    rule(
        "time_limit",
        Kind::Time(1000.0, 3.6e9),
        Preset::Number(2e7),
        "a run that lasts longer is cut off",
    ),
];

fn plan(task: &Task<'_>) -> NetPlan {
    let settings = task.settings;
    let host_link = LinkPlan {
        rate: (settings.number("gbps") * 1e9) as u64,
        delay: settings.time("delay"),
        queue_bytes: (settings.whole("queue_kib") as u32) << 10,
        mark_bytes: Some((settings.whole("mark_kib") as u32) << 10),
        lost_ppm: settings.whole("lost_ppm") as u32,
        ..LinkPlan::default()
    };
    let fabric_link = LinkPlan { rate: host_link.rate * 4, ..host_link };
    let senders = settings.whole("senders") as u32;
    let (traffic, topology) = match settings.word("traffic") {
        "incast" => {
            let (bytes, spread) = (settings.whole("bytes"), settings.time("spread"));
            let traffic = Traffic::Incast { senders, bytes, spread };
            (traffic, LeafSpine::one_switch(senders.saturating_add(1), host_link))
        }
        word => {
            let topology = LeafSpine {
                leaves: settings.whole("leaves") as u32,
                spines: settings.whole("spines") as u32,
                hosts_per_leaf: settings.whole("hosts_per_leaf") as u32,
                host_link,
                fabric_link,
            };
            let traffic = if word == "lasting" {
                let from = settings.time("warmup");
                Traffic::Lasting {
                    flows: settings.whole("flows") as u32,
                    spread: settings.time("spread"),
                    from,
                    until: from + Nanos(task.part(settings.time("length").0)),
                }
            } else {
                Traffic::Arriving {
                    flows: task.part(settings.whole("flows")) as u32,
                    sizes: Sizes::web_search(settings.whole("shrink")),
                    load: settings.number("load"),
                }
            };
            (traffic, topology)
        }
    };
    let congestion = CONGESTION.iter().find(|(name, _)| *name == settings.word("congestion"));
    let tcp = TcpPlan {
        congestion: congestion.map_or(Algorithm::Cubic, |(_, algorithm)| *algorithm),
        ecn: settings.flag("ecn"),
        rto_min: settings.time("rto_min"),
        ..TcpPlan::default()
    };
    let time_limit = settings.time("time_limit");
    NetPlan { topology, tcp, traffic, time_limit, ..NetPlan::default() }
}

fn check(task: &Task<'_>) -> Result<(), Misfit> {
    let whole = Task { quick: false, ..task.clone() };
    plan(&whole).check().map_err(|refused| match refused.field {
        // What the plan calls the end of both.
        "until" => {
            let says = format!(
                "`warmup` and `length` together are {}; allowed are {}, the `time_limit`, at most",
                refused.value,
                task.settings.time("time_limit")
            );
            ("length".to_owned(), says)
        }
        field => (field.to_owned(), refused.to_string()),
    })
}

fn run(task: &Task<'_>, _: Level, seed: u64) -> Result<Vec<Row>, String> {
    let plan = plan(task);
    let outcome = simulate(&plan, seed).map_err(|refused| refused.to_string())?;
    Ok(vec![row(&plan, &outcome)])
}

fn row(plan: &NetPlan, outcome: &NetOutcome) -> Row {
    let micros = |nanos: Option<Nanos>| nanos.map_or(f64::NAN, Nanos::as_micros_f64);
    let ended = outcome.completions(|_| true);
    let mean = ended.iter().map(|took| took.as_micros_f64()).sum::<f64>() / ended.len() as f64;
    let small = outcome.completions(|bytes| bytes <= SMALL_BYTES);
    let lasts = matches!(plan.traffic, Traffic::Lasting { .. });
    let span = match plan.traffic {
        Traffic::Lasting { from, until, .. } => until - from,
        Traffic::Arriving { .. } | Traffic::Incast { .. } => outcome.ended_at,
    };
    let all = outcome.flows.len().max(1) as f64;
    let received: u64 = outcome.flows.iter().map(|flow| flow.received).sum();
    let goodput = if lasts {
        outcome.goodput(span)
    } else {
        received as f64 * 8.0 / span.as_secs_f64().max(1e-9)
    };
    let of = |count: u64, all: u64| 100.0 * count as f64 / all.max(1) as f64;
    let values = BTreeMap::from([
        ("fct_p50_us", micros(outcome.completion(0.5))),
        ("fct_p99_us", micros(outcome.completion(0.99))),
        ("fct_mean_us", mean),
        ("fct_small_p99_us", micros(netsim::quantile(&small, 0.99))),
        ("queue_mean_kb", outcome.edge.mean() / 1e3),
        ("queue_p99_kb", f64::from(outcome.edge.quantile(0.99)) / 1e3),
        ("queue_max_kb", f64::from(outcome.edge.deepest()) / 1e3),
        ("fairness", outcome.fairness().unwrap_or(f64::NAN)),
        ("goodput_gbps", goodput / 1e9),
        ("makespan_us", micros(outcome.makespan())),
        ("completed_percent", 100.0 * outcome.completed() as f64 / all),
        ("retransmitted_percent", of(outcome.retransmitted, outcome.segments)),
        ("timeouts", outcome.timeouts as f64),
        ("marked_percent", of(outcome.links.marked, outcome.links.packets)),
        ("dropped_packets", outcome.links.dropped as f64),
        ("fast_percent", of(outcome.fast, outcome.segments_received)),
    ]);
    // Flows that were to end and did not: the load was more than the fabric carries, or TCP gave
    // up.
    Row { at: None, values, saturated: !lasts && outcome.completed() < outcome.flows.len() }
}

fn parameters(settings: &Settings) -> Vec<Parameter> {
    let parameter = |name: &str, value: String, source: &str| Parameter {
        name: name.to_owned(),
        value,
        source: source.to_owned(),
    };
    let tcp = TcpPlan::default();
    vec![
        parameter("MTU", format!("{} bytes", tcp.mtu), "the engine's own"),
        parameter("first flight", format!("{} segments", tcp.initial_window), "the engine's own"),
        parameter(
            "longest wait of an acknowledgement",
            tcp.ack_delay.to_string(),
            "the engine's own",
        ),
        parameter(
            "shortest retransmission timeout",
            settings.time("rto_min").to_string(),
            "DCTCP (Alizadeh et al., SIGCOMM 2010)",
        ),
        parameter(
            "ring of a connection",
            format!("{} KiB", 1_u32 << (tcp.ring_log2 - 10)),
            "chosen",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Value;

    /// The model's settings for lasting traffic, with this length and warm-up in microseconds.
    fn lasting(length: f64, warmup: f64) -> Settings {
        let mut settings = Settings::defaults(RULES);
        let mut set = |key, value| {
            let rule = EXPERIMENT.rule(key).expect("there is one");
            settings.set(rule, value);
        };
        set("traffic", Value::Word("lasting".to_owned()));
        set("length", Value::Number(length));
        set("warmup", Value::Number(warmup));
        settings
    }

    fn task(settings: &Settings) -> Task<'_> {
        Task { settings, over: Over::Points, values: &[], quick: false }
    }

    #[test]
    fn a_length_of_more_than_four_seconds_is_measured_whole() {
        let settings = lasting(1e7, 1000.0);
        let Traffic::Lasting { from, until, .. } = plan(&task(&settings)).traffic else {
            panic!("it lasts");
        };
        assert_eq!(until - from, Nanos::from_secs(10));
    }

    #[test]
    fn what_ends_after_the_time_limit_is_refused_by_its_own_key() {
        let settings = lasting(1000.0, 3e7);
        let (key, says) = check(&task(&settings)).expect_err("the limit is twenty seconds");
        assert_eq!(key, "length");
        assert!(says.contains("`warmup`") && says.contains("`time_limit`"), "{says}");
    }
}
