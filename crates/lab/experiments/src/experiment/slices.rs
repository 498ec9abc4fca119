//! `slices`: packets that programs forward over some CPUs, and what a raw socket and the kernel do.

use std::collections::BTreeMap;

use report::Parameter;
use sim::Level;
use sim::scan::FineRange;
use sim::slices::{Design, Plan, SliceCosts, run as simulate};

use super::form::{Experiment, Row, Task};
use crate::scenario::Over;
use crate::setting::{Kind, Preset, Rule, Settings, rule};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "slices",
    help: "packets that programs forward over some CPUs: by slices, a raw socket, or the kernel itself",
    rules: RULES,
    values: &["forwarded_gbps", "forwarded_mpps", "dropped_percent"],
    over: &[Over::Points],
    has_costs: true,
    has_chance: true,
    rows: |_| 1,
    check: |_| Ok(()),
    run,
    parameters: |settings| parameters(&costs(settings)),
};

fn designs() -> Vec<&'static str> {
    Design::ALL.iter().map(|design| design.name()).collect()
}

const RULES: &[Rule] = &[
    rule("cpus", Kind::Whole(1, 1024), Preset::Number(16.0), "CPUs"),
    rule(
        "design",
        Kind::Word(designs),
        Preset::Word("pairs"),
        "who forwards: the kernel; a program on the other CPU of a pair, or on the same one; one \
         program that reads a socket",
    ),
    rule(
        "one_queue",
        Kind::Flag,
        Preset::Flag(false),
        "all packets come into one queue of the NIC",
    ),
    rule("gbps", Kind::Number(0.001, 10_000.0), Preset::Number(10.0), "what comes, Gbit/s"),
    rule("bytes", Kind::Whole(64, 9000), Preset::Number(1500.0), "of a packet"),
    rule("flows", Kind::Whole(1, 1 << 20), Preset::Number(10_000.0), "flows"),
    rule("work", Kind::Time(0.0, 1000.0), Preset::Number(0.0), "for each packet besides"),
    rule("ring", Kind::Whole(1, 1 << 20), Preset::Number(512.0), "packets that a queue holds"),
    rule("packets", Kind::Whole(100, 10_000_000), Preset::Number(200_000.0), "that arrive"),
    cost("slice_receive", "the kernel's part of a packet of a slice"),
    cost("slice_forward", "the program's part of it"),
    cost("kernel_forward", "a packet that the kernel forwards by itself"),
    cost("raw_read", "the program's part of a packet from a raw socket"),
    cost("socket_lock", "the lock of a socket that several CPUs fill"),
];

/// A cost instead of the measured one.
const fn cost(key: &'static str, help: &'static str) -> Rule {
    Rule { key, kind: Kind::Time(0.0, 1e6), default: Preset::Nothing, help }
}

fn costs(settings: &Settings) -> SliceCosts {
    let measured = SliceCosts::default();
    let own = |key: &str, measured: FineRange| {
        let at_end = settings.pinned(key).map(|end| measured.at(end));
        let nanos = settings.maybe(key).map(|micros| 1e3 * micros).or(at_end);
        nanos.map_or(measured, |nanos| FineRange::new(nanos, nanos, nanos))
    };
    SliceCosts {
        receive: own("slice_receive", measured.receive),
        forward: own("slice_forward", measured.forward),
        kernel: own("kernel_forward", measured.kernel),
        raw: own("raw_read", measured.raw),
        lock: own("socket_lock", measured.lock),
    }
}

fn run(task: &Task<'_>, level: Level, seed: u64) -> Result<Vec<Row>, String> {
    let settings = task.settings;
    let named = |design: &Design| design.name() == settings.word("design");
    let bits = 8.0 * settings.number("bytes");
    let plan = Plan {
        cpus: settings.whole("cpus") as u32,
        design: Design::ALL.into_iter().find(named).unwrap_or(Design::Pairs),
        one_queue: settings.flag("one_queue"),
        rate: settings.number("gbps") * 1e9 / bits,
        flows: settings.whole("flows") as u32,
        work: 1e3 * settings.number("work"),
        ring: settings.whole("ring") as u32,
        costs: costs(settings),
        level,
        packets: task.part(settings.whole("packets")) as u32,
    };
    let outcome = simulate(&plan, seed);
    let dropped = 100.0 * outcome.dropped as f64 / outcome.offered.max(1) as f64;
    let values = BTreeMap::from([
        ("forwarded_gbps", outcome.throughput() * bits / 1e9),
        ("forwarded_mpps", outcome.throughput() / 1e6),
        ("dropped_percent", dropped),
    ]);
    // More than can be forwarded is what is asked about: what is forwarded then is known.
    Ok(vec![Row { at: None, values, saturated: false }])
}

fn parameters(costs: &SliceCosts) -> Vec<Parameter> {
    let SliceCosts { receive, forward, kernel, raw, lock } = costs;
    let half = "calisto bench slice, case forward: 0.74 Mpps of 1514 B, half of it the softirq";
    let rows = [
        ("the kernel's part of a slice's packet", receive, half),
        ("the program's part of it", forward, half),
        (
            "the kernel's own forwarding",
            kernel,
            "calisto bench slice, case forward: ip_forward 0.84 Mpps",
        ),
        (
            "reading a raw socket",
            raw,
            "calisto bench slice, case forward: TPACKET_V3 0.54 Mpps, less the softirq",
        ),
        ("a socket's lock", lock, "calisto bench wait: a line from core to core"),
    ];
    let parameter = |(name, range, source): (&str, &FineRange, &str)| Parameter {
        name: format!("cost of {name}"),
        value: format!("{} ns ({} to {})", range.median, range.low, range.high),
        source: source.to_owned(),
    };
    rows.into_iter().map(parameter).collect()
}
