//! The loop of a runner: cores come and go, and the job follows.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};

use base::Nanos;
use rustix::process::Signal;
use sys::child::{self, Start};
use sys::clock;
use sys::cpu_set::CpuSet;
use sys::pidfd::PidFd;
use sys::poll::Waiter;
use sys::process_tree;
use sys::signal_fd::{Received, SignalFd};

use super::grants::{Grants, Holding};
use super::guardian::{self, PASSED_ON};
use super::job::Job;
use super::pace::{Counts, Pace, Step};
use super::report::Report;
use crate::failure::Failure;

/// After this long without a first core the user is told why nothing happens.
const SAY_AFTER: Nanos = Nanos::from_secs(1);

/// Between two looks for threads that are not where they should be, at first: the program may be
/// starting while its cores change.
const LOOK_FIRST: Nanos = Nanos::from_millis(2);
/// The same later: programs place their own threads at times.
const LOOK_LATER: Nanos = Nanos::from_millis(200);
/// A look takes at most this share of our time.
const LOOK_SHARE: u64 = 100;

/// A program that has not been started yet.
#[derive(Debug)]
pub(crate) struct Runner<'a> {
    command: &'a [OsString],
    signals: SignalFd,
}

/// How a job has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: u8,
    pub(crate) counts: Counts,
}

impl<'a> Runner<'a> {
    /// For this program. From now on the calling thread and those that it starts hold back the
    /// signals that are passed on.
    pub(crate) fn new(command: &'a [OsString]) -> Result<Self, Failure> {
        Ok(Self { command, signals: SignalFd::new(&PASSED_ON).map_err(Failure::new)? })
    }

    /// Runs it on what `grants` gives: its exit code, and what it had unless it never began.
    pub(crate) fn run(
        &self,
        name: &str,
        grants: &mut impl Grants,
    ) -> Result<(u8, Option<Report>), Failure> {
        let first = match self.wait_for_first(grants)? {
            First::Cores(first) => first,
            First::Signal(signal) => return Ok((ended_by(signal.as_raw()), None)),
        };
        process_tree::adopt_orphans().map_err(Failure::new)?;
        let (begun, mut job) = (clock::now(), Job::new());
        let stopped_by = job.freezer().name();
        let ended = self.start(&first, &job).and_then(|mut guardian| {
            job.below(guardian.id());
            child::leave_streams().map_err(Failure::new)?;
            follow(&self.signals, grants, first, &job, &mut guardian)
        });
        // What a guardian that was killed has left to us.
        job.below(std::process::id());
        job.release();
        let Ended { code, counts } = ended?;
        Ok((code, Some(Report::new(name, stopped_by, clock::now() - begun, code, &counts))))
    }

    /// The first cores, or the signal that ends us before there are any.
    fn wait_for_first(&self, grants: &mut impl Grants) -> Result<First, Failure> {
        let begun = clock::now();
        let mut is_told = false;
        loop {
            match grants.look() {
                Holding::Over(why) => return Err(Failure::new(why)),
                Holding::Cores(cpus) if cpus.is_empty() => {}
                Holding::Cores(cpus) => return usable(cpus).map(First::Cores),
            }
            if let Some(Received { signal, .. }) = self.signals.take() {
                return Ok(First::Signal(signal));
            }
            let waited = clock::now().since(begun);
            if waited >= SAY_AFTER && !std::mem::replace(&mut is_told, true) {
                eprintln!("calisto: no core is free; the program begins with the first that is");
            }
            let most = if is_told { Nanos::FAR_FUTURE } else { SAY_AFTER - waited };
            wait_for([self.signals.as_fd()].into_iter().chain(grants.descriptors()), most);
        }
    }

    /// Starts the guardian, which starts the program on `first`.
    fn start(&self, first: &CpuSet, job: &Job) -> Result<Child, Failure> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("calisto").args(["run", "--guardian"]).args(guardian::words(first, job));
        command.arg("--").args(self.command);
        // It inherits which signals are held back, so that none ends it before it looks.
        let start = Start { parent_death: Some(Signal::TERM), ..Start::default() };
        child::prepare(&mut command, start);
        command.spawn().map_err(|error| {
            Failure::new(format!("cannot start this program again to watch over the job: {error}"))
        })
    }
}

/// How the wait for a first core ends.
enum First {
    Cores(CpuSet),
    Signal(Signal),
}

/// Those that a program of ours may run on at all.
fn usable(cpus: CpuSet) -> Result<CpuSet, Failure> {
    let attainable = CpuSet::attainable().map_err(Failure::new)?;
    let usable = cpus.intersection(&attainable);
    if usable.is_empty() {
        return Err(Failure::new(format!(
            "the daemon gives out CPU {cpus}, and the cpuset of this session leaves {attainable} only: \
             run it from a session whose cpuset has both"
        )));
    }
    Ok(usable)
}

/// Lets the job follow its cores until the guardian has ended, which ends as the program does.
pub(crate) fn follow(
    signals: &SignalFd,
    grants: &mut impl Grants,
    first: CpuSet,
    job: &Job,
    guardian: &mut Child,
) -> Result<Ended, Failure> {
    let watch = PidFd::open(guardian.id()).map_err(Failure::new)?;
    let mut hands = Hands { job, has_complained: false };
    let mut looks = Looks { next: clock::now() + LOOK_FIRST, interval: LOOK_FIRST };
    let mut pace = Some(Pace::new(clock::now(), first));
    let mut counts = Counts::default();
    while !watch.is_dead() {
        let next = pace.as_ref().map(|pace| pace.deadline().unwrap_or(looks.next).min(looks.next));
        let most = next.map_or(Nanos::FAR_FUTURE, |next| next.since(clock::now()));
        let news = pace.as_ref().map(|_| grants.descriptors()).unwrap_or_default();
        wait_for([signals.as_fd(), watch.as_fd()].into_iter().chain(news), most);
        while let Some(Received { signal, by_process }) = signals.take() {
            if by_process {
                // A guardian that has ended needs no signal.
                let _ = rustix::process::pidfd_send_signal(&watch, signal);
            }
        }
        let Some(running) = &mut pace else { continue };
        let now = clock::now();
        let step = match grants.look() {
            Holding::Cores(cpus) => running.hold(now, cpus).or_else(|| running.expire(now)),
            Holding::Over(why) => {
                eprintln!("calisto: {why}; the job goes on where it could run before");
                job.set_free();
                counts = pace.take().map(|pace| pace.finish(now)).unwrap_or_default();
                continue;
            }
        };
        if let Some(step) = step {
            hands.carry_out(step);
        }
        if now >= looks.next {
            if let Some(step) = running.again() {
                hands.carry_out(step);
            }
            looks.done(now, clock::now());
        }
    }
    let status = guardian.wait().map_err(Failure::new)?;
    if let Some(pace) = pace {
        counts = pace.finish(clock::now());
    }
    let code = status.code().map_or_else(
        || status.signal().map_or(u8::MAX, ended_by),
        |code| u8::try_from(code).unwrap_or(u8::MAX),
    );
    Ok(Ended { code, counts })
}

/// What carries steps out.
struct Hands<'a> {
    job: &'a Job,
    has_complained: bool,
}

impl Hands<'_> {
    fn carry_out(&mut self, step: Step) {
        let done = match step {
            Step::Place(cpus) => self.job.place(&cpus),
            Step::Thaw(cpus) => {
                let placed = self.job.place(&cpus);
                self.job.freezer().thaw().map_err(|_| STUBBORN.to_owned()).and(placed)
            }
            Step::Freeze => self.job.freezer().freeze().map_err(|_| STUBBORN.to_owned()),
        };
        if let Err(why) = done
            && !std::mem::replace(&mut self.has_complained, true)
        {
            eprintln!("calisto: part of the job does not follow its cores: {why}");
        }
    }
}

const STUBBORN: &str = "its processes are too many, or start faster than they can be stopped";

/// When to look next for threads that are not where they should be.
struct Looks {
    next: Nanos,
    interval: Nanos,
}

impl Looks {
    /// A look has taken from `begun` until `now`.
    fn done(&mut self, begun: Nanos, now: Nanos) {
        self.interval = Nanos(self.interval.0 * 2).min(LOOK_LATER);
        let cost = now.since(begun).0.saturating_mul(LOOK_SHARE);
        self.next = now + Nanos(cost).max(self.interval);
    }
}

fn wait_for<'fd>(descriptors: impl Iterator<Item = BorrowedFd<'fd>>, most: Nanos) {
    let mut waiter = Waiter::new();
    for descriptor in descriptors {
        assert!(waiter.add(descriptor), "an attachment leaves room for ours");
    }
    waiter.wait(most);
}

/// As shells say it.
fn ended_by(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests;
