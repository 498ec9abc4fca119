//! Attackers that want all of something: rings, SYNs that wait, records of what was sent, places.

use base::Nanos;
use testbed::{Abuse, AttackPlan, Conduct, TINY_MSS};

use super::scene::{attack, length, plan_of, play, print, stacks};
use super::servers::{Program, Served};
use crate::cases::{Plan, turns_of};
use crate::error::Error;
use crate::report::Report;

/// Connections of each worker in the case of TIME-WAIT: a flood of minutes would fill the default.
const FLOWS: u64 = 16_384;

pub(super) fn slow(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let readers = plan.pick(1000, 100);
    report.begin(
        "slow",
        &format!(
            "nginx, a file of a mebibyte over {readers} connections whose readers take 512 bytes every \
             100 ms; beside them 8 honest clients with 1000 requests a second for a small one"
        ),
    )?;
    flood(plan, report, Program::Nginx, "", &|served| {
        let conduct = Conduct::new(Abuse::SlowRead, &served.long);
        plan_of(served, vec![conduct], 2 * readers, readers, hold(plan))
    })
}

pub(super) fn syns(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let per_second = plan.pick(10_000, 2000);
    report.begin(
        "syns",
        &format!(
            "nginx under {per_second} SYNs a second from as many names; beside them 8 honest clients \
             with 1000 requests a second"
        ),
    )?;
    flood(plan, report, Program::Nginx, "", &|served| {
        let conduct = Conduct::new(Abuse::SynOnly, b"");
        let count = 2 * per_second * length(plan).as_millis() as u64 / 1000;
        plan_of(served, vec![conduct], count, per_second, Nanos::from_millis(500))
    })
}

pub(super) fn silent(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    report.begin(
        "silent",
        &format!(
            "nginx, a file of a mebibyte over eight connections that announce segments of \
             {TINY_MSS} bytes, take half of it and fall silent; beside them 8 honest clients with 1000 \
             requests a second"
        ),
    )?;
    flood(plan, report, Program::Nginx, "", &|served| {
        let conduct =
            Conduct { reads: 512 << 10, ..Conduct::new(Abuse::TinySegments, &served.long) };
        plan_of(served, vec![conduct], 16, 1000, hold(plan))
    })
}

pub(super) fn sacks(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    report.begin(
        "sacks",
        &format!(
            "nginx, a file of a mebibyte over one connection with segments of {TINY_MSS} bytes of which \
             an eighth is acknowledged, and then a thousand SACKs a second of three pieces of what is \
             out; beside it 8 honest clients with 1000 requests a second"
        ),
    )?;
    flood(plan, report, Program::Nginx, "", &|served| {
        let conduct = Conduct::new(Abuse::SackSpam, &served.long);
        let conduct = Conduct { mss: TINY_MSS, reads: 128 << 10, ..conduct };
        plan_of(served, vec![conduct], 2, 1000, hold(plan))
    })
}

pub(super) fn time_wait(plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let flows = plan.pick(FLOWS, 1024);
    report.begin(
        "time-wait",
        &format!(
            "a plain server with {flows} flows, and three times as many connections from other names \
             that it closes first: 3000 a second; beside them 8 honest clients with 1000 connections a \
             second"
        ),
    )?;
    flood(plan, report, Program::Plain, &format!("[tcp]\nflows = {flows}\n"), &|served| {
        let conduct = Conduct::new(Abuse::Polite, &served.short);
        plan_of(served, vec![conduct], 3 * flows, 3000, Nanos::from_secs(2))
    })
}

/// For how long connections of a flood hang.
fn hold(plan: &Plan) -> Nanos {
    Nanos(length(plan).as_nanos() as u64)
}

/// Plays an attack on our stack and on Linux's in turn, and prints it.
fn flood(
    plan: &Plan,
    report: &mut Report<'_>,
    program: Program,
    sections: &str,
    attacks: &dyn Fn(&Served) -> Result<AttackPlan, Error>,
) -> Result<(), Error> {
    let stacks = stacks(plan, sections)?;
    let [ours, linux] = turns_of(plan, report, program.name(), |which, _| {
        let stack = &stacks[which];
        let mut served = program.start(stack)?;
        let attack_plan = attacks(&served)?;
        play(plan, stack, &mut served, &mut |half, is_over| {
            attack(stack, attack_plan.clone(), half, is_over)
        })
    })?;
    print(report, program.name(), &ours, &linux)
}
