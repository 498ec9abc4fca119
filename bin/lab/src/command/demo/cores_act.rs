//! The second act: load goes up and down, an application's cores with it, and a batch job fills the
//! gaps.

use std::time::{Duration, Instant};

use admin::{Command, CoreApp, CoresStatus, ReplyBody};
use base::Nanos;
use cli::daemon::Daemon;
use cli::failure::Failure;
use serde::Serialize;
use sys::other_thread::OtherThread;
use sys::process_tree;
use testbed::{Testbed, TestbedConfig};

use super::Demo;
use super::batch_job::BatchJob;
use super::cpu_use;
use super::load_process::{LoadFigures, LoadPlan, LoadProcess};
use super::progress::{Progress, pause};
use super::server::{Server, UDP_PORT};
use super::service::{self, Service};
use super::stage::Stage;

/// Iterations of fake work that each request asks for: about 20 microseconds.
const ITERATIONS: u64 = 2000;

/// Flows that send the requests.
const FLOWS: u32 = 200;

/// Sent before anything is measured.
const WARM_UP: Duration = Duration::from_millis(300);

/// Between two looks at who holds the cores. Each look costs the daemon some of its time.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// For the daemon's last polling after the load has gone.
const REST: Duration = Duration::from_millis(500);

/// What the idle daemon is watched for.
const IDLE: Duration = Duration::from_secs(1);

/// One step of load, and what happened in it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    /// Requests a second that were meant.
    pub(super) rate: u32,
    /// Whether the batch job ran beside.
    pub(super) batch: bool,
    /// Replies a second.
    pub(super) replies_per_s: f64,
    #[serde(flatten)]
    pub(super) load: LoadFigures,
    /// Cores that the application held, the mean of some looks.
    pub(super) app_cores: f64,
    /// Cores given to the application, a second.
    pub(super) grants_per_s: f64,
    /// Cores that it gave back because there was nothing to do, a second.
    pub(super) parks_per_s: f64,
    /// Its CPU time over the time.
    pub(super) app_cpu: f64,
    /// The batch job's CPU time over the time.
    pub(super) batch_cpu: f64,
    /// The batch job's CPU time over what the application left of the cores.
    pub(super) batch_of_rest: f64,
    /// What everybody else (other programs, the kernel, the hypervisor) used of the cores, over the
    /// time. They go before a batch job. None when the kernel does not tell.
    pub(super) others_cpu: Option<f64>,
}

/// What is left when the load has gone.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Idle {
    /// Cores that are given out.
    pub(super) cores: usize,
    /// Those that nobody held.
    pub(super) cores_idle: usize,
    /// The daemon's CPU time over the time, all its threads; the application stays attached.
    pub(super) daemon_cpu: f64,
}

/// The whole act.
#[derive(Clone, Debug)]
pub(super) struct CoresAct {
    pub(super) steps: Vec<Step>,
    pub(super) idle: Idle,
    /// The port that the daemon served on.
    pub(super) port: String,
}

/// Plays it, in namespaces of its own.
pub(super) fn play(demo: &Demo, stage: &Stage, tell: &Progress) -> Result<CoresAct, Failure> {
    // What this program does meanwhile (starting, asking, the parked application) stays off the
    // cores that are given out; workers that get one are moved there.
    let allowed = sys::thread::allowed_cpus();
    if let Some(cpu) = stage.client {
        sys::thread::pin(cpu).map_err(Failure::new)?;
    }
    let played = play_pinned(demo, stage, tell);
    if stage.client.is_some() {
        sys::thread::pin_to_any(&allowed).map_err(Failure::new)?;
    }
    played
}

fn play_pinned(demo: &Demo, stage: &Stage, tell: &Progress) -> Result<CoresAct, Failure> {
    let bed = Testbed::new(TestbedConfig::default()).map_err(Failure::new)?;
    let server = Server::start(&demo.port, &settings(stage), &bed, tell)?;
    let listen = format!("udp:{}:{UDP_PORT}", bed.server().ipv4());
    let service = Service::start(&server.apps_socket(), &listen, stage.cores.len())?;
    tell.say(&format!("cores on demand: {}", stage.sentence()));
    let mut act_run = ActRun { demo, stage, tell, bed: &bed, server, service };
    let highest = demo.steps.iter().copied().max().unwrap_or_default();
    let mut steps = vec![act_run.step(highest, None)?];
    let mut batch = BatchJob::start(&act_run.server.apps_socket())?;
    for &rate in &demo.steps {
        steps.push(act_run.step(rate, Some(&mut batch))?);
    }
    batch.stop()?;
    let idle = act_run.idle()?;
    let ActRun { server, service, .. } = act_run;
    drop(service);
    let port = server.stop()?;
    Ok(CoresAct { steps, idle, port })
}

/// The daemon's settings, without its port.
fn settings(stage: &Stage) -> Vec<String> {
    // No workers of its own on threads: all cores are for applications that attach.
    let mut settings =
        vec![format!("cores.set={:?}", stage.cores), "workers.arrangement=fused".to_owned()];
    settings.extend(stage.daemon.map(|cpu| format!("workers.dispatcher_cpu={cpu}")));
    settings
}

/// Everything that runs during the act, but the batch job.
struct ActRun<'a> {
    demo: &'a Demo,
    stage: &'a Stage,
    tell: &'a Progress,
    bed: &'a Testbed,
    server: Server,
    service: Service,
}

/// What is counted, at a moment.
struct Reading {
    at: Instant,
    grants: u64,
    parks: u64,
    app: Nanos,
    batch: Nanos,
    /// Anybody's, on the cores that are given out.
    all: Option<Nanos>,
}

impl ActRun<'_> {
    fn step(&mut self, rate: u32, mut batch: Option<&mut BatchJob>) -> Result<Step, Failure> {
        let seconds = self.demo.step_seconds;
        let plan = LoadPlan {
            rate,
            flows: FLOWS,
            seconds,
            warm_up: WARM_UP,
            iterations: ITERATIONS,
            cpu: self.stage.client,
        };
        let mut load = LoadProcess::start(&plan, self.bed)?;
        // Starting takes the generator a moment more; it must not end before the last look.
        pause(WARM_UP * 2)?;
        let before = self.read(batch.as_deref_mut())?;
        let span = Duration::from_secs(seconds.into()).mul_f64(0.8);
        let (mut held, mut looks) = (0u64, 0u64);
        while before.at.elapsed() < span {
            pause(LOOK_EVERY)?;
            self.server.check_alive()?;
            self.service.check_alive()?;
            load.check_alive()?;
            held += u64::from(self.app(&self.cores()?)?.held);
            looks += 1;
        }
        let after = self.read(batch.as_deref_mut())?;
        let load = load.finish()?;
        let passed = after.at.duration_since(before.at).as_secs_f64();
        let share = |before: Nanos, after: Nanos| after.since(before).as_secs_f64() / passed;
        let (app_cpu, batch_cpu) = (share(before.app, after.app), share(before.batch, after.batch));
        let others = |all: f64| (all - app_cpu - batch_cpu).max(0.0);
        let all = before.all.zip(after.all).map(|(before, after)| share(before, after));
        let step = Step {
            rate,
            batch: batch.is_some(),
            replies_per_s: load.sent.saturating_sub(load.lost) as f64 / f64::from(seconds),
            load,
            app_cores: held as f64 / looks as f64,
            grants_per_s: after.grants.saturating_sub(before.grants) as f64 / passed,
            parks_per_s: after.parks.saturating_sub(before.parks) as f64 / passed,
            app_cpu,
            batch_cpu,
            batch_of_rest: batch_cpu / (self.stage.cores.len() as f64 - app_cpu),
            others_cpu: all.map(others),
        };
        self.tell.say(&step.sentence());
        Ok(step)
    }

    fn idle(&mut self) -> Result<Idle, Failure> {
        pause(REST)?;
        let (begun, before) = (Instant::now(), self.daemon_cpu_time());
        pause(IDLE)?;
        let used = self.daemon_cpu_time().since(before);
        let daemon_cpu = used.as_secs_f64() / begun.elapsed().as_secs_f64();
        self.server.check_alive()?;
        self.service.check_alive()?;
        // Asked only now: an answer costs the daemon some of its time.
        let cores = self.cores()?.cores;
        let cores_idle = cores.iter().filter(|core| core.state == "idle").count();
        let idle = Idle { cores: cores.len(), cores_idle, daemon_cpu };
        self.tell.say(&idle.sentence());
        Ok(idle)
    }

    fn read(&self, batch: Option<&mut BatchJob>) -> Result<Reading, Failure> {
        let cores = self.cores()?;
        let CoreApp { grants, parks, .. } = self.app(&cores)?;
        let batch = batch.map_or(Ok(Nanos::ZERO), BatchJob::cpu_time)?;
        let (at, app) = (Instant::now(), self.service.cpu_time());
        let all = cpu_use::busy(&self.stage.cores);
        Ok(Reading { at, grants: *grants, parks: *parks, app, batch, all })
    }

    fn cores(&self) -> Result<CoresStatus, Failure> {
        let daemon: Daemon = self.server.daemon();
        match daemon.ask(Command::Cores)? {
            ReplyBody::Cores(cores) => Ok(cores),
            other => Err(daemon.unexpected(&other)),
        }
    }

    fn app<'a>(&self, cores: &'a CoresStatus) -> Result<&'a CoreApp, Failure> {
        let found = cores.apps.iter().find(|app| app.name == service::NAME);
        found.ok_or_else(|| Failure::new("the daemon does not know the application any more"))
    }

    fn daemon_cpu_time(&self) -> Nanos {
        let daemon = self.server.pid();
        let mut used = Nanos::ZERO;
        let mut add = |thread: &OtherThread| {
            if thread.pid() == daemon {
                // One that has ended uses no more.
                used += thread.cpu_time().unwrap_or(Nanos::ZERO);
            }
        };
        process_tree::each_thread(std::process::id(), &mut add);
        used
    }
}

impl Step {
    fn sentence(&self) -> String {
        let batch = if self.batch {
            format!(
                "the batch job got {:.0} % of a core, {:.0} % of what was left",
                100.0 * self.batch_cpu,
                100.0 * self.batch_of_rest
            )
        } else {
            "no batch job".to_owned()
        };
        format!(
            "{} requests/s: p50 {:.0} us, p95 {:.0} us, {:.0} grants/s to the application, which \
             used {:.0} % of a core; {batch}",
            self.rate,
            self.load.p50_us,
            self.load.p95_us,
            self.grants_per_s,
            100.0 * self.app_cpu
        )
    }
}

impl Idle {
    pub(super) fn sentence(&self) -> String {
        format!(
            "idle: {} of {} cores held by nobody; the daemon used {:.2} % of a CPU over {} s, the \
             application attached",
            self.cores_idle,
            self.cores,
            100.0 * self.daemon_cpu,
            IDLE.as_secs()
        )
    }
}
