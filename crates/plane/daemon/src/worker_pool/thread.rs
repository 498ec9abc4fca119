//! A worker's thread: its turns, how it sleeps, and how it ends.

use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use base::{Nanos, WorkerId};
use datapath::cores::Call;
use datapath::{Remains, Worker};
use shm::core_grant::CoreGrantTasks;
use shm::{CoreCommand, CoreGrant, Doorbell};
use stack::BuiltIn;
use sys::eventfd::EventFd;
use sys::poll::Waiter;

use crate::alarm::Alarm;
use crate::confinement::{self, Role};
use crate::doorbells::Listener;
use crate::log;
use crate::wait::{IdleStep, IdleStrategy};

/// What a worker's thread needs beside the worker.
pub(super) struct WorkerThread {
    pub(super) doorbell: Arc<Doorbell>,
    pub(super) alarm: Alarm,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) closing: Arc<AtomicBool>,
    pub(super) closed: Arc<AtomicUsize>,
    pub(super) parker: Parker,
    pub(super) idle_strategy: IdleStrategy,
    pub(super) death_notices: Sender<(WorkerId, Remains)>,
    pub(super) cpus: Vec<u16>,
    /// Of a worker that runs on granted cores.
    pub(super) grant_side: Option<GrantSide>,
}

impl WorkerThread {
    pub(super) fn work(mut self, id: WorkerId, mut worker: Worker<BuiltIn>) {
        sys::thread::set_name(&format!("worker-{id}"));
        if !self.cpus.is_empty() {
            let cpu = self.cpus[id.index() % self.cpus.len()];
            if let Err(error) = sys::thread::pin(usize::from(cpu)) {
                tracing::warn!(target: log::WORKERS, worker = id.0, "it runs anywhere: {error}");
            }
        }
        // Its CPU is chosen: nothing else needs a right.
        let may_go_on = confinement::is_entered(Role::Worker);
        let life = catch_unwind(AssertUnwindSafe(|| may_go_on.then(|| self.turns(&mut worker))));
        if !matches!(life, Ok(Some(()))) {
            tracing::warn!(target: log::WORKERS, worker = id.0, "it died; its packets go to others");
            let _ = self.death_notices.send((id, worker.into_remains()));
        }
        // The last message (or the notice) must not wait for a packet to be noticed.
        self.alarm.ring();
    }

    fn turns(&mut self, worker: &mut Worker<BuiltIn>) {
        if let Some(grant_side) = &mut self.grant_side {
            grant_side.core_grant.note_thread(sys::thread::tid());
        }
        let mut closing = Closing::No;
        loop {
            let now = sys::clock::now();
            if closing == Closing::No && self.closing.load(Ordering::Acquire) {
                worker.close();
                closing = Closing::Draining;
            }
            if closing != Closing::Draining
                && self.grant_side.as_mut().is_some_and(GrantSide::must_park)
            {
                self.doorbell.arm();
                // What came before the doorbell was armed has called nobody.
                let has_work = !worker.arm() || worker.has_work(now);
                self.park(has_work, worker.next_deadline().since(now));
                worker.disarm();
                if self.stop.load(Ordering::Acquire) {
                    return;
                }
                continue;
            }
            let step = worker.step(now);
            let is_idle = step.messages == 0 && !step.has_acted;
            if let Some(grant_side) = &mut self.grant_side {
                grant_side.note_idle(is_idle, now);
            }
            if !is_idle {
                self.idle_strategy.busy(now);
                self.alarm.ring();
                if step.retired {
                    return;
                }
                continue;
            }
            if closing == Closing::Draining && !worker.has_work(now) {
                closing = Closing::Done;
                self.closed.fetch_add(1, Ordering::Release);
            }
            match self.idle_strategy.idle(now) {
                IdleStep::Spin => std::hint::spin_loop(),
                IdleStep::Yield if worker.may_spin() => std::thread::yield_now(),
                IdleStep::Yield | IdleStep::Sleep => {
                    self.doorbell.arm();
                    let may_sleep = worker.arm();
                    if !may_sleep || worker.has_work(now) || self.stop.load(Ordering::Acquire) {
                        self.doorbell.disarm();
                    } else {
                        self.park(false, worker.next_deadline().since(now));
                    }
                    worker.disarm();
                }
            }
            if self.stop.load(Ordering::Acquire) {
                return;
            }
        }
    }

    /// Sleeps, its doorbell armed; a worker on granted cores gives its core back first, and says so
    /// when it has something to do all the same.
    fn park(&mut self, has_work: bool, at_most: Nanos) {
        if let Some(grant_side) = &mut self.grant_side
            && grant_side.say_parked(has_work)
        {
            self.alarm.ring();
        }
        // Bounded, so that a stop that came in between is noticed.
        self.parker.sleep(at_most.min(Nanos::from_millis(100)));
        self.doorbell.disarm();
    }
}

/// How a worker's thread sleeps.
pub(super) enum Parker {
    /// Until it is unparked.
    Parked,
    /// Until somebody rings: the dispatcher, or an application.
    Listening { eventfd: Arc<EventFd>, doorbells: Listener },
}

impl Parker {
    fn sleep(&self, at_most: Nanos) {
        match self {
            Self::Parked => std::thread::park_timeout(Duration::from_nanos(at_most.0)),
            Self::Listening { eventfd, doorbells } => {
                let mut waiter = Waiter::new();
                let has_room = waiter.add(eventfd.as_fd()) && waiter.add(doorbells.as_fd());
                debug_assert!(has_room, "two fit");
                waiter.wait(at_most);
                eventfd.drain();
                doorbells.drain();
            }
        }
    }
}

/// How far a worker is with closing its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    Draining,
    Done,
}

/// A worker's side of the core control.
pub(super) struct GrantSide {
    pub(super) core_grant: CoreGrant,
    pub(super) call: Call,
    pub(super) idle: IdleTime,
}

/// How long a worker that holds a core has found nothing to do.
#[derive(Default)]
pub(super) struct IdleTime {
    all: Nanos,
    since: Option<Nanos>,
}

impl GrantSide {
    /// A turn has found something to do, or nothing: by that the core control knows which
    /// application could do with fewer cores. Between two turns with work nothing is written.
    #[inline]
    fn note_idle(&mut self, is_idle: bool, now: Nanos) {
        let IdleTime { all, since } = &mut self.idle;
        let Some(began) = (if is_idle { Some(*since.get_or_insert(now)) } else { since.take() })
        else {
            return;
        };
        let idle = *all + now.since(began);
        if !is_idle {
            *all = idle;
        }
        self.core_grant.note(CoreGrantTasks { idle_ns: idle.0, ..CoreGrantTasks::default() });
    }

    fn must_park(&mut self) -> bool {
        match self.core_grant.look() {
            CoreCommand::Run(_) => {
                self.core_grant.run();
                false
            }
            CoreCommand::Drain => false,
            CoreCommand::Park(_) | CoreCommand::Nothing => true,
        }
    }

    /// Whether that is news.
    fn say_parked(&mut self, has_work: bool) -> bool {
        if has_work {
            self.core_grant.want();
        } else if self.core_grant.has_left() {
            return false;
        } else {
            self.core_grant.park();
        }
        self.idle.since = None;
        self.call.spoke();
        true
    }
}
