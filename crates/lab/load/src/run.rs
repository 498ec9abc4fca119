//! A whole run: one thread a shard, a common start, and a report at the end.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, SystemTime};

use base::Nanos;
use sys::clock::now;

use crate::barrier::Go;
use crate::live::Live;
use crate::open_loop::SendCounts;
use crate::report::Totals;
use crate::{Barrier, Error, Plan, Report, Shard, ShardCount, Stats, Transport, TransportCounters};

/// Between the moment all shards are ready and the first request: nobody is still waking up.
const HEAD_START: Nanos = Nanos::from_millis(5);

/// When every request has been answered, a second reply may still come this much later.
const QUIET: Nanos = Nanos::from_millis(10);

/// A sleep is never longer, so that Ctrl-C and lost replies are noticed.
const SLEEP_MAX: Nanos = Nanos::from_millis(50);

/// How a plan is carried out.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads that send.
    pub threads: u32,
    /// CPUs that threads are pinned to, in turn; empty: none is pinned.
    pub cpus: Vec<usize>,
    /// Receive on threads of their own, one for each that sends. A closed loop ignores it.
    pub split: bool,
    /// Look for work without sleeping for this long. Sleeping is polite to what shares the CPU; a
    /// halted CPU then takes 20 to 40 us to come back, which shows in the latencies.
    pub spin: Nanos,
    /// Print progress to standard error each second.
    pub live: bool,
    /// Progress as JSON.
    pub json: bool,
    /// Others that begin together with this one.
    pub barrier: Option<Barrier>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 1,
            cpus: Vec::new(),
            split: false,
            spin: Nanos::from_micros(50),
            live: false,
            json: false,
            barrier: None,
        }
    }
}

/// Counts of one shard that other threads look at.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    sender_is_done: AtomicBool,
}

/// What a shard leaves behind.
struct Outcome {
    send: SendCounts,
    stats: Option<Stats>,
    transport: TransportCounters,
    describe: String,
    /// When it noticed that it was to stop early.
    stopped_at: Option<Nanos>,
}

/// Carries out `plan`. Each shard's thread calls `open` for its transport; `split` gives a second
/// handle of a transport where that is possible. Stops early, with a report, once
/// `sys::signal::stop_requested()`: installing the handler is up to the program.
///
/// # Errors
/// The plan is impossible, a transport cannot be opened, or a thread cannot be started or pinned.
/// Nothing has been sent then.
pub fn run<T: Transport + Send>(
    plan: &Plan,
    options: &Options,
    open: impl Fn(&Plan, ShardCount) -> Result<T, Error> + Sync,
    split: Option<fn(&T) -> T>,
) -> Result<Report, Error> {
    plan.check(options.threads)?;
    let stolen_before = sys::steal::per_cpu();
    let progress: Vec<_> = (0..options.threads).map(|_| Arc::new(Progress::default())).collect();
    let outcomes = thread::scope(|scope| {
        let (ready, all_ready) = channel();
        let mut shards = Vec::new();
        for (number, progress) in progress.iter().enumerate() {
            let shard = ShardCount { shard: number as u32, shards: options.threads };
            let (go, begin) = channel();
            let (ready, open) = (ready.clone(), &open);
            let work = move || {
                let thread = Thread { plan, options, shard, progress };
                thread.run(scope, open, split, &ready, &begin)
            };
            shards.push((go, spawn(scope, &format!("load-{number}"), work)?));
        }
        drop(ready);
        // A shard that fails drops its end: the others then see no start, and end too.
        for _ in &shards {
            all_ready.recv().map_err(|_| died())??;
        }
        let begin = match &options.barrier {
            Some(barrier) => barrier.meet()?,
            None => Go { at: now() + HEAD_START, client: 0 },
        };
        for (go, _) in &shards {
            go.send(begin).map_err(|_| died())?;
        }
        let start = begin.at;
        let started_at = SystemTime::now() + Duration::from(start.since(now()));
        if options.live {
            let done = || shards.iter().all(|(_, shard)| shard.is_finished());
            Live { start, json: options.json, progress: &progress }.watch(done);
        }
        let mut outcomes = Vec::new();
        for (_, shard) in shards {
            outcomes.push(shard.join().map_err(|_| died())??);
        }
        Ok::<_, Error>((start, started_at, outcomes))
    });
    let (start, started_at, outcomes) = outcomes?;
    Ok(report(plan, options, start, started_at, &stolen_before, outcomes))
}

/// One shard's thread.
struct Thread<'a> {
    plan: &'a Plan,
    options: &'a Options,
    shard: ShardCount,
    progress: &'a Arc<Progress>,
}

impl<'a> Thread<'a> {
    fn run<'scope, T: Transport + Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        open: &(impl Fn(&Plan, ShardCount) -> Result<T, Error> + Sync),
        split: Option<fn(&T) -> T>,
        ready: &Sender<Result<(), Error>>,
        go: &Receiver<Go>,
    ) -> Result<Outcome, Error>
    where
        'a: 'scope,
    {
        let Self { plan, options, shard, progress } = self;
        let number = shard.shard as usize;
        let own = plan.of_shard(shard);
        let opened = pin(options, number).and_then(|()| open(&own, shard));
        let transport = match opened {
            Ok(transport) => transport,
            Err(error) => {
                // The report of it may find nobody: then another shard has failed before.
                let _ = ready.send(Err(error.clone()));
                return Err(error);
            }
        };
        let other_half = split.filter(|_| options.split).map(|split| split(&transport));
        // A shard allocates its window, and faults it in, before the start.
        let mut made = Shard::new(plan, shard, transport, Nanos::FAR_FUTURE);
        ready.send(Ok(())).map_err(|_| died())?;
        let Go { at: start, client } = go.recv().map_err(|_| died())?;
        made.begin(&plan.of_client(client), shard, start);
        let receiver = other_half.and_then(|half| made.split_off_receiver(half));
        let Some(mut receiver) = receiver else {
            let stopped_at = drive(&mut made, plan, options, start, progress);
            return Ok(outcome(&made, stopped_at));
        };
        let work = move || {
            pin(options, number + options.threads as usize)?;
            let stopped_at = drive(&mut receiver, plan, options, start, progress);
            Ok::<_, Error>(outcome(&receiver, stopped_at))
        };
        let receiving = spawn(scope, &format!("load-rx-{number}"), work)?;
        let stopped_at = drive(&mut made, plan, options, start, progress);
        let received = receiving.join().map_err(|_| died())??;
        let sent = outcome(&made, stopped_at);
        let transport = sent.transport.plus(received.transport);
        Ok(Outcome { stats: received.stats, transport, ..sent })
    }
}

/// Turns a shard until all is sent and answered, or time is over. When it noticed a stop request.
fn drive<T: Transport>(
    shard: &mut Shard<T>,
    plan: &Plan,
    options: &Options,
    start: Nanos,
    progress: &Progress,
) -> Option<Nanos> {
    // What still waits after the last moment to send is counted right behind it.
    let mut end = start + plan.warmup + plan.length + plan.grace + Nanos::from_millis(2);
    // Timers of other threads may be 50 us late, which saves power and would ruin this.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut last_moved = now();
    let mut stopped_at = None;
    let (sends, receives) = (shard.send_counts().is_some(), shard.stats().is_some());
    loop {
        let turn = shard.turn(&now);
        let time = now();
        if turn.moved {
            last_moved = time;
            let (sent, received) = shard.progress();
            if sends {
                progress.sent.store(sent, Ordering::Relaxed);
            }
            if receives {
                progress.received.store(received, Ordering::Relaxed);
            }
        }
        if stopped_at.is_none() && sys::signal::stop_requested() {
            shard.cancel();
            stopped_at = Some(time);
            end = end.min(time + plan.grace);
        }
        if sends && turn.next_due == Nanos::FAR_FUTURE {
            progress.sender_is_done.store(true, Ordering::Release);
        }
        if progress.sender_is_done.load(Ordering::Acquire) {
            let sent = progress.sent.load(Ordering::Relaxed);
            let all_answered = progress.received.load(Ordering::Relaxed) >= sent;
            let quiet = time.since(last_moved) >= QUIET;
            if !receives || time >= end || (all_answered && quiet) {
                return stopped_at;
            }
        }
        if turn.moved || turn.next_due <= time {
            continue;
        }
        let until_due = turn.next_due.since(time);
        if time.since(last_moved) < options.spin || until_due <= options.spin {
            std::hint::spin_loop();
            continue;
        }
        // Woken early enough to spin the rest: a timer is late, and so is a halted CPU.
        let sleep = until_due.since(options.spin).min(end.since(time)).min(SLEEP_MAX);
        shard.wait(sleep.max(Nanos::from_micros(1)));
    }
}

fn outcome<T: Transport>(shard: &Shard<T>, stopped_at: Option<Nanos>) -> Outcome {
    Outcome {
        send: shard.send_counts().cloned().unwrap_or_default(),
        stats: shard.stats().cloned(),
        transport: shard.transport().counters(),
        describe: shard.transport().describe(),
        stopped_at,
    }
}

fn report(
    plan: &Plan,
    options: &Options,
    start: Nanos,
    started_at: SystemTime,
    stolen_before: &[(usize, Nanos)],
    outcomes: Vec<Outcome>,
) -> Report {
    let mut totals = Totals::default();
    let mut stopped_at: Option<Nanos> = None;
    for Outcome { send, stats, transport, describe, stopped_at: stopped } in outcomes {
        totals.add(&send, stats.as_ref(), transport);
        stopped_at = stopped_at.into_iter().chain(stopped).min();
        totals.transport = describe;
    }
    let measured_from = start + plan.warmup;
    let planned_end = measured_from + plan.length;
    let end = stopped_at.map_or(planned_end, |stopped| stopped.min(planned_end));
    let stolen = sys::steal::per_cpu();
    let stolen = stolen.into_iter().zip(stolen_before).filter(|((cpu, _), (same, _))| cpu == same);
    Report::new(
        plan,
        options,
        totals,
        end.since(measured_from),
        stopped_at.is_some_and(|stopped| stopped < planned_end),
        stolen.map(|((cpu, after), (_, before))| (cpu, after.since(*before))),
        started_at,
    )
}

fn pin(options: &Options, thread: usize) -> Result<(), Error> {
    match options.cpus.len() {
        0 => Ok(()),
        count => Ok(sys::thread::pin(options.cpus[thread % count])?),
    }
}

fn spawn<'scope, R: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> R + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, R>, Error> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn_scoped(scope, work).map_err(|error| Error::io("start a thread", &error))
}

fn died() -> Error {
    Error::Failed("a thread of the load generator ended early: report this".to_owned())
}
