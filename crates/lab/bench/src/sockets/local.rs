//! Two programs on one host that talk to each other: shared memory against the kernel's loopback.

use super::accelerated::Profile;
use super::asked::to_its_end;
use super::programs::{Compiled, ECHO_ASK, EPOLL_ECHO};
use super::tested_stack::{Offloads, TestedStack};
use crate::cases::{Plan, in_turns};
use crate::error::{Error, OrNeeds};
use crate::figure::{Figure, Target};
use crate::place::{Cpus, on_cpu};
use crate::report::Report;

const PORT: u16 = 7006;

/// A way in which two programs wait.
struct Way {
    name: &'static str,
    /// Neither ever sleeps.
    spins: bool,
    shares_cpu: bool,
    p50: f64,
    /// What must be reached of the kernel's requests a second, where something must.
    rate: Option<f64>,
}

const WAYS: [Way; 3] = [
    Way { name: "both spinning", spins: true, shares_cpu: false, p50: 0.15, rate: Some(3.0) },
    Way { name: "both blocking", spins: false, shares_cpu: false, p50: 1.0, rate: None },
    Way { name: "one core, blocking", spins: false, shares_cpu: true, p50: 0.6, rate: None },
];

/// Requests a second, and the median and the 95th percentile in microseconds.
type Sample = [f64; 3];

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "local",
        &format!(
            "TCP echo over 127.0.0.1, 64 bytes each way, one connection, a request at a time, between \
             two unmodified programs of one host: client on CPU {client}, server (epoll) on CPU \
             {server}, or both there. Ours: both under `calisto run`; calistod on CPU {server}. \
             Baseline: the same two on the kernel's loopback. In turns."
        ),
    )?;
    let (echo, ask) = (Compiled::new(EPOLL_ECHO)?, Compiled::new(ECHO_ASK)?);
    let tested_stacks =
        [TestedStack::calisto(plan)?, TestedStack::linux(plan.cpus, Offloads::Default)?];
    for way in &WAYS {
        let samples = in_turns(plan, report, way.name, tested_stacks.len(), |which| {
            measure(plan, &tested_stacks[which], way, &echo, &ask)
        })?;
        let figure = |what: &str, unit, at: usize| {
            let column = |which: usize| -> Vec<f64> {
                samples[which].iter().map(|sample: &Sample| sample[at]).collect()
            };
            let name = format!("{}: {}, {what}", way.name, tested_stacks[0].name());
            Figure::new(name, unit, &column(0)).against("loopback", &column(0), &column(1))
        };
        report.figure(figure("p50", "us", 1).target(Target::RatioAtMost(way.p50)))?;
        report.figure(figure("p95", "us", 2))?;
        let rate = figure("answered", "requests/s", 0);
        report.figure(match way.rate {
            Some(target) => rate.target(Target::RatioAtLeast(target)),
            None => rate,
        })?;
    }
    Ok(())
}

fn measure(
    plan: &Plan,
    tested_stack: &TestedStack,
    way: &Way,
    echo: &Compiled,
    ask: &Compiled,
) -> Result<Sample, Error> {
    let port = PORT.to_string();
    let spin: &[&str] = if way.spins { &["spin"] } else { &[] };
    let words = [&["0.0.0.0", &port][..], spin].concat();
    let _server = tested_stack.serve(Profile::Latency, echo.path(), &words, PORT)?;
    let length = plan.pick("300", "100");
    let mut command = tested_stack.command(Profile::Latency, ask.path())?;
    command.args(["127.0.0.1", &port, length]).args(spin);
    let cpu = if way.shares_cpu { plan.cpus.server } else { plan.cpus.client };
    tested_stack.witnessed(|| {
        let text = on_cpu(cpu, || to_its_end(&command))?;
        sample_in(&text).ok_or(text).or_needs("figures of the client")
    })
}

fn sample_in(text: &str) -> Option<Sample> {
    let mut words = text.split_ascii_whitespace().map(str::parse::<f64>);
    let mut next = || words.next()?.ok();
    Some([next()?, next()? / 1e3, next()? / 1e3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_line_is_read_in_its_units() {
        assert_eq!(sample_in("1000.5 7500 9000\n"), Some([1000.5, 7.5, 9.0]));
        assert_eq!(sample_in("recv: Connection reset by peer"), None);
    }
}
