//! CPU time of a daemon with connections on which nothing happens.

use std::time::Duration;

use sys::clock::now;

use super::accelerated::Profile;
use super::client::connected;
use super::echo::{self, PORT};
use super::programs::{Compiled, EPOLL_ECHO};
use super::tested_stack::TestedStack;
use crate::cases::{Plan, turns_of};
use crate::error::Error;
use crate::figure::{Figure, Target};
use crate::place::on_cpu;
use crate::report::Report;

pub(super) fn run(
    plan: &Plan,
    report: &mut Report<'_>,
    tested_stack: &TestedStack,
    connections: usize,
) -> Result<(), Error> {
    let name = format!("{connections} idle connections: the daemon's CPU time");
    if tested_stack.daemon().is_none() {
        return report.figure(Figure::missing(name, "there is no daemon in a rehearsal"));
    }
    let program = Compiled::new(EPOLL_ECHO)?;
    let server = echo::start(tested_stack, Profile::Latency, &program, false)?;
    let address = tested_stack.address(PORT);
    let shares = tested_stack.witnessed(|| {
        let connect = || connected(tested_stack.client(), address, connections);
        let _streams = on_cpu(plan.cpus.client, connect)?;
        // What comes with the connections themselves is over.
        std::thread::sleep(Duration::from_millis(plan.pick(1000, 200)));
        let mut shares = [Vec::new(), Vec::new()];
        let [_] = turns_of(plan, report, "idle", |_, _| {
            let look = || Ok::<_, Error>([tested_stack.daemon_cpu_time()?, server.cpu_time()?]);
            let (began, before) = (now(), look()?);
            std::thread::sleep(Duration::from_millis(plan.pick(1000, 200)));
            let (span, after) = (now().since(began).as_secs_f64(), look()?);
            for (at, shares) in shares.iter_mut().enumerate() {
                shares.push(100.0 * after[at].since(before[at]).as_secs_f64() / span);
            }
            Ok(())
        })?;
        Ok(shares)
    });
    let [daemon, program] = shares?;
    report.figure(Figure::new(name, "%", &daemon).target(Target::AtMost(2.0)))?;
    let name = format!("{connections} idle connections: the program's CPU time");
    report.figure(Figure::new(name, "%", &program))
}
