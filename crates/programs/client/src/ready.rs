//! One thread that serves many workers: a wait for all of them, of which those come out that have
//! something.
//!
//! The daemon marks a worker of such a group in shared memory and wakes the thread through one
//! pipe, so that a turn costs what the ready workers cost, however many there are.

use std::sync::atomic::Ordering;

use attach::Detached;
use base::Nanos;
use sched::{After, DrrScheduler, Turn};
use shm::wait::{Surroundings, Wait};
use shm::{Doorbell, Ready, ReadySet, Waited};
use sys::{clock, thread};

use crate::worker::{UNSENT_RETRY, Worker, spinning};

/// Packets that a worker may take in its turn before another one is due.
const QUANTUM: u32 = base::BURST as u32;

/// Looks at a worker that has nothing more before the daemon is to mark it again.
const LINGER: u16 = 16;

/// Workers of one application that one thread serves.
///
/// ```no_run
/// use calisto_client::{App, AttachOptions, Nanos, ReadyWorkers, Verdict};
///
/// let (_app, workers) = App::attach(&AttachOptions::new("counter").listen("udp:0.0.0.0:9").workers(64))?;
/// let mut ready = ReadyWorkers::new(workers).expect("they are of one application");
/// loop {
///     if let Some(worker) = ready.next(Nanos::from_secs(1))? {
///         worker.step(|_packet| Verdict::Done)?;
///     }
/// }
/// # #[expect(unreachable_code, reason = "the loop ends by `?`")]
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ReadyWorkers {
    group: Group,
    wait: Wait,
}

/// The workers, and which of them are ready.
#[derive(Debug)]
struct Group {
    workers: Vec<Worker>,
    /// By the worker's number in its application: its place here.
    places: Vec<Option<usize>>,
    set: ReadySet,
    cursor: u32,
    /// By number.
    claims: Vec<Option<Ready>>,
    scheduler: DrrScheduler,
    /// The worker that was given out, and what it had received before.
    current: Option<(Turn, u64)>,
    ended: Option<Detached>,
}

impl ReadyWorkers {
    /// From now on these wait together; [`Worker::wait`] is not for them. It sleeps at once when
    /// no worker has anything, until [`Self::set_spin`].
    ///
    /// # Errors
    /// The workers come back: there is none, they are not of one application, one is on granted
    /// cores, or another thread has such a group of their application already.
    pub fn new(workers: Vec<Worker>) -> Result<Self, Vec<Worker>> {
        let Some(shared) = workers.first().map(|first| first.shared()) else { return Err(workers) };
        let fits = |worker: &Worker| worker.is_of(shared) && !worker.has_core_grant();
        if !workers.iter().all(fits) || shared.is_grouped.swap(true, Ordering::AcqRel) {
            return Err(workers);
        }
        let set = shared.memory.ready_to_app();
        let numbers = set.queues();
        let mut group = Group {
            places: vec![None; numbers as usize],
            workers,
            set,
            cursor: 0,
            claims: (0..numbers).map(|_| None).collect(),
            scheduler: DrrScheduler::new(numbers, QUANTUM, LINGER),
            current: None,
            ended: None,
        };
        let leader = group.workers[0].number();
        for (place, worker) in group.workers.iter().enumerate() {
            group.places[worker.number() as usize] = Some(place);
            worker.watch(Some(leader));
            // What came before was not marked.
            group.scheduler.push(worker.number());
        }
        Ok(Self { group, wait: Wait::new(spinning(Nanos::ZERO)) })
    }

    /// A worker that has something to receive, of several the one that waits for longest; `None`
    /// after `timeout` ([`Nanos::FAR_FUTURE`]: without end). Take as much from it as is convenient:
    /// it comes again while it has more.
    ///
    /// # Errors
    /// The attachment has ended.
    pub fn next(&mut self, timeout: Nanos) -> Result<Option<&mut Worker>, Detached> {
        let Self { group, wait } = self;
        group.workers[0].shared().glance()?;
        group.end_turn();
        if !Surroundings::is_ready(group) {
            let deadline = match timeout {
                Nanos::FAR_FUTURE => timeout,
                timeout => clock::now() + timeout,
            };
            let set = group.set.clone();
            if wait.until_ready(set.doorbell(), set.summary(), deadline, group) == Waited::TimedOut
            {
                return Ok(None);
            }
        }
        if let Some(detached) = group.ended.take() {
            return Err(detached);
        }
        let place = group.current.as_ref().and_then(|(turn, _)| group.places[turn.queue as usize]);
        Ok(place.map(|place| &mut group.workers[place]))
    }

    /// How long [`Self::next`] looks before it sleeps, at most: as long as the gaps of the recent
    /// past say that it pays. Zero, the default, sleeps at once.
    pub fn set_spin(&mut self, most: Nanos) {
        self.wait = Wait::new(spinning(most));
    }

    /// All of them, in their order.
    pub fn workers(&self) -> &[Worker] {
        &self.group.workers
    }

    /// All of them, in their order, to be set up.
    pub fn workers_mut(&mut self) -> &mut [Worker] {
        &mut self.group.workers
    }
}

impl Group {
    /// Whoever was given out has been served.
    fn end_turn(&mut self) {
        let Some((turn, before)) = self.current.take() else { return };
        let Some(place) = self.places[turn.queue as usize] else { return };
        let worker = &mut self.workers[place];
        worker.offer();
        let used = worker.counters().received - before;
        let has_more = worker.has_next();
        self.served(turn, used as u32, has_more);
    }

    fn served(&mut self, turn: Turn, used: u32, has_more: bool) {
        if self.scheduler.served(turn, used, has_more) == After::Waits {
            return;
        }
        let Some(ready) = self.claims[turn.queue as usize].take() else { return };
        if let Err(ready) = self.set.rearm(ready) {
            // It was marked meanwhile: one more look.
            self.claims[turn.queue as usize] = Some(ready);
            self.scheduler.push(turn.queue);
        }
    }

    fn gather(&mut self) {
        if self.set.is_quiet() {
            return;
        }
        let Self { set, cursor, claims, scheduler, places, .. } = self;
        set.claim(cursor, set.queues(), |ready| {
            let number = ready.queue() as usize;
            // Whom nobody watches any more may have been marked before.
            if places[number].is_some() {
                scheduler.push(ready.queue());
                claims[number] = Some(ready);
            } else {
                let _ = set.rearm(ready);
            }
        });
    }

    /// The first in the scheduler that has something; those before it that have nothing wait on.
    fn find(&mut self) -> bool {
        for _ in 0..self.scheduler.waiting() {
            let Some(turn) = self.scheduler.next_turn() else { return false };
            let Some(place) = self.places[turn.queue as usize] else { continue };
            if self.workers[place].has_next() {
                self.current = Some((turn, self.workers[place].counters().received));
                return true;
            }
            self.served(turn, 0, false);
        }
        false
    }
}

impl Surroundings for Group {
    fn is_ready(&mut self) -> bool {
        if self.ended.is_some() || self.current.is_some() {
            return true;
        }
        self.gather();
        self.find()
    }

    fn now(&mut self) -> Nanos {
        clock::now()
    }

    fn yield_cpu(&mut self) {
        thread::sched_yield();
    }

    fn sleep(&mut self, _doorbell: &Doorbell, most: Nanos) {
        // Nobody says when a ring to the daemon has room again.
        let is_late = |worker: &Worker| worker.has_unsent();
        let most = if self.workers.iter().any(is_late) { most.min(UNSENT_RETRY) } else { most };
        if let Err(detached) = self.workers[0].sleep_for_all(most) {
            self.ended = Some(detached);
        }
        self.workers.iter_mut().filter(|worker| worker.has_unsent()).for_each(Worker::offer);
    }
}

impl Drop for ReadyWorkers {
    fn drop(&mut self) {
        let Group { workers, claims, set, .. } = &mut self.group;
        for worker in workers.iter() {
            worker.watch(None);
        }
        // For the next group: what is neither armed nor put back is never marked again.
        claims.iter_mut().filter_map(Option::take).for_each(|ready| set.put_back(ready));
        workers[0].shared().is_grouped.store(false, Ordering::Release);
    }
}
