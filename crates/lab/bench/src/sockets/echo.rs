//! Echo: an ordinary epoll server on our sockets, and on Linux's.

use base::Nanos;

use super::accelerated::Profile;
use super::client::{Answers, Clients};
use super::dialogue::{Dialogue, ECHO_BYTES};
use super::offered::offer;
use super::programs::{Compiled, EPOLL_ECHO};
use super::tested_stack::{Offloads, TestedStack};
use super::turns::{Strangers, print_strangers, quietly};
use crate::cases::{Plan, in_turns};
use crate::error::Error;
use crate::figure::{Figure, Target, median};
use crate::place::{Cpus, on_cpu};
use crate::report::Report;
use crate::running::Running;

/// Where it listens.
pub(super) const PORT: u16 = 7000;

/// Connections, and what must be reached of Linux's requests a second.
const CONNECTIONS: [(usize, f64); 4] = [(1, 2.5), (16, 1.35), (64, 1.3), (256, 1.3)];

/// Of the requests a second of Linux's closed loop, so much is offered to everybody by the open
/// one.
const OFFERED: f64 = 0.7;

/// A server: where, and how it waits.
struct Server<'a> {
    name: String,
    tested_stack: &'a TestedStack,
    profile: Profile,
    /// The program never sleeps, Linux's second baseline.
    spins: bool,
}

/// What one round gives.
#[derive(Clone, Copy)]
struct Sample {
    answers: Answers,
    strangers: Strangers,
}

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "echo",
        &format!(
            "TCP, {ECHO_BYTES} bytes each way, over veth between two namespaces; client: Linux's \
             sockets behind epoll that never sleeps, a request under way on every connection, on \
             CPU {client}. Server: one unmodified program, level-triggered epoll that blocks, on CPU \
             {server}, where all of calistod is too. Ours: the program under `calisto run` (profile \
             latency; safe: nobody spins). Linux: the same file without XDP, with veth's default \
             offloads; without TSO/GSO/GRO; told never to sleep. Each in namespaces of its own, in \
             turns. Equal load: Poisson arrivals, {OFFERED} of Linux's closed loop, latency from the \
             intended time."
        ),
    )?;
    let echo = Compiled::new(EPOLL_ECHO)?;
    let ours = TestedStack::calisto(plan)?;
    let linux = TestedStack::linux(plan.cpus, Offloads::Default)?;
    let whole = TestedStack::linux(plan.cpus, Offloads::Whole)?;
    for (connections, target) in CONNECTIONS {
        let server = |tested_stack, spins| {
            let name = TestedStack::name(tested_stack);
            let name = if spins { format!("{name}, spinning") } else { name.to_owned() };
            Server { name, tested_stack, profile: Profile::Latency, spins }
        };
        let mut servers = vec![
            server(&ours, false),
            server(&linux, false),
            server(&whole, false),
            server(&linux, true),
        ];
        if connections == 1 {
            let name = format!("{}, profile safe", ours.name());
            servers.push(Server { name, profile: Profile::Safe, ..server(&ours, false) });
        }
        closed(plan, report, &echo, &servers, connections, target)?;
    }
    Ok(())
}

/// A request under way on every connection, then the same requests a second for everybody.
fn closed(
    plan: &Plan,
    report: &mut Report<'_>,
    echo: &Compiled,
    servers: &[Server<'_>],
    connections: usize,
    target: f64,
) -> Result<(), Error> {
    let what = format!("{connections} connections");
    let samples = in_turns(plan, report, &what, servers.len(), |which| {
        measure(plan, echo, &servers[which], connections, Load::Closed)
    })?;
    let rates = samples.iter().map(|runs| column(runs, |one| one.answers.per_second));
    let rates: Vec<Vec<f64>> = rates.collect();
    let unit = "requests/s";
    for (baseline, target) in [(1, target), (2, target), (3, 0.8)] {
        let name = format!("{what}: {}", servers[0].name);
        let figure = Figure::new(name, unit, &rates[0]).against(
            &servers[baseline].name,
            &rates[0],
            &rates[baseline],
        );
        // A server that spins has the CPU to itself: what is promised is for one connection.
        let is_promised = baseline < 3 || connections == 1;
        report.figure(if is_promised {
            figure.target(Target::RatioAtLeast(target))
        } else {
            figure
        })?;
    }
    if let (Some(safe), Some(own)) = (servers.get(4), rates.get(4)) {
        for baseline in [1, 2] {
            let figure = Figure::new(format!("{what}: {}", safe.name), unit, own)
                .against(&servers[baseline].name, own, &rates[baseline])
                .target(Target::RatioAtLeast(0.9));
            report.figure(figure)?;
        }
    }
    for (server, runs) in servers.iter().zip(&samples) {
        let p50 = column(runs, |one| one.answers.p50_us);
        report.figure(Figure::new(format!("{what}: {}, p50", server.name), "us", &p50))?;
    }
    offered(plan, report, echo, &servers[..3], connections, median(&rates[1]).unwrap_or(0.0))?;
    let strangers: Vec<Strangers> = samples.iter().flatten().map(|one| one.strangers).collect();
    print_strangers(report, &what, &strangers)
}

fn offered(
    plan: &Plan,
    report: &mut Report<'_>,
    echo: &Compiled,
    servers: &[Server<'_>],
    connections: usize,
    capacity: f64,
) -> Result<(), Error> {
    let rate = (OFFERED * capacity).max(100.0);
    let what = format!("{connections} connections, {rate:.0} requests/s");
    let mut seed = 0;
    let samples = in_turns(plan, report, &what, servers.len(), |which| {
        // The same arrivals for everybody in a round.
        seed += 1;
        let round = (seed - 1) / servers.len() as u64;
        measure(plan, echo, &servers[which], connections, Load::Open { rate, seed: round })
    })?;
    let p95 = samples.iter().map(|runs| column(runs, |one| one.answers.p95_us));
    let p95: Vec<Vec<f64>> = p95.collect();
    for baseline in [1, 2] {
        let figure = Figure::new(format!("{what}: {}, p95", servers[0].name), "us", &p95[0])
            .against(&servers[baseline].name, &p95[0], &p95[baseline])
            .target(Target::RatioAtMost(1.0));
        report.figure(figure)?;
    }
    for (server, runs) in servers.iter().zip(&samples) {
        let name = format!("{what}: {}", server.name);
        let p50 = column(runs, |one| one.answers.p50_us);
        report.figure(Figure::new(format!("{name}, p50"), "us", &p50))?;
        let lost: f64 = column(runs, |one| one.answers.lost as f64).iter().sum();
        if lost > 0.0 {
            report.figure(Figure::new(format!("{name}, without an answer"), "", &[lost]))?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Load {
    Closed,
    Open { rate: f64, seed: u64 },
}

/// One server, from its start to its end.
fn measure(
    plan: &Plan,
    echo: &Compiled,
    server: &Server<'_>,
    connections: usize,
    load: Load,
) -> Result<Sample, Error> {
    let Server { tested_stack, profile, spins, .. } = server;
    let running = start(tested_stack, *profile, echo, *spins)?;
    let length = plan.pick(Nanos::from_millis(500), Nanos::from_millis(150));
    tested_stack.witnessed(|| {
        on_cpu(plan.cpus.client, || {
            let mut clients =
                Clients::connect(tested_stack.client(), tested_stack.address(PORT), connections)?;
            // What comes first finds everything cold.
            clients.ask(&mut Dialogue::Echo, connections, Nanos(length.0 / 5))?;
            let (answers, strangers) = quietly(plan, tested_stack, &running, || match load {
                Load::Closed => clients.ask(&mut Dialogue::Echo, connections, length),
                Load::Open { rate, seed } => {
                    offer(&mut clients, &mut Dialogue::Echo, rate, length, seed)
                }
            })?;
            Ok(Sample { answers, strangers })
        })
    })
}

/// Starts the echo server.
pub(super) fn start(
    tested_stack: &TestedStack,
    profile: Profile,
    echo: &Compiled,
    spins: bool,
) -> Result<Running, Error> {
    let address = tested_stack.address(PORT);
    let (ip, port) = (address.ip().to_string(), PORT.to_string());
    let mut words = vec![ip.as_str(), &port];
    words.extend(spins.then_some("spin"));
    tested_stack.serve(profile, echo.path(), &words, PORT)
}

fn column<T>(runs: &[T], value: impl Fn(&T) -> f64) -> Vec<f64> {
    runs.iter().map(value).collect()
}
