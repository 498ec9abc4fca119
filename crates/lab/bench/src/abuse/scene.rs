//! An honest client by itself and beside an attacker, and what the daemon holds meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::Nanos;
use sys::clock::now;
use testbed::{Attack, AttackCounts, AttackPlan, Bystanders, Conduct, Seen};

use super::servers::Served;
use crate::apps::harness::Holdings;
use crate::cases::Plan;
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::figure::{Figure, Target};
use crate::place::on_cpu;
use crate::report::Report;
use crate::sockets::tested_stack::{Offloads, TestedStack};
use crate::sockets::witness::Carried;

/// Honest clients, and what they ask in a second: far below what a server can do, so that what an
/// attack takes from them shows, and not what a CPU can do.
const CLIENTS: u32 = 8;
const PER_SECOND: u32 = 1000;

/// Growth of a daemon that is none: what an allocator does.
const GROWTH_KIB: f64 = 1024.0;

/// Turns of an attacker without anything to do, before it sleeps.
const PAUSE: Duration = Duration::from_micros(200);

/// How long an attacker answers after its end.
const LINGER: Nanos = Nanos::from_secs(1);

/// What one round gives on one stack.
#[derive(Debug)]
pub(super) struct Outcome {
    alone: Seen,
    attacked: Seen,
    /// Programs that the daemon has put out, where there is one.
    put_out: u64,
    /// Segments that the server's kernel carried.
    by_kernel: u64,
    /// What the daemon held after the first half of the attack, and after the second.
    held: Option<[Holdings; 2]>,
    pub(super) counts: AttackCounts,
}

/// Something that is done to a server until it says that it is over: which half of it, counted
/// from zero.
pub(super) type Act<'a> = dyn FnMut(u64, &AtomicBool) -> Result<AttackCounts, Error> + Send + 'a;

/// How long the honest ask by themselves.
pub(super) fn length(plan: &Plan) -> Duration {
    Duration::from_millis(plan.pick(2000, 500))
}

/// An honest client of `served` alone, and beside two halves of `act`.
pub(super) fn play(
    plan: &Plan,
    stack: &TestedStack,
    served: &mut Served,
    act: &mut Act<'_>,
) -> Result<Outcome, Error> {
    let honest = Bystanders {
        server: served.address,
        exchange: served.exchange.clone(),
        clients: CLIENTS,
        per_second: PER_SECOND,
    };
    let before = Carried::by_kernel_of(stack.server())?;
    let alone = on_cpu(plan.cpus.client, || {
        let began = now();
        let length = Nanos(length(plan).as_nanos() as u64);
        let is_over = || now().since(began) > length || sys::signal::stop_requested();
        honest.ask(stack.client(), &is_over).or_needs("honest client")
    })?;
    unless_interrupted()?;
    let (mut attacked, mut counts, mut held) =
        (Seen::default(), AttackCounts::default(), Vec::new());
    for half in 0..2 {
        let is_over = AtomicBool::new(false);
        let (seen, did) = std::thread::scope(|scope| {
            let attacking = scope.spawn(|| {
                let did = on_cpu(plan.cpus.client, || act(half, &is_over));
                is_over.store(true, Ordering::Relaxed);
                did
            });
            let stop = || is_over.load(Ordering::Relaxed);
            let seen = on_cpu(plan.cpus.client, || {
                honest.ask(stack.client(), &stop).or_needs("honest client")
            });
            is_over.store(true, Ordering::Relaxed);
            let did = attacking.join();
            (seen, did.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        attacked.add(seen?);
        add(&mut counts, did?);
        unless_interrupted()?;
        served.unless_ended()?;
        // What is over is soon forgotten.
        std::thread::sleep(Duration::from_millis(plan.pick(2000, 500)));
        held.extend(stack.holdings()?);
    }
    let by_kernel = Carried::by_kernel_of(stack.server())?.since(before).segments;
    let (held, put_out) = (<[Holdings; 2]>::try_from(held).ok(), stack.programs_put_out()?);
    Ok(Outcome { alone, attacked, put_out, by_kernel, held, counts })
}

/// Lets an attacker do half of `plan`'s connections from the client's end.
pub(super) fn attack(
    stack: &TestedStack,
    mut plan: AttackPlan,
    half: u64,
    is_over: &AtomicBool,
) -> Result<AttackCounts, Error> {
    plan.connections = plan.connections.div_ceil(2);
    plan.first += half * plan.connections;
    let mut attack = Attack::new(stack.bed(), plan).or_needs("attacker")?;
    while !attack.is_over() && !is_over.load(Ordering::Relaxed) && !sys::signal::stop_requested() {
        if !attack.turn(now()) {
            std::thread::sleep(PAUSE);
        }
    }
    attack.end(now());
    // What the server still sends is answered by resets, as every host does.
    let ended = now();
    while now().since(ended) < LINGER && !sys::signal::stop_requested() {
        if !attack.turn(now()) {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(attack.counts())
}

/// An attack on `served`.
pub(super) fn plan_of(
    served: &Served,
    conducts: Vec<Conduct>,
    connections: u64,
    per_second: u64,
    holds: Nanos,
) -> Result<AttackPlan, Error> {
    let std::net::SocketAddr::V4(server) = served.address else {
        return Err("it is IPv4's").or_needs("address of a server");
    };
    Ok(AttackPlan { server, conducts, connections, per_second, holds, first: 0 })
}

/// Ours and Linux, on the same kind of wire.
pub(super) fn stacks(plan: &Plan, sections: &str) -> Result<[TestedStack; 2], Error> {
    let linux = TestedStack::linux(plan.cpus, Offloads::None)?;
    Ok([TestedStack::calisto_with(plan, sections)?, linux])
}

/// Prints what rounds on our stack gave, beside the same rounds on Linux.
pub(super) fn print(
    report: &mut Report<'_>,
    what: &str,
    ours: &[Outcome],
    linux: &[Outcome],
) -> Result<(), Error> {
    let all = |of: &dyn Fn(&Outcome) -> f64| {
        [ours, linux].map(|rounds| rounds.iter().map(of).collect::<Vec<f64>>())
    };
    let mut figure = |name: &str, unit, target: Option<Target>, of: &dyn Fn(&Outcome) -> f64| {
        let [own, other] = all(of);
        let figure = Figure::new(format!("{what}: {name}"), unit, &own);
        let figure = figure.against("Linux", &own, &other);
        report.figure(figure.target(target))
    };
    figure("connections of the attacker", "", None, &|one| one.counts.opened as f64)?;
    figure("… accepted", "", None, &|one| one.counts.accepted as f64)?;
    figure("… that the server reset", "", None, &|one| one.counts.reset as f64)?;
    figure("programs put out", "", Some(Target::AtMost(0.0)), &|one| one.put_out as f64)?;
    let broken = |one: &Outcome| (one.alone.broken + one.attacked.broken) as f64;
    figure("bystanders' connections broken", "", Some(Target::AtMost(0.0)), &broken)?;
    let share = |one: &Outcome| one.attacked.share_answered() / one.alone.share_answered();
    figure(
        "goodput of the honest, of that alone",
        "",
        Some(Target::AtLeastOrBaseline(0.9)),
        &share,
    )?;
    let p99 = |seen: &Seen| seen.percentile(99).map_or(f64::INFINITY, Nanos::as_micros_f64);
    figure("p99 of the honest", "us", None, &|one| p99(&one.attacked))?;
    let ratio = |one: &Outcome| p99(&one.attacked) / p99(&one.alone);
    figure("p99 of the honest, of that alone", "", Some(Target::AtMostOrBaseline(2.0)), &ratio)?;
    let mut own = |name: &str, unit, target: Option<Target>, values: &[f64]| {
        let figure = Figure::new(format!("{what}: {name}"), unit, values);
        report.figure(figure.target(target))
    };
    let held: Vec<[Holdings; 2]> = ours.iter().filter_map(|one| one.held).collect();
    let of = |of: &dyn Fn(&[Holdings; 2]) -> f64| held.iter().map(of).collect::<Vec<f64>>();
    if held.is_empty() {
        return Ok(());
    }
    let memory = of(&|[_, after]| after.resident_kib as f64);
    own("the daemon's memory afterwards", "KiB", None, &memory)?;
    let memory = of(&|[before, after]| after.resident_kib as f64 - before.resident_kib as f64);
    own(
        "… grown in the attack's second half by",
        "KiB",
        Some(Target::AtMost(GROWTH_KIB)),
        &memory,
    )?;
    let descriptors = of(&|[_, after]| after.descriptors as f64);
    own("the daemon's descriptors afterwards", "", None, &descriptors)?;
    let descriptors = of(&|[before, after]| after.descriptors as f64 - before.descriptors as f64);
    own("… grown in the attack's second half by", "", Some(Target::AtMost(0.0)), &descriptors)?;
    let by_kernel: Vec<f64> = ours.iter().map(|one| one.by_kernel as f64).collect();
    own("segments that the kernel carried of it", "", None, &by_kernel)?;
    match ours.iter().chain(linux).find_map(|one| one.attacked.why.as_ref()) {
        Some(why) => report.figure(Figure::missing(format!("{what}: why the first broke"), why)),
        None => Ok(()),
    }
}

fn add(counts: &mut AttackCounts, more: AttackCounts) {
    counts.opened += more.opened;
    counts.accepted += more.accepted;
    counts.ended += more.ended;
    counts.reset += more.reset;
    counts.expired += more.expired;
    counts.unanswered += more.unanswered;
    counts.sent += more.sent;
    counts.lost += more.lost;
    counts.heard += more.heard;
}
