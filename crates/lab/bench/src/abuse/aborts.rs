//! Connections aborted in every way, against four programs.

use base::Nanos;
use testbed::{Abuse, Conduct};

use super::scene::{attack, plan_of, play, print, stacks};
use super::servers::{Program, Served};
use crate::cases::{Plan, turns_of};
use crate::error::Error;
use crate::place::Cpus;
use crate::report::Report;

/// A connection that hangs is given up by its attacker then: what it holds is to be seen to go.
const HOLDS: Nanos = Nanos::from_secs(2);

pub(super) fn run(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let Cpus { client, server } = plan.cpus;
    let each = plan.attack.connections.div_ceil(Program::ALL.len() as u64);
    let per_second = plan.attack.per_second;
    report.begin(
        "aborts",
        &format!(
            "redis-server, nginx, haproxy before nginx and a plain server, each under {each} \
             connections, {per_second} begun in a second, seven kinds in turn: reset while the server \
             writes, unread bytes and FIN, half-closed, silent, tiny segments (48 bytes), a window of \
             zero, nonsense SACKs; what hangs is reset after {HOLDS}. Beside them 8 honest clients \
             with 1000 requests a second. Attacker and clients on CPU {client}, program and all of \
             calistod on CPU {server}; Linux without offloads on the same kind of wire."
        ),
    )?;
    let stacks = stacks(plan, "")?;
    for program in Program::ALL {
        let [ours, linux] = turns_of(plan, report, program.name(), |which, _| {
            let stack = &stacks[which];
            let mut served = program.start(stack)?;
            let attack_plan = plan_of(&served, conducts(&served), each, per_second, HOLDS)?;
            play(plan, stack, &mut served, &mut |half, is_over| {
                attack(stack, attack_plan.clone(), half, is_over)
            })
        })?;
        print(report, program.name(), &ours, &linux)?;
    }
    Ok(())
}

/// Each kind of abuse; who reads to the end reads little.
fn conducts(served: &Served) -> Vec<Conduct> {
    let conduct = |abuse| {
        let request = if abuse == Abuse::HalfClose { &served.short } else { &served.long };
        Conduct::new(abuse, request)
    };
    Abuse::ABORTS.map(conduct).to_vec()
}
