//! Goodput across a bad wire, and how a bottleneck is shared: ours against Linux's CUBIC.

use std::net::SocketAddr;

use base::Nanos;
use serde_json::Value;
use testbed::{Idle, Service};

use super::harness::{CONGESTION, serve_linux, set};
use super::kernel_client::{connect, receive};
use super::line::Line;
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::place::{Cpus, on_cpu};
use crate::report::Report;

/// The daemon's; Linux's server is at the next one.
const PORT: u16 = 7019;

/// Flows of each at the shared bottleneck.
const FLOWS: usize = 8;

/// Packets from which the wire marks.
const MARK_FROM: u32 = 40;

/// Wires by name: 20 ms of round trip in every one.
const WIRES: [(&str, &[&str]); 5] = [
    ("no loss", &["--delay", "10ms"]),
    ("0.1 % loss", &["--delay", "10ms", "--loss", "0.1%"]),
    ("1 % loss", &["--delay", "10ms", "--loss", "1%"]),
    ("3 % loss", &["--delay", "10ms", "--loss", "3%"]),
    ("100 Mbit/s drop-tail", BOTTLENECK),
];

/// With a queue of about a round trip's worth.
const BOTTLENECK: &[&str] = &["--delay", "10ms", "--rate", "100Mbit", "--queue", "167"];

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    let length = plan.pick(Nanos::from_secs(5), Nanos::from_millis(500));
    report.begin(
        "wire",
        &format!(
            "a Linux client reads one TCP stream for {length}, from the connection on, across \
             `calisto wire` (AF_XDP at both ends) with a round trip of 20 ms, impaired alike both \
             ways; client and wire on CPU {client}. Server on CPU {server}: calistod with the job \
             tcp-chargen over AF_XDP, or Linux's socket with CUBIC behind epoll, \
             on the same host and interface, in turns, with the same seed in a round. Bottleneck: \
             100 Mbit/s, 167 packets. Marks: 100 Mbit/s, 2 ms of round trip, from {MARK_FROM} \
             packets on."
        ),
    )?;
    plan.cpus.need_two()?;
    alone(plan, report, length)?;
    marked(plan, report, length)
}

fn alone(plan: &Plan, report: &mut Report<'_>, length: Nanos) -> Result<(), Error> {
    let line = Line::new(plan.cpus, PORT, "")?;
    let ours_at: SocketAddr = (line.server().ipv4(), PORT).into();
    let kernel = serve_linux(
        plan.cpus.server,
        line.server(),
        PORT + 1..PORT + 2,
        Service::Chargen,
        Idle::Sleep,
    )?;
    let linux_at = kernel.addresses()[0];
    for (name, options) in WIRES {
        let [ours, linux] = turns_of(plan, report, name, |which, round| {
            let address = [ours_at, linux_at][which];
            one_stream(plan, &line, address, options, round, length).map(|(rate, _)| rate)
        })?;
        let figure = Figure::new(format!("{name}: calistod"), "Mbit/s", &ours)
            .against("Linux CUBIC", &ours, &linux)
            .target(Target::RatioAtLeast(0.95));
        report.figure(figure)?;
        report.figure(Figure::new(format!("{name}: Linux CUBIC"), "Mbit/s", &linux))?;
    }
    let [shares] = turns_of(plan, report, "shared", |_, round| {
        share(plan, &line, [ours_at, linux_at], round, length)
    })?;
    // From 0.8 to 1.25.
    let figure = Figure::new(format!("{FLOWS} flows against {FLOWS} of Linux: share"), "", &shares)
        .target(Target::Near(1.025, 0.225));
    report.figure(figure)?;
    kernel.end().or_needs("server of Linux")
}

/// Mbit/s of one stream, and what the wire says.
fn one_stream(
    plan: &Plan,
    line: &Line,
    server: SocketAddr,
    options: &[&str],
    round: u32,
    length: Nanos,
) -> Result<(f64, Value), Error> {
    let seed = (round + 1).to_string();
    let wire = line.join(&[options, &["--seed", &seed]].concat())?;
    let rates = on_cpu(plan.cpus.client, || {
        let mut streams = connect(line.client(), server, 1, CONGESTION)?;
        receive(&mut streams, length, Idle::Sleep)
    })?;
    Ok((to_mbit(rates.iter().sum()), wire.end()?))
}

/// What flows of ours get, as a multiple of what as many of Linux's get beside them.
fn share(
    plan: &Plan,
    line: &Line,
    [ours_at, linux_at]: [SocketAddr; 2],
    round: u32,
    length: Nanos,
) -> Result<f64, Error> {
    let seed = (round + 1).to_string();
    let wire = line.join(&[BOTTLENECK, &["--seed", &seed]].concat())?;
    // Who comes first has an advantage: once one, once the other.
    let is_ours_first = round.is_multiple_of(2);
    let (first, second) = if is_ours_first { (ours_at, linux_at) } else { (linux_at, ours_at) };
    let rates = on_cpu(plan.cpus.client, || {
        let mut streams = connect(line.client(), first, FLOWS, CONGESTION)?;
        streams.extend(connect(line.client(), second, FLOWS, CONGESTION)?);
        // Long enough for neither to be where it began.
        receive(&mut streams, length, Idle::Sleep)?;
        receive(&mut streams, Nanos(2 * length.0), Idle::Sleep)
    })?;
    wire.end()?;
    let (first, second) = rates.split_at(FLOWS);
    let (first, second): (f64, f64) = (first.iter().sum(), second.iter().sum());
    Ok(if is_ours_first { first / second } else { second / first })
}

fn marked(plan: &Plan, report: &mut Report<'_>, length: Nanos) -> Result<(), Error> {
    let line = Line::new(plan.cpus, PORT, "congestion = \"dctcp\"")?;
    set(line.client(), "net/ipv4/tcp_ecn", "1")?;
    let server: SocketAddr = (line.server().ipv4(), PORT).into();
    let threshold = MARK_FROM.to_string();
    let options = ["--delay", "1ms", "--rate", "100Mbit", "--queue", "1000", "--ecn", &threshold];
    let [streams] = turns_of(plan, report, "DCTCP", |_, round| {
        let (rate, told) = one_stream(plan, &line, server, &options, round, length)?;
        let number = |name: &str| told[name].as_f64().unwrap_or(f64::NAN);
        let above = 100.0 * number("ecn_far_above") / number("delivered").max(1.0);
        Ok([rate, above, number("queue_packets_max")])
    })?;
    let [rates, above, longest] =
        [0, 1, 2].map(|at| streams.iter().map(|stream| stream[at]).collect::<Vec<f64>>());
    // Nobody can hear of a mark sooner than a round trip later: slow start goes beyond for once.
    let name = format!("DCTCP: packets that found {} or more queued", 2 * MARK_FROM);
    report.figure(Figure::new(name, "%", &above).target(Target::AtMost(1.0)))?;
    report.figure(Figure::new("DCTCP: longest queue, of slow start", "packets", &longest))?;
    report.figure(Figure::new("DCTCP: goodput", "Mbit/s", &rates))
}

fn to_mbit(bytes_per_second: f64) -> f64 {
    bytes_per_second * 8.0 / 1e6
}
