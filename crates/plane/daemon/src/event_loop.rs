//! The loop: one clock read a turn, packets first, operators last.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use base::{Nanos, WorkerId};
use config::{Arrangement, Config};
use datapath::{AttachmentId, Dispatcher, WorkerQueueState};
use policy::Entry;
use port::{AnyPort, Port};
use sys::poll::Waiter;

use crate::admin_socket::error;
use crate::apps::AttachedApps;
use crate::ask::{Answer, Ask, Asker};
use crate::attach_server_counters::AttachServerCounters;
use crate::cores::Cores;
use crate::doorbells::Listener;
use crate::drain::{Drain, Next};
use crate::engine::Engines;
use crate::log;
use crate::outside::Outside;
use crate::pins::Pins;
use crate::port_faults::PortFaults;
use crate::wait::{IdleStep, IdleStrategy};
use crate::worker_pool::WorkerPool;
use crate::workers_wanted::WorkersWanted;

/// Sleep no longer than this, so that a signal that came just before is noticed soon.
const SLEEP_MAX: Nanos = Nanos::from_millis(100);

/// After a stop was asked for, packets under way get this long to leave.
const DRAIN_MAX: Nanos = Nanos::from_millis(500);

/// Entries of an exported table that one turn copies.
const EXPORT_PER_TURN: usize = 4096;

/// A dispatcher with its workers, operators and signals.
pub(crate) struct EventLoop {
    pub(crate) dispatcher: Dispatcher<AnyPort>,
    pub(crate) worker_pool: WorkerPool,
    pub(crate) attached_apps: AttachedApps,
    /// Absent when no core is managed.
    pub(crate) cores: Option<Cores>,
    pub(crate) outside: Outside,
    pub(crate) asked: Receiver<Ask>,
    idle_strategy: IdleStrategy,
    /// Applications with sockets ring here.
    doorbells: Option<Listener>,
    pub(crate) seed: u64,
    pub(crate) config: Config,
    pub(crate) started: Nanos,
    /// Workers that there are to be.
    pub(crate) workers_wanted: WorkersWanted,
    pub(crate) pins: Pins,
    pub(crate) exports: Vec<Export>,
    pub(crate) drain: Drain,
    pub(crate) port_faults: PortFaults,
    /// How far its threads are confined, in the words of `calisto status`.
    pub(crate) confinement: &'static str,
    /// Absent when no application may attach.
    pub(crate) attach_server_counters: Option<Arc<AttachServerCounters>>,
}

/// A table on its way out, a part each turn.
pub(crate) struct Export {
    pub(crate) app: AttachmentId,
    pub(crate) entries: Vec<Entry>,
    pub(crate) asker: Asker,
}

impl EventLoop {
    pub(crate) fn new(
        dispatcher: Dispatcher<AnyPort>,
        worker_pool: WorkerPool,
        attached_apps: AttachedApps,
        cores: Option<Cores>,
        asked: Receiver<Ask>,
        seed: u64,
        config: &Config,
    ) -> Self {
        let idle_strategy = IdleStrategy::new(&config.wait);
        Self {
            dispatcher,
            worker_pool,
            attached_apps,
            cores,
            outside: Outside::default(),
            asked,
            idle_strategy,
            doorbells: None,
            seed,
            workers_wanted: WorkersWanted::new(config.workers.count),
            pins: Pins::default(),
            config: config.clone(),
            started: sys::clock::now(),
            exports: Vec::new(),
            drain: Drain::default(),
            port_faults: PortFaults::default(),
            confinement: "",
            attach_server_counters: None,
        }
    }

    /// Turns until a stop is asked for, then lets everything under way leave.
    pub(crate) fn run(&mut self) {
        sys::thread::set_name("dispatcher");
        if let Some(cpu) = self.config.workers.dispatcher_cpu
            && let Err(error) = sys::thread::pin(usize::from(cpu))
        {
            tracing::warn!(target: log::WORKERS, "the dispatcher runs anywhere: {error}");
        }
        self.doorbells = self.worker_pool.doorbells.listener().ok();
        loop {
            let now = sys::clock::now();
            if self.must_end(now) {
                break;
            }
            self.adjust_worker_pool(now);
            self.carry_out_pins();
            self.evict(now);
            let busy = self.send_connect_probe(now) | self.turn(now) | self.keep_cores(now);
            self.answer_one(now);
            self.note_load(now);
            if self.port_faults.is_due(now) {
                let (ports, pool) = self.dispatcher.ports_and_pool();
                self.port_faults.note(&self.config.ports, ports, pool);
            }
            self.export();
            if busy {
                self.idle_strategy.busy(now);
                if self.worker_pool.is_owed() {
                    // Whoever was told something may wait for this CPU.
                    std::thread::yield_now();
                }
                continue;
            }
            match self.idle_strategy.idle(now) {
                IdleStep::Spin => std::hint::spin_loop(),
                IdleStep::Yield if self.is_beside_a_job() => self.sleep(now),
                IdleStep::Yield
                    if self.worker_pool.serves_sockets() && !self.worker_pool.may_spin() =>
                {
                    self.sleep(now);
                }
                // Nobody here has anything to do for us, so that the CPU would only be lost.
                IdleStep::Yield
                    if self.worker_pool.serves_sockets() && !self.worker_pool.is_owed() =>
                {
                    std::hint::spin_loop();
                }
                IdleStep::Yield => std::thread::yield_now(),
                IdleStep::Sleep => self.sleep(now),
            }
        }
        self.finish();
    }

    /// A connection that is to be opened finds its worker; whether there was one.
    #[inline]
    fn send_connect_probe(&mut self, now: Nanos) -> bool {
        let Some(command_queue) = self.worker_pool.engines().and_then(Engines::command_queue)
        else {
            return false;
        };
        let Some((local, remote)) = command_queue.next_connect_probe() else { return false };
        let is_sent = stack::send_connect_probe(&mut self.dispatcher, local, remote, now);
        if !is_sent {
            command_queue.put_back((local, remote));
        }
        is_sent
    }

    /// Whether a stop was asked for and the sockets of applications are closed, or have had their
    /// time, or nobody wants to wait for them: a second request hurries.
    fn must_end(&mut self, now: Nanos) -> bool {
        let asked = self.stops_asked();
        if asked == 0 {
            return false;
        }
        if !self.worker_pool.engines().is_some_and(Engines::has_sockets) {
            return true;
        }
        let length = self.drain_length();
        let attached_apps = &mut self.attached_apps;
        let is_handed_over = attached_apps.is_handed_over();
        let are_closed = || attached_apps.are_sockets_closed();
        let next = self.drain.next(asked, now, length, is_handed_over, are_closed);
        if next == Next::Begin {
            tracing::info!(
                target: log::WORKERS,
                "ending: the kernel takes over the connections of programs, and what it cannot go on \
                 with has {length} to close; a second SIGTERM or `calisto down` ends without waiting"
            );
            attached_apps.drain_attach_server();
        }
        next == Next::End
    }

    /// Whether whoever is given the CPU by a yield may be a batch job.
    fn is_beside_a_job(&self) -> bool {
        let cores = self.cores.as_ref();
        cores.is_some_and(|cores| cores.allocator.is_shared_with_a_job(sys::thread::current_cpu()))
    }

    /// One turn of dispatcher and fused workers; whether there was anything to do.
    #[inline]
    fn turn(&mut self, now: Nanos) -> bool {
        if self.config.workers.arrangement == Arrangement::Threads {
            return !self.dispatcher.step(now).is_idle();
        }
        let mut moved = self.dispatcher.receive(now);
        for (_, worker) in &mut self.worker_pool.fused {
            let step = worker.step(now);
            moved += step.messages + usize::from(step.has_acted);
        }
        let (messages, sent) = self.dispatcher.transmit(now);
        self.dispatcher.control(now);
        let idle = moved + messages + sent == 0;
        self.dispatcher.count_step(idle);
        !idle
    }

    /// Sleeps until a port, a worker or an operator has something, or something is due.
    fn sleep(&mut self, now: Nanos) {
        self.worker_pool.alarm.doorbell.arm();
        self.dispatcher.arm_apps();
        let may_sleep = self.worker_pool.arm();
        let (ports, pool) = self.dispatcher.ports_and_pool();
        for dispatcher_port in ports.iter_mut() {
            dispatcher_port.port_mut().prepare_wait(pool);
        }
        // Once more, now that nobody can slip something in unheard: a question that came just
        // before the doorbell was armed has rung nothing.
        let asked = self.answer_one(now) | self.send_connect_probe(now);
        let busy = self.turn(now) || asked || !may_sleep || self.dispatcher.has_work();
        // The turn may have called a worker that must be granted a core.
        let is_called = self.cores.as_ref().is_some_and(|cores| cores.allocator.has_work());
        if !busy && !is_called && self.exports.is_empty() {
            let allocator = self.cores.as_ref().map(|cores| &cores.allocator);
            let cores =
                allocator.map_or(Nanos::FAR_FUTURE, |of| of.next_deadline(&self.dispatcher));
            let due =
                self.dispatcher.next_deadline().min(self.attached_apps.unmute(now)).min(cores);
            let due = due.min(self.worker_pool.next_deadline());
            let timeout = due.since(now).min(SLEEP_MAX);
            let mut waiter = Waiter::new();
            let eventfd = &self.worker_pool.alarm.eventfd;
            let mut all = waiter.add(eventfd.as_fd()) && waiter.add(self.attached_apps.as_fd());
            if let Some(doorbells) = &self.doorbells {
                all &= waiter.add(doorbells.as_fd());
            }
            for dispatcher_port in self.dispatcher.ports() {
                if let Some(fd) = dispatcher_port.port().poll_fd() {
                    all &= waiter.add(fd);
                }
            }
            // With more descriptors than fit, the others are looked at after a millisecond.
            waiter.wait(if all { timeout } else { timeout.min(Nanos::from_millis(1)) });
            eventfd.drain();
            if let Some(doorbells) = &self.doorbells {
                doorbells.drain();
            }
            let (dispatcher, cores) = (&self.dispatcher, &self.cores);
            let has_spoken = |app| cores.as_ref().is_some_and(|of| of.allocator.has_spoken(app));
            self.attached_apps.heard(sys::clock::now(), |app| {
                let has_messages = datapath::Steering::has_messages;
                dispatcher.steering_of(app).is_some_and(has_messages) || has_spoken(app)
            });
        }
        self.dispatcher.disarm_apps();
        self.worker_pool.disarm();
        self.worker_pool.alarm.doorbell.disarm();
    }

    /// Spawns and retires workers until there are as many workers as there are to be.
    fn adjust_worker_pool(&mut self, now: Nanos) {
        self.count_worker_pool(now);
        self.core_grant_worker_pool(now);
    }

    /// The own workers that came are kept from now on, and those that went no more.
    fn core_grant_worker_pool(&mut self, now: Nanos) {
        let Some(cores) = &mut self.cores else { return };
        let Some(new) = self.worker_pool.take_change() else { return };
        let worker_pool = &self.worker_pool;
        let renewed = cores.renew_own(
            new,
            |worker| worker_pool.has_thread(worker),
            now,
            &mut self.dispatcher,
        );
        if let Err(refused) = renewed {
            tracing::warn!(target: log::WORKERS, "the own workers get no cores: {refused}");
        }
    }

    fn count_worker_pool(&mut self, now: Nanos) {
        for worker in self.dispatcher.steering_mut().take_retired() {
            self.worker_pool.join(worker);
        }
        while let Some((worker, remains)) = self.worker_pool.next_death() {
            self.dispatcher.worker_died(worker, remains, now);
        }
        let wanted = usize::from(self.workers_wanted.count);
        if self.dispatcher.steering().control().workers().active().len() == wanted {
            return;
        }
        let workers = self.dispatcher.steering().workers();
        let here = |state: WorkerQueueState| {
            matches!(state, WorkerQueueState::Active | WorkerQueueState::Resting)
        };
        if workers.filter(|&(_, state, _)| here(state)).count() == wanted {
            return;
        }
        let workers = self.dispatcher.steering().workers();
        let mut active: Vec<WorkerId> = Vec::new();
        let mut leaving: Vec<WorkerId> = Vec::new();
        for (id, state, _) in workers {
            match state {
                WorkerQueueState::Active | WorkerQueueState::Resting => active.push(id),
                WorkerQueueState::Leaving => leaving.push(id),
                WorkerQueueState::Retiring => {}
            }
        }
        while active.len() > wanted {
            let Some(last) = active.pop() else { break };
            self.dispatcher.steering_mut().remove_worker(last);
        }
        for id in leaving.into_iter().take(wanted.saturating_sub(active.len())) {
            if self.dispatcher.steering_mut().keep_worker(id) {
                active.push(id);
            }
        }
        for _ in active.len()..wanted {
            if let Err(why) = self.worker_pool.spawn(&mut self.dispatcher) {
                tracing::warn!(target: log::WORKERS, "{why}; going on with fewer workers");
                self.workers_wanted.do_with(active.len().max(1) as u16);
                break;
            }
        }
    }

    /// Answers a question, if there is one: one a turn, because an operator with a script must
    /// not hold up packets. Whether there was.
    fn answer_one(&mut self, now: Nanos) -> bool {
        let asked = self.asked.try_recv();
        let was_asked = asked.is_ok();
        if let Ok(ask) = asked {
            self.answer(ask, now);
        }
        was_asked
    }

    fn export(&mut self) {
        let Some(export) = self.exports.first_mut() else { return };
        let Some(steering) = self.dispatcher.steering_of(export.app) else {
            let Export { asker, .. } = self.exports.remove(0);
            return asker.reply(error("it has just gone"));
        };
        let table = steering.table();
        let groups = table.groups() as usize;
        let from = export.entries.len();
        let to = (from + EXPORT_PER_TURN).min(groups);
        export.entries.extend_from_slice(&table.entries()[from..to]);
        if to == groups {
            let Export { entries, asker, .. } = self.exports.remove(0);
            asker.answer(Answer::Table(entries));
        }
    }

    /// No new packets; those under way leave, then the threads end and the ports close.
    fn finish(&mut self) {
        let began = sys::clock::now();
        self.worker_pool.close();
        loop {
            let now = sys::clock::now();
            let queued: usize =
                self.dispatcher.steering().workers().map(|(.., queued)| queued).sum();
            for (_, worker) in &mut self.worker_pool.fused {
                worker.step(now);
            }
            self.dispatcher.transmit(now);
            self.dispatcher.control(now);
            let empty = queued == 0
                && self.worker_pool.is_closed()
                && self.dispatcher.steering().held() == 0
                && !self.dispatcher.has_work();
            if empty || now.since(began) > DRAIN_MAX {
                break;
            }
            std::thread::yield_now();
        }
        self.worker_pool.stop();
        self.detach_all(began);
        self.dispatcher.transmit(sys::clock::now());
        self.dispatcher.close();
    }
}
