//! The workers' threads: spawned, pinned, woken, and joined when they end.
//!
//! In the fused arrangement the workers live in the dispatcher's loop and have no thread.

mod thread;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use base::{Nanos, WorkerId};
use config::{Arrangement, Config, Job};
use datapath::cores::{Call, GrantedWorker};
use datapath::{Dispatcher, Echo, Remains, Sink, Synthetic, SyntheticState, Wake, Worker};
use port::AnyPort;
use shm::Doorbell;
use stack::BuiltIn;
use sys::eventfd::EventFd;

use self::thread::{GrantSide, IdleTime, Parker, WorkerThread};
use crate::alarm::Alarm;
use crate::doorbells::Doorbells;
use crate::engine::Engines;
use crate::wait::IdleStrategy;

/// What every worker is.
#[derive(Clone, Debug)]
pub(crate) struct WorkerPoolConfig {
    job: Job,
    pub(crate) arrangement: Arrangement,
    cpus: Vec<u16>,
    state: SyntheticState,
    engines: Option<Engines>,
    idle_strategy: IdleStrategy,
}

impl WorkerPoolConfig {
    /// `engines` are there when the job needs them.
    pub(crate) fn new(config: &Config, state: SyntheticState, engines: Option<Engines>) -> Self {
        Self {
            job: config.job(),
            arrangement: config.workers.arrangement,
            cpus: config.workers.cpus.clone(),
            state,
            engines,
            idle_strategy: IdleStrategy::new(&config.wait),
        }
    }

    /// The CPU of a worker, if it has one.
    pub(crate) fn cpu(&self, worker: WorkerId) -> Option<u16> {
        if self.arrangement == Arrangement::Fused || self.cpus.is_empty() {
            return None;
        }
        Some(self.cpus[worker.index() % self.cpus.len()])
    }

    /// The job of one more worker.
    fn job(
        &self,
        worker: WorkerId,
        dispatcher: &mut Dispatcher<AnyPort>,
    ) -> Result<BuiltIn, String> {
        match self.job {
            Job::Auto | Job::Echo => Ok(BuiltIn::Echo(Echo)),
            Job::Sink => Ok(BuiltIn::Sink(Sink)),
            Job::Synthetic => Ok(BuiltIn::Synthetic(Synthetic::new(self.state.clone()))),
            Job::Sockets | Job::TcpEcho | Job::TcpDiscard | Job::TcpChargen => {
                let engines = self.engines.as_ref().ok_or("there is no TCP engine")?;
                let stream = engines.stream(worker, dispatcher, sys::clock::now())?;
                Ok(BuiltIn::SocketJob(Box::new(stream)))
            }
        }
    }
}

/// The workers, wherever they run.
pub(crate) struct WorkerPool {
    config: WorkerPoolConfig,
    pub(crate) alarm: Alarm,
    /// By which applications with sockets wake workers.
    pub(crate) doorbells: Doorbells,
    /// Workers that run in the dispatcher's loop.
    pub(crate) fused: Vec<(WorkerId, Worker<BuiltIn>)>,
    threads: Vec<(WorkerId, JoinHandle<()>)>,
    stop: Arc<AtomicBool>,
    /// Workers are to close their connections.
    closing: Arc<AtomicBool>,
    /// Threads whose workers have.
    closed: Arc<AtomicUsize>,
    /// To make calls from, when the workers run on granted cores.
    call: Option<Call>,
    /// Workers that are not kept yet.
    granted: Vec<GrantedWorker>,
    /// Threads have come or gone.
    has_changed: bool,
    deaths: Receiver<(WorkerId, Remains)>,
    death_notices: Sender<(WorkerId, Remains)>,
}

impl WorkerPool {
    pub(crate) fn new(config: WorkerPoolConfig, alarm: Alarm, call: Option<Call>) -> Self {
        let (death_notices, deaths) = channel();
        Self {
            config,
            alarm,
            doorbells: Doorbells::default(),
            fused: Vec::new(),
            threads: Vec::new(),
            stop: Arc::new(AtomicBool::new(false)),
            closing: Arc::new(AtomicBool::new(false)),
            closed: Arc::new(AtomicUsize::new(0)),
            call,
            granted: Vec::new(),
            has_changed: false,
            deaths,
            death_notices,
        }
    }

    pub(crate) fn config(&self) -> &WorkerPoolConfig {
        &self.config
    }

    /// The TCP engines, if the workers have any.
    pub(crate) fn engines(&self) -> Option<&Engines> {
        self.config.engines.as_ref()
    }

    /// No more packets come: every worker is to say good-bye.
    pub(crate) fn close(&mut self) {
        self.closing.store(true, Ordering::Release);
        for (_, worker) in &mut self.fused {
            worker.close();
        }
        self.unpark_all();
    }

    /// Whether every worker has said good-bye.
    pub(crate) fn is_closed(&self) -> bool {
        let now = sys::clock::now();
        self.fused.iter().all(|(_, worker)| !worker.has_work(now))
            && self.closed.load(Ordering::Acquire) >= self.threads.len()
    }

    /// The loop is about to sleep; false: a worker in it has something to do.
    pub(crate) fn arm(&self) -> bool {
        self.fused.iter().fold(true, |may_sleep, (_, worker)| worker.arm() && may_sleep)
    }

    /// The loop is awake.
    pub(crate) fn disarm(&self) {
        self.fused.iter().for_each(|(_, worker)| worker.disarm());
    }

    /// Whether the loop may wait on a CPU for more to do.
    pub(crate) fn may_spin(&self) -> bool {
        self.fused.iter().any(|(_, worker)| worker.may_spin())
    }

    /// Whether an application on this machine owes an answer to what a worker in the loop has told
    /// it.
    pub(crate) fn is_owed(&self) -> bool {
        self.fused.iter().any(|(_, worker)| worker.owed_since().is_some())
    }

    /// Whether the workers in the loop serve sockets of applications.
    pub(crate) fn serves_sockets(&self) -> bool {
        self.engines().is_some_and(Engines::has_sockets) && !self.fused.is_empty()
    }

    /// When a worker in the dispatcher's loop is due although nothing arrives.
    pub(crate) fn next_deadline(&self) -> Nanos {
        let dues = self.fused.iter().map(|(_, worker)| worker.next_deadline());
        dues.min().unwrap_or(Nanos::FAR_FUTURE)
    }

    /// One more worker; what went wrong, if it cannot be.
    pub(crate) fn spawn(&mut self, dispatcher: &mut Dispatcher<AnyPort>) -> Result<(), String> {
        if self.config.arrangement == Arrangement::Fused {
            let doorbell = Arc::new(Doorbell::new());
            // It never sleeps apart from the loop, so nobody ever needs to wake it.
            let wake: Wake = Arc::new(|| ());
            let new = dispatcher.add_worker(doorbell, wake).ok_or("every worker id is in use")?;
            let id = new.id;
            let job = self.config.job(id, dispatcher)?;
            self.fused.push((id, new.employ(job)));
            return Ok(());
        }
        let doorbell = Arc::new(Doorbell::new());
        // The thread is started before the dispatcher knows it, so that it can be woken from the
        // first packet on; it waits for its worker at the end of a channel.
        let (employ, employed) = channel::<(WorkerId, Worker<BuiltIn>)>();
        let (control, core_grant) = shm::core_grant::core_grant();
        let call = self.call.as_ref().map(Call::another);
        let (parker, eventfd) = self.parker()?;
        let worker_thread = WorkerThread {
            doorbell: Arc::clone(&doorbell),
            alarm: self.alarm.clone(),
            stop: Arc::clone(&self.stop),
            closing: Arc::clone(&self.closing),
            closed: Arc::clone(&self.closed),
            parker,
            idle_strategy: self.config.idle_strategy.clone(),
            death_notices: self.death_notices.clone(),
            cpus: if call.is_some() { Vec::new() } else { self.config.cpus.clone() },
            grant_side: call.clone().map(|call| GrantSide {
                core_grant,
                call,
                idle: IdleTime::default(),
            }),
        };
        let thread = std::thread::Builder::new()
            .spawn(move || {
                if let Ok((id, worker)) = employed.recv() {
                    worker_thread.work(id, worker);
                }
            })
            .map_err(|error| format!("cannot start a worker thread: {error}"))?;
        let sleeper = thread.thread().clone();
        let wake: Wake = match eventfd {
            Some(eventfd) => Arc::new(move || eventfd.ring()),
            None => Arc::new(move || sleeper.unpark()),
        };
        let called = call.as_ref().map_or_else(|| Arc::clone(&wake), |call| call.over(&wake));
        let new = dispatcher.add_worker(doorbell, called).ok_or("every worker id is in use")?;
        let id = new.id;
        if let Some(call) = call {
            self.granted.push(GrantedWorker { worker: id, core_grant: control, wake, call });
        }
        let job = self.config.job(id, dispatcher)?;
        let sent = employ.send((id, new.employ(job)));
        debug_assert!(sent.is_ok(), "the thread waits for just this");
        self.threads.push((id, thread));
        self.has_changed = true;
        Ok(())
    }

    /// How a worker's thread sleeps, and what wakes it if that is not its own unparking: who serves
    /// sockets is woken by applications too.
    fn parker(&self) -> Result<(Parker, Option<Arc<EventFd>>), String> {
        if !self.engines().is_some_and(Engines::has_sockets) {
            return Ok((Parker::Parked, None));
        }
        let failed =
            |error: &dyn std::fmt::Display| format!("cannot create a worker's eventfd: {error}");
        let eventfd = Arc::new(EventFd::new().map_err(|error| failed(&error))?);
        let doorbells = self.doorbells.listener().map_err(|error| failed(&error))?;
        Ok((Parker::Listening { eventfd: Arc::clone(&eventfd), doorbells }, Some(eventfd)))
    }

    /// When workers have come or gone since the last call: those that came and are to be kept.
    pub(crate) fn take_change(&mut self) -> Option<Vec<GrantedWorker>> {
        std::mem::take(&mut self.has_changed).then(|| std::mem::take(&mut self.granted))
    }

    /// Whether the worker has a thread.
    pub(crate) fn has_thread(&self, worker: WorkerId) -> bool {
        self.threads.iter().any(|(id, _)| *id == worker)
    }

    /// Workers that ended without being asked to.
    pub(crate) fn next_death(&mut self) -> Option<(WorkerId, Remains)> {
        let (id, remains) = self.deaths.try_recv().ok()?;
        self.join(id);
        Some((id, remains))
    }

    /// A worker has ended.
    pub(crate) fn join(&mut self, worker: WorkerId) {
        self.fused.retain(|(id, _)| *id != worker);
        if let Some(at) = self.threads.iter().position(|(id, _)| *id == worker) {
            let (_, thread) = self.threads.swap_remove(at);
            self.has_changed = true;
            // It has said its last word already, so this does not wait for work.
            let _ = thread.join();
        }
    }

    /// Wakes threads that sleep until they are unparked; the others look up a few times a second.
    fn unpark_all(&self) {
        self.threads.iter().for_each(|(_, thread)| thread.thread().unpark());
    }

    /// Ends every thread.
    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.unpark_all();
        for (_, thread) in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.fused.clear();
    }
}
