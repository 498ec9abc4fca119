//! Many connections: a key-value store behind as many as fit, against behind a hundred; and a
//! hundred that are busy beside ten thousand that are not.

use base::Nanos;

use super::accelerated::Profile;
use super::client::{Answers, Clients, connected};
use super::dialogue::Dialogue;
use super::echo::{self, PORT as ECHO_PORT};
use super::idle;
use super::memcached;
use super::memory;
use super::programs::{Compiled, EPOLL_ECHO, find};
use super::tested_stack::{Offloads, TestedStack};
use super::turns::{Strangers, print_strangers, quietly};
use crate::cases::{Plan, in_turns};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::limits::connections_max;
use crate::place::{Cpus, on_cpu};
use crate::report::Report;

/// As many as are wanted.
const MANY: usize = 32_768;

/// Memory that a connection may take with everything: ours and the kernel's, at both ends.
const BYTES_EACH: u64 = 64 << 10;

const FEW: usize = 100;

/// Beside [`FEW`].
pub(super) const IDLE: usize = 10_000;

/// Of a hundred requests, this many set a value.
const SETS_PERCENT: u32 = 10;

/// Rings of this many connections are more than the daemon gives one user unasked.
pub(crate) const MEMORY: &str =
    "[tcp]\nmemory_mib = 8192\n[[tenant]]\nuid = \"*\"\nconnections = 65536\nmemory_mib = 8192\n";

type Sample = (Answers, Strangers);

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    let many = plan.pick(many()?, 2000);
    let beside = plan.pick(IDLE, 1000).min(connections_max()? - FEW);
    report.begin(
        "connections",
        &format!(
            "memcached (one thread) behind {many} connections, of {MANY} wanted: as many as memory and \
             the limit of descriptors of a process allow; keys of 64 bytes, values of 32, \
             {SETS_PERCENT} % of the requests set; {FEW} requests under way, the connection that has \
             been idle longest is next. Against {FEW} connections. Then an echo server with {FEW} busy \
             connections and {beside} idle ones, against none. Client on CPU {client}, server and all \
             of calistod on CPU {server}."
        ),
    )?;
    let tested_stacks = [
        TestedStack::calisto_with(plan, MEMORY)?,
        TestedStack::linux(plan.cpus, Offloads::Default)?,
    ];
    key_value(plan, report, &tested_stacks, many)?;
    busy_and_idle(plan, report, &tested_stacks, beside)?;
    idle::run(plan, report, &tested_stacks[0], beside)?;
    memory::run(plan, report, &tested_stacks[0], beside)
}

/// As many connections as fit.
fn many() -> Result<usize, Error> {
    let text = std::fs::read_to_string("/proc/meminfo").or_needs("look into /proc")?;
    let free = available_in(&text).ok_or("there is no MemAvailable").or_needs("look into /proc")?;
    // Half of it is left to everybody else.
    let fit = usize::try_from(free / 2 / BYTES_EACH).unwrap_or(MANY);
    Ok(MANY.min(fit).min(connections_max()?))
}

/// Bytes, of /proc/meminfo.
fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? << 10)
}

fn key_value(
    plan: &Plan,
    report: &mut Report<'_>,
    tested_stacks: &[TestedStack; 2],
    many: usize,
) -> Result<(), Error> {
    let program = find("memcached", "memcached")?;
    let length = plan.pick(Nanos::from_secs(1), Nanos::from_millis(200));
    let samples = in_turns(plan, report, "key-value requests", 4, |which| {
        let (tested_stack, connections) = (&tested_stacks[which / 2], [many, FEW][which % 2]);
        let server = memcached::start(tested_stack, &program, connections)?;
        tested_stack.witnessed(|| {
            on_cpu(plan.cpus.client, || {
                let address = tested_stack.address(memcached::PORT);
                let mut clients = Clients::connect(tested_stack.client(), address, connections)?;
                let mut dialogue = Dialogue::key_value(SETS_PERCENT);
                clients.prepare(&dialogue)?;
                // Each connection has been asked once when it counts.
                clients.ask(&mut dialogue, FEW, Nanos(length.0 / 2))?;
                quietly(plan, tested_stack, &server, || clients.ask(&mut dialogue, FEW, length))
            })
        })
    })?;
    let few = format!("{FEW} connections");
    for (at, tested_stack) in tested_stacks.iter().enumerate() {
        let column = |which: usize, of: fn(&Answers) -> f64| -> Vec<f64> {
            samples[2 * at + which].iter().map(|(answers, _): &Sample| of(answers)).collect()
        };
        let rate = [0, 1].map(|which| column(which, |answers| answers.per_second));
        let figure = Figure::new(
            format!("{many} connections: {}", tested_stack.name()),
            "requests/s",
            &rate[0],
        )
        .against(&few, &rate[0], &rate[1]);
        let is_ours = at == 0;
        report.figure(if is_ours { figure.target(Target::RatioAtLeast(0.8)) } else { figure })?;
        let p50 = [0, 1].map(|which| column(which, |answers| answers.p50_us));
        let name = format!("{many} connections: {}, p50", tested_stack.name());
        report.figure(Figure::new(name, "us", &p50[0]).against(&few, &p50[0], &p50[1]))?;
    }
    print_strangers(report, "key-value", &strangers(&samples))
}

fn busy_and_idle(
    plan: &Plan,
    report: &mut Report<'_>,
    tested_stacks: &[TestedStack; 2],
    beside: usize,
) -> Result<(), Error> {
    let program = Compiled::new(EPOLL_ECHO)?;
    let length = plan.pick(Nanos::from_millis(500), Nanos::from_millis(150));
    let samples = in_turns(plan, report, "busy beside idle ones", 4, |which| {
        let (tested_stack, idle) = (&tested_stacks[which / 2], [beside, 0][which % 2]);
        let server = echo::start(tested_stack, Profile::Latency, &program, false)?;
        tested_stack.witnessed(|| {
            on_cpu(plan.cpus.client, || {
                let address = tested_stack.address(ECHO_PORT);
                let _idle = connected(tested_stack.client(), address, idle)?;
                let mut clients = Clients::connect(tested_stack.client(), address, FEW)?;
                clients.ask(&mut Dialogue::Echo, FEW, Nanos(length.0 / 5))?;
                quietly(plan, tested_stack, &server, || {
                    clients.ask(&mut Dialogue::Echo, FEW, length)
                })
            })
        })
    })?;
    for (at, tested_stack) in tested_stacks.iter().enumerate() {
        for (name, of) in [
            ("p50", (|answers| answers.p50_us) as fn(&Answers) -> f64),
            ("p95", |answers| answers.p95_us),
        ] {
            let [own, alone] = [0, 1].map(|which| -> Vec<f64> {
                samples[2 * at + which].iter().map(|(answers, _)| of(answers)).collect()
            });
            let name = format!("{FEW} busy beside {beside} idle: {}, {name}", tested_stack.name());
            let figure = Figure::new(name, "us", &own).against("alone", &own, &alone);
            let is_ours = at == 0;
            report.figure(if is_ours {
                figure.target(Target::RatioAtMost(1.2))
            } else {
                figure
            })?;
        }
    }
    print_strangers(report, "busy beside idle", &strangers(&samples))
}

fn strangers(samples: &[Vec<Sample>]) -> Vec<Strangers> {
    samples.iter().flatten().map(|&(_, strangers)| strangers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read_in_its_unit() {
        assert_eq!(available_in("MemTotal: 9 kB\nMemAvailable:    4 kB\n"), Some(4096));
        assert_eq!(available_in("MemTotal: 9 kB\n"), None);
    }
}
