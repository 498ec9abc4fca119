//! memcached, asked by our own client in its text protocol.

use base::Nanos;

use super::accelerated::Profile;
use super::client::Clients;
use super::contest::{Metric, Round, TestedStacks};
use super::dialogue::Dialogue;
use super::programs::find;
use super::tested_stack::TestedStack;
use super::turns::quietly;
use crate::cases::Plan;
use crate::error::Error;
use crate::figure::Target;
use crate::place::{Cpus, on_cpu};
use crate::report::Report;
use crate::running::Running;

/// Where it listens.
pub(super) const PORT: u16 = 7002;

const CONNECTIONS: usize = 50;

const METRICS: [Metric; 2] = [
    Metric { name: "answered", unit: "requests/s", target: Some(Target::RatioAtLeast(1.3)) },
    Metric { name: "p50", unit: "us", target: None },
];

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    report.begin(
        "memcached",
        &format!(
            "memcached with one thread on CPU {server}, with all of calistod; client on CPU {client}: \
             Linux's sockets behind epoll that never sleeps, {CONNECTIONS} connections with a request \
             under way on each, keys of 64 bytes, values of 32, over veth. Ours under `calisto run`; \
             Linux's without XDP, with default offloads and without TSO/GSO/GRO. In turns."
        ),
    )?;
    let program = find("memcached", "memcached")?;
    let length = plan.pick(Nanos::from_millis(500), Nanos::from_millis(150));
    let tested_stacks = TestedStacks::new(plan)?;
    for (what, sets_percent) in [("GET", 0), ("SET", 100)] {
        tested_stacks.compare(plan, report, what, METRICS, |tested_stack: &TestedStack| {
            let server = start(tested_stack, &program, CONNECTIONS)?;
            let (answers, strangers) = tested_stack.witnessed(|| {
                on_cpu(plan.cpus.client, || {
                    let address = tested_stack.address(PORT);
                    let mut clients =
                        Clients::connect(tested_stack.client(), address, CONNECTIONS)?;
                    let mut dialogue = Dialogue::key_value(sets_percent);
                    clients.prepare(&dialogue)?;
                    quietly(plan, tested_stack, &server, || {
                        clients.ask(&mut dialogue, CONNECTIONS, length)
                    })
                })
            })?;
            Ok(Round { values: [answers.per_second, answers.p50_us], strangers })
        })?;
    }
    Ok(())
}

/// Starts it for that many connections.
pub(super) fn start(
    tested_stack: &TestedStack,
    program: &std::path::Path,
    connections: usize,
) -> Result<Running, Error> {
    let (ip, port) = (tested_stack.address(PORT).ip().to_string(), PORT.to_string());
    // It refuses the last ones, and counts the probes of whether it is ready.
    let connections = (connections + 64).to_string();
    let words = ["-u", "root", "-l", &ip, "-p", &port, "-U", "0", "-t", "1", "-c", &connections];
    let words = [&words[..], &["-b", "8192"]].concat();
    tested_stack.serve(Profile::Latency, program, &words, PORT)
}
