//! One policy on the stage: load runs, a worker comes and goes, and this watches.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use admin::{Command, ReplyBody, WorkerStatus};
use cli::daemon::Daemon;
use cli::failure::Failure;
use serde::Serialize;
use testbed::Testbed;

use super::Demo;
use super::load_process::{LoadFigures, LoadProcess};
use super::ownership::{Ownership, Processed, max_to_mean, processed};
use super::placement::Placement;
use super::progress::{Progress, pause};
use super::server::Server;

/// Moving every group of the default table takes milliseconds; this is a stuck daemon.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// As many sampled flows as the daemon tells at once.
const FLOWS_ASKED: u32 = 1024;

/// What one policy has shown.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Act {
    pub(super) policy: String,
    /// Share of flows that changed worker when one came.
    pub(super) moved_up: f64,
    /// The same when one went.
    pub(super) moved_down: f64,
    /// Flows that these shares are of.
    pub(super) flows_sampled: usize,
    /// The busiest worker's packets over the mean, in the worst span between two changes.
    pub(super) max_to_mean: f64,
    #[serde(flatten)]
    pub(super) load: LoadFigures,
}

/// Plays one policy.
pub(super) fn play(
    demo: &Demo,
    policy: &str,
    bed: &Testbed,
    server: &mut Server,
    placement: &Placement,
    tell: &Progress,
) -> Result<Act, Failure> {
    let daemon = server.daemon();
    let (few, many) = (demo.workers, demo.workers + 1);
    daemon.tell(Command::SteerSet { policy: policy.to_owned() })?;
    await_settled(&daemon, few)?;
    tell.say(&format!(
        "{policy}: {} requests/s of {} flows for {} s",
        demo.rate, demo.flows, demo.seconds
    ));
    let mut load = LoadProcess::start(&demo.load(placement), bed)?;
    // Starting takes the generator a moment; then three spans of which each is long enough for
    // every flow to be heard several times.
    let span = Duration::from_secs(u64::from(demo.seconds)).mul_f64(0.28);
    let mut watch = |length: Duration| {
        pause(length)?;
        server.check_alive()?;
        load.check_alive()
    };

    watch(span / 4)?;
    let mut flows = BTreeSet::new();
    let mut worst = f64::NAN;
    let mut begun = look(&daemon)?;
    let mut moved = [f64::NAN; 2];
    for (moved, workers) in moved.iter_mut().zip([many, few]) {
        watch(span)?;
        flows.extend(sampled_groups(&daemon)?);
        let before = Ownership::read(&daemon.owner_table()?)?;
        worst = worst.max(max_to_mean(&begun, &look(&daemon)?));
        daemon.tell(Command::Workers { count: workers })?;
        let settling = Instant::now();
        await_settled(&daemon, workers)?;
        let after = Ownership::read(&daemon.owner_table()?)?;
        begun = look(&daemon)?;
        *moved = before.moved(&after, flows.iter().map(|&(_, group)| group));
        tell.say(&format!(
            "{policy}: {workers} workers, {:.1} % of flows moved; settled within {} ms",
            100.0 * *moved,
            settling.elapsed().as_millis()
        ));
    }
    watch(span.mul_f64(0.8))?;
    worst = worst.max(max_to_mean(&begun, &look(&daemon)?));
    let [moved_up, moved_down] = moved;
    Ok(Act {
        policy: policy.to_owned(),
        moved_up,
        moved_down,
        flows_sampled: flows.len(),
        max_to_mean: worst,
        load: load.finish()?,
    })
}

/// Waits until that many workers are there, no other, and nothing is on its way.
fn await_settled(daemon: &Daemon, workers: u16) -> Result<(), Failure> {
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    loop {
        let there = workers_of(daemon)?;
        let as_wanted = there.len() == usize::from(workers)
            && there.iter().all(|worker| worker.state == "active");
        let settled = match daemon.ask(Command::SteerShow)? {
            ReplyBody::Steer(steer) => steer.settled,
            other => return Err(daemon.unexpected(&other)),
        };
        if as_wanted && settled {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Failure::new(format!(
                "the daemon has not come to rest with {workers} workers within {} s",
                SETTLE_TIMEOUT.as_secs()
            )));
        }
        pause(Duration::from_millis(10))?;
    }
}

fn workers_of(daemon: &Daemon) -> Result<Vec<WorkerStatus>, Failure> {
    match daemon.ask(Command::Status)? {
        ReplyBody::Status(status) => Ok(status.workers),
        other => Err(daemon.unexpected(&other)),
    }
}

fn look(daemon: &Daemon) -> Result<Processed, Failure> {
    Ok(processed(&workers_of(daemon)?))
}

/// Flows that the daemon has sampled, with their groups.
fn sampled_groups(daemon: &Daemon) -> Result<Vec<(String, u32)>, Failure> {
    match daemon.ask(Command::Flows { count: FLOWS_ASKED })? {
        ReplyBody::Flows { flows } => {
            Ok(flows.into_iter().map(|flow| (flow.flow, flow.group)).collect())
        }
        other => Err(daemon.unexpected(&other)),
    }
}
