//! One end of a daemon under callers, again and again.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::Nanos;
use rustix::process::Signal;
use sys::clock::now;

use super::callers::{Callers, Moments, Seen};
use super::figures::{self, Death};
use crate::cases::{Plan, turns_of};
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::flows::SplitMix;
use crate::place::{Cpus, on_cpu};
use crate::report::Report;
use crate::running::Running;
use crate::sockets::accelerated::{Accelerated, Profile};
use crate::sockets::client::connected;
use crate::sockets::connections::MEMORY;
use crate::sockets::programs::{Compiled, EPOLL_ECHO};
use crate::sockets::witness::Carried;

/// Where the echo listens.
const PORT: u16 = 7000;

/// Callers ask for at least this long before a daemon ends, and at most twice as long.
const ASKED_FOR: Nanos = Nanos::from_millis(300);

/// A guardian has eight seconds; a listener is served long before.
const TIMEOUT: Nanos = Nanos::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Where nothing ends, this is how long an end would have taken.
const LULL: Duration = Duration::from_millis(20);

/// How a daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Kill,
    Term,
}

/// Ends the daemon as often as there are rounds.
pub(super) fn play(way: Way, plan: &Plan, report: &mut Report<'_>) -> Result<(), Error> {
    let (Cpus { client, server }, size) = (plan.cpus, plan.death);
    let connections = size.connections;
    report.begin(
        way.name(),
        &format!(
            "{} of calistod, {} times, each under {connections} fresh connections of Linux's \
             sockets to an echo (one unmodified program, epoll, under `calisto run`), over veth \
             between two namespaces. {} requests a second of all together, one at a time on each \
             connection, of 1 to {} bytes, spread over their logarithm; every byte is checked. \
             A stall is the longest wait for an answer to a request that the end fell into, up \
             to the first request that began when all stood again. Seed {}. Clients on CPU \
             {client}; program, calistod and its guardian on CPU {server}.",
            way.what(),
            plan.rounds,
            size.per_second,
            1 << 16,
            size.seed
        ),
    )?;
    let mut accelerated = Accelerated::new(plan.cpus, MEMORY)?;
    let program = Compiled::new(EPOLL_ECHO)?;
    let mut echo = start(&accelerated, program.path(), plan.cpus)?;
    let mut random = SplitMix(size.seed);
    let (mut deaths, mut quiet) = (Vec::new(), Vec::new());
    let [_] = turns_of(plan, report, "", |_, _| {
        await_served(&accelerated, &mut echo)?;
        // What a wait is without any end, by the same rule.
        let lull = |moments: &Moments, _: &mut Accelerated| {
            moments.ended_at.store(now().0, Ordering::Release);
            std::thread::sleep(LULL);
            moments.stand_at.store(now().0, Ordering::Release);
            Ok(())
        };
        quiet.push(under_callers(&mut accelerated, plan, &mut random, lull)?.0);
        let end = |moments: &Moments, accelerated: &mut Accelerated| {
            let began = now();
            moments.ended_at.store(began.0, Ordering::Release);
            accelerated.harness.end_by(way.signal())?;
            let given = await_word(way, accelerated)?;
            let stand_at = now();
            moments.stand_at.store(stand_at.0, Ordering::Release);
            Ok((given, stand_at.since(began)))
        };
        let (seen, (given, took)) = under_callers(&mut accelerated, plan, &mut random, end)?;
        deaths.push(Death { seen, given, took });
        echo.unless_ended()?;
        accelerated.harness.start_again()
    })?;
    figures::print(report, &deaths, &quiet)
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Term => "term",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::Term => "an end in order (SIGTERM)",
        }
    }

    fn signal(self) -> Signal {
        match self {
            Self::Kill => Signal::KILL,
            Self::Term => Signal::TERM,
        }
    }

    /// What stands before the number of connections in what is said at the end.
    fn says(self) -> &'static str {
        match self {
            Self::Kill => "the daemon has died: the kernel goes on with ",
            Self::Term => "the kernel goes on with ",
        }
    }
}

fn start(accelerated: &Accelerated, program: &Path, cpus: Cpus) -> Result<Running, Error> {
    let address = accelerated.harness.bed.server().ipv4().to_string();
    let mut command = accelerated.command(Profile::Latency, program)?;
    command.args([address, PORT.to_string()]);
    Running::start(command, cpus.server)
}

/// Waits until a connection is taken, and not by the kernel.
fn await_served(accelerated: &Accelerated, echo: &mut Running) -> Result<(), Error> {
    let harness = &accelerated.harness;
    let (here, there) = (harness.bed.server(), harness.bed.client());
    let began = now();
    loop {
        unless_interrupted()?;
        echo.unless_ended()?;
        let before = Carried::by_kernel_of(here)?;
        let is_taken = connected(there, harness.address(PORT), 1).is_ok();
        if is_taken && Carried::by_kernel_of(here)?.since(before).segments == 0 {
            return Ok(());
        }
        if now().since(began) > TIMEOUT {
            return Err(format!("it says: {}", echo.said())).or_needs("echo that is served");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for the word of how many connections the kernel goes on with.
fn await_word(way: Way, accelerated: &Accelerated) -> Result<usize, Error> {
    let began = now();
    loop {
        let said = accelerated.harness.said()?;
        if let Some(given) = given_in(&said, way.says()) {
            return Ok(given);
        }
        if now().since(began) > TIMEOUT {
            return Err(format!("it says: {said}")).or_needs("word of its connections");
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn given_in(said: &str, says: &str) -> Option<usize> {
    let (_, behind) = said.split_once(says)?;
    behind.split_ascii_whitespace().next()?.parse().ok()
}

/// Has fresh callers ask, and does something meanwhile, at a random time.
fn under_callers<T: Send>(
    accelerated: &mut Accelerated,
    plan: &Plan,
    random: &mut SplitMix,
    act: impl FnOnce(&Moments, &mut Accelerated) -> Result<T, Error>,
) -> Result<(Vec<Seen>, T), Error> {
    let address = accelerated.harness.address(PORT);
    let there = accelerated.harness.bed.client();
    let callers = Callers::connect(there, address, plan.death, random.next())?;
    let pause = Duration::from_nanos(ASKED_FOR.0 + random.next() % ASKED_FOR.0);
    let moments = Moments::default();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| on_cpu(plan.cpus.client, || callers.ask(&moments)));
        std::thread::sleep(pause);
        let done = act(&moments, accelerated);
        if done.is_err() {
            // Nobody waits for more.
            moments.ended_at.store(1, Ordering::Release);
        }
        let seen = asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((seen?, done?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_connections_is_read_from_what_is_said() {
        let said =
            "x\ncalistod: the daemon has died: the kernel goes on with 64 connections; 0 are";
        assert_eq!(given_in(said, Way::Kill.says()), Some(64));
        assert_eq!(given_in(said, Way::Term.says()), Some(64));
        assert_eq!(given_in("ready: ", Way::Term.says()), None);
    }
}
