//! The workers' threads: hired, pinned, woken, and missed when they die.
//!
//! In the fused arrangement the workers live in the dispatcher's loop and have no thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use base::{Nanos, WorkerId};
use config::{Arrangement, Config, Job};
use datapath::cores::{Call, Seated};
use datapath::{BuiltIn, Dispatcher, Echo, Remains, Sink, Synthetic, SyntheticState, Wake, Worker};
use port::AnyPort;
use shm::{Doorbell, Seat, Told};
use sys::eventfd::EventFd;

use crate::engine::Engines;
use crate::log;
use crate::wait::{Ladder, Rung};

/// Wakes the dispatcher's loop from another thread.
#[derive(Clone, Debug)]
pub(crate) struct Alarm {
    pub(crate) bell: Arc<Doorbell>,
    pub(crate) eventfd: Arc<EventFd>,
}

impl Alarm {
    pub(crate) fn new(eventfd: EventFd) -> Self {
        Self { bell: Arc::new(Doorbell::new()), eventfd: Arc::new(eventfd) }
    }

    /// Something was published for the loop.
    #[inline]
    pub(crate) fn ring(&self) {
        if self.bell.ring() {
            self.eventfd.ring();
        }
    }
}

/// What every worker is.
#[derive(Clone, Debug)]
pub(crate) struct StaffConfig {
    job: Job,
    pub(crate) arrangement: Arrangement,
    cpus: Vec<u16>,
    state: SyntheticState,
    engines: Option<Engines>,
    ladder: Ladder,
}

impl StaffConfig {
    /// `engines` are there when the job needs them.
    pub(crate) fn new(config: &Config, state: SyntheticState, engines: Option<Engines>) -> Self {
        Self {
            job: config.workers.job,
            arrangement: config.workers.arrangement,
            cpus: config.workers.cpus.clone(),
            state,
            engines,
            ladder: Ladder::new(&config.wait),
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
            Job::Echo => Ok(BuiltIn::Echo(Echo)),
            Job::Sink => Ok(BuiltIn::Sink(Sink)),
            Job::Synthetic => Ok(BuiltIn::Synthetic(Synthetic::new(self.state.clone()))),
            Job::TcpEcho | Job::TcpDiscard | Job::TcpChargen => {
                let engines = self.engines.as_ref().ok_or("there is no TCP engine")?;
                let stream = engines.stream(worker, dispatcher, sys::clock::now())?;
                Ok(BuiltIn::Stream(Box::new(stream)))
            }
        }
    }
}

/// The workers, wherever they run.
pub(crate) struct Staff {
    config: StaffConfig,
    pub(crate) alarm: Alarm,
    /// Workers that run in the dispatcher's loop.
    pub(crate) fused: Vec<(WorkerId, Worker<BuiltIn>)>,
    threads: Vec<(WorkerId, JoinHandle<()>)>,
    stop: Arc<AtomicBool>,
    /// Workers are to say good-bye.
    closing: Arc<AtomicBool>,
    /// Threads whose workers have.
    closed: Arc<AtomicUsize>,
    /// To make calls from, when the workers run on granted cores.
    call: Option<Call>,
    /// Workers that are not kept yet.
    seated: Vec<Seated>,
    /// Threads have come or gone.
    has_changed: bool,
    deaths: Receiver<(WorkerId, Remains)>,
    death_notices: Sender<(WorkerId, Remains)>,
}

impl Staff {
    pub(crate) fn new(config: StaffConfig, alarm: Alarm, call: Option<Call>) -> Self {
        let (death_notices, deaths) = channel();
        Self {
            config,
            alarm,
            fused: Vec::new(),
            threads: Vec::new(),
            stop: Arc::new(AtomicBool::new(false)),
            closing: Arc::new(AtomicBool::new(false)),
            closed: Arc::new(AtomicUsize::new(0)),
            call,
            seated: Vec::new(),
            has_changed: false,
            deaths,
            death_notices,
        }
    }

    pub(crate) fn config(&self) -> &StaffConfig {
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
        for (_, thread) in &self.threads {
            thread.thread().unpark();
        }
    }

    /// Whether every worker has said good-bye.
    pub(crate) fn is_closed(&self) -> bool {
        let now = sys::clock::now();
        self.fused.iter().all(|(_, worker)| !worker.has_work(now))
            && self.closed.load(Ordering::Acquire) >= self.threads.len()
    }

    /// When a worker in the dispatcher's loop is due although nothing arrives.
    pub(crate) fn next_deadline(&self) -> Nanos {
        let dues = self.fused.iter().map(|(_, worker)| worker.next_deadline());
        dues.min().unwrap_or(Nanos::FAR_FUTURE)
    }

    /// One more worker; what went wrong, if it cannot be.
    pub(crate) fn hire(&mut self, dispatcher: &mut Dispatcher<AnyPort>) -> Result<(), String> {
        if self.config.arrangement == Arrangement::Fused {
            let bell = Arc::new(Doorbell::new());
            // It never sleeps apart from the loop, so nobody ever needs to wake it.
            let wake: Wake = Arc::new(|| ());
            let new = dispatcher.add_worker(bell, wake).ok_or("every worker id is in use")?;
            let id = new.id;
            let job = self.config.job(id, dispatcher)?;
            self.fused.push((id, new.employ(job)));
            return Ok(());
        }
        let bell = Arc::new(Doorbell::new());
        // The thread is started before the dispatcher knows it, so that it can be woken from the
        // first packet on; it waits for its worker at the end of a channel.
        let (employ, employed) = channel::<(WorkerId, Worker<BuiltIn>)>();
        let (control, seat) = shm::seat::seat();
        let call = self.call.as_ref().map(Call::another);
        let desk = Desk {
            bell: Arc::clone(&bell),
            alarm: self.alarm.clone(),
            stop: Arc::clone(&self.stop),
            closing: Arc::clone(&self.closing),
            closed: Arc::clone(&self.closed),
            ladder: self.config.ladder.clone(),
            death_notices: self.death_notices.clone(),
            cpus: if call.is_some() { Vec::new() } else { self.config.cpus.clone() },
            seating: call.clone().map(|call| Seating { seat, call }),
        };
        let thread = std::thread::Builder::new()
            .spawn(move || {
                if let Ok((id, worker)) = employed.recv() {
                    desk.work(id, worker);
                }
            })
            .map_err(|error| format!("cannot start a worker thread: {error}"))?;
        let sleeper = thread.thread().clone();
        let wake: Wake = Arc::new(move || sleeper.unpark());
        let called = call.as_ref().map_or_else(|| Arc::clone(&wake), |call| call.over(&wake));
        let new = dispatcher.add_worker(bell, called).ok_or("every worker id is in use")?;
        let id = new.id;
        if let Some(call) = call {
            self.seated.push(Seated { worker: id, seat: control, wake, call });
        }
        let job = self.config.job(id, dispatcher)?;
        let sent = employ.send((id, new.employ(job)));
        debug_assert!(sent.is_ok(), "the thread waits for just this");
        self.threads.push((id, thread));
        self.has_changed = true;
        Ok(())
    }

    /// When workers have come or gone since the last call: those that came and are to be kept.
    pub(crate) fn take_change(&mut self) -> Option<Vec<Seated>> {
        std::mem::take(&mut self.has_changed).then(|| std::mem::take(&mut self.seated))
    }

    /// Whether the worker has a thread.
    pub(crate) fn has_thread(&self, worker: WorkerId) -> bool {
        self.threads.iter().any(|(id, _)| *id == worker)
    }

    /// Workers that ended without being asked to.
    pub(crate) fn next_death(&mut self) -> Option<(WorkerId, Remains)> {
        let (id, remains) = self.deaths.try_recv().ok()?;
        self.dismiss(id);
        Some((id, remains))
    }

    /// A worker has ended.
    pub(crate) fn dismiss(&mut self, worker: WorkerId) {
        self.fused.retain(|(id, _)| *id != worker);
        if let Some(at) = self.threads.iter().position(|(id, _)| *id == worker) {
            let (_, thread) = self.threads.swap_remove(at);
            self.has_changed = true;
            // It has said its last word already, so this does not wait for work.
            let _ = thread.join();
        }
    }

    /// Ends every thread.
    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for (_, thread) in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
        self.fused.clear();
    }
}

/// What a worker's thread needs beside the worker.
struct Desk {
    bell: Arc<Doorbell>,
    alarm: Alarm,
    stop: Arc<AtomicBool>,
    closing: Arc<AtomicBool>,
    closed: Arc<AtomicUsize>,
    ladder: Ladder,
    death_notices: Sender<(WorkerId, Remains)>,
    cpus: Vec<u16>,
    /// Of a worker that runs on granted cores.
    seating: Option<Seating>,
}

impl Desk {
    fn work(mut self, id: WorkerId, mut worker: Worker<BuiltIn>) {
        sys::thread::set_name(&format!("worker-{id}"));
        if !self.cpus.is_empty() {
            let cpu = self.cpus[id.index() % self.cpus.len()];
            if let Err(error) = sys::thread::pin(usize::from(cpu)) {
                log::warn(format!("worker {id} runs anywhere: {error}"));
            }
        }
        let life = catch_unwind(AssertUnwindSafe(|| self.turns(&mut worker)));
        if life.is_err() {
            log::warn(format!("worker {id} died; its packets go to others"));
            let _ = self.death_notices.send((id, worker.into_remains()));
        }
        // The last message (or the notice) must not wait for a packet to be noticed.
        self.alarm.ring();
    }

    fn turns(&mut self, worker: &mut Worker<BuiltIn>) {
        if let Some(seating) = &mut self.seating {
            seating.seat.note_thread(sys::thread::tid());
        }
        let mut farewell = Farewell::No;
        loop {
            let now = sys::clock::now();
            if farewell == Farewell::No && self.closing.load(Ordering::Acquire) {
                worker.close();
                farewell = Farewell::Saying;
            }
            if farewell != Farewell::Saying && self.seating.as_mut().is_some_and(Seating::must_park)
            {
                self.bell.arm();
                // What came before the bell was armed has called nobody.
                self.park(worker.has_work(now), worker.next_deadline().since(now));
                if self.stop.load(Ordering::Acquire) {
                    return;
                }
                continue;
            }
            let step = worker.step(now);
            if step.messages > 0 || step.has_acted {
                self.ladder.busy(now);
                self.alarm.ring();
                if step.retired {
                    return;
                }
                continue;
            }
            if farewell == Farewell::Saying && !worker.has_work(now) {
                farewell = Farewell::Said;
                self.closed.fetch_add(1, Ordering::Release);
            }
            match self.ladder.idle(now) {
                Rung::Spin => std::hint::spin_loop(),
                Rung::Yield => std::thread::yield_now(),
                Rung::Sleep => {
                    self.bell.arm();
                    if worker.has_work(now) || self.stop.load(Ordering::Acquire) {
                        self.bell.disarm();
                    } else {
                        self.park(false, worker.next_deadline().since(now));
                    }
                }
            }
            if self.stop.load(Ordering::Acquire) {
                return;
            }
        }
    }

    /// Sleeps, its bell armed; a worker on granted cores gives its core back first, and says so when
    /// it has something to do all the same.
    fn park(&mut self, has_work: bool, at_most: Nanos) {
        if let Some(seating) = &mut self.seating
            && seating.say_parked(has_work)
        {
            self.alarm.ring();
        }
        // Bounded, so that a stop that came in between is noticed.
        std::thread::park_timeout(Duration::from_nanos(at_most.0).min(Duration::from_millis(100)));
        self.bell.disarm();
    }
}

/// How far a worker is with its good-byes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Farewell {
    No,
    Saying,
    Said,
}

/// A worker's side of the core control.
struct Seating {
    seat: Seat,
    call: Call,
}

impl Seating {
    fn must_park(&mut self) -> bool {
        match self.seat.look() {
            Told::Run(_) => {
                self.seat.run();
                false
            }
            Told::Drain => false,
            Told::Park(_) | Told::Nothing => true,
        }
    }

    /// Whether that is news.
    fn say_parked(&mut self, has_work: bool) -> bool {
        if has_work {
            self.seat.want();
        } else if self.seat.has_left() {
            return false;
        } else {
            self.seat.park();
        }
        self.call.spoke();
        true
    }
}
