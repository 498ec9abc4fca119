//! Which workers have something to say, and whose turn it is: nobody else's ring is looked at.
//!
//! A worker that has published marks its worker queue; the dispatcher claims marked worker queues,
//! serves them in turns, looks at a worker queue that ran empty some more times and then arms it
//! (see [`shm::ReadySet`]). An application's ready bits lie in its own memory and are believed by
//! nobody: a ready bit without a message costs a look, and an application that makes too many is
//! not listened to for a while. One that never marks keeps only its own messages waiting, until the
//! slow look at every worker queue.

use base::{Nanos, WorkerId};
use sched::{After, DrrScheduler, Turn};
use shm::{Ready, ReadySet};

use crate::rate_limit::RateLimit;
use crate::worker_queue::WorkerQueue;

/// Messages that a worker queue may say in its turn: all that a turn of the loop takes from
/// everybody.
const QUANTUM: u32 = base::BURST as u32;

/// Looks at a worker queue that ran empty before it is armed: some microseconds of a loop without
/// work, so that a worker that answers one packet after another does not pay for an edge each time.
const LINGER: u16 = 32;

/// Marks without a message that an application may make in a second.
const FALSE_BITS_PER_SECOND: u32 = 1000;
const FALSE_BITS_AT_ONCE: u32 = 100;

/// Every worker queue is looked at so often, marked or not.
const LOOK_EVERY: Nanos = Nanos::from_millis(10);

/// What a worker marks its worker queue with.
#[derive(Clone, Debug)]
pub struct Caller {
    set: ReadySet,
    worker_queue: u32,
}

impl Caller {
    /// Something was published.
    #[inline]
    pub(crate) fn call(&self) {
        self.set.set_ready(self.worker_queue);
    }
}

/// The worker queues of one steering that were marked, in their order.
pub(super) struct ReadyWorkerQueues {
    set: ReadySet,
    scheduler: DrrScheduler,
    /// By worker queue.
    claims: Vec<Claim>,
    cursor: u32,
    /// Of an application.
    false_bits: Option<RateLimit>,
    /// It has made too many.
    is_muted: bool,
    next_look: Nanos,
}

#[derive(Debug, Default)]
struct Claim {
    /// The right to the worker queue; without it there is nothing to arm.
    ready: Option<Ready>,
    /// Nobody has looked at it since.
    is_fresh: bool,
}

impl ReadyWorkerQueues {
    /// Of workers that are threads of this process.
    pub(super) fn own(worker_queues: u32) -> Self {
        Self::over(ReadySet::new(worker_queues.max(1)), None)
    }

    /// Of an application's workers, which mark them in its memory.
    pub(super) fn of_app(set: ReadySet) -> Self {
        Self::over(set, Some(RateLimit::new(FALSE_BITS_PER_SECOND, FALSE_BITS_AT_ONCE)))
    }

    fn over(set: ReadySet, false_bits: Option<RateLimit>) -> Self {
        let worker_queues = set.queues();
        Self {
            set,
            scheduler: DrrScheduler::new(worker_queues, QUANTUM, LINGER),
            claims: (0..worker_queues).map(|_| Claim::default()).collect(),
            cursor: 0,
            false_bits,
            is_muted: false,
            next_look: Nanos::ZERO,
        }
    }

    /// What a worker of this process marks its worker queue with.
    pub(super) fn caller(&self, worker: WorkerId) -> Caller {
        Caller { set: self.set.clone(), worker_queue: u32::from(worker.0) }
    }

    /// Claims what was marked; how many worker queues wait for their turn.
    #[inline]
    pub(super) fn gather(&mut self, now: Nanos) -> usize {
        if !self.set.is_quiet() {
            self.claim(now);
        }
        self.scheduler.waiting()
    }

    fn claim(&mut self, now: Nanos) {
        self.is_muted = self.false_bits.as_ref().is_some_and(|limit| !limit.allows(now));
        if self.is_muted {
            return;
        }
        let Self { set, scheduler, claims, cursor, .. } = self;
        set.claim(cursor, set.queues(), |ready| {
            let worker_queue = ready.queue();
            claims[worker_queue as usize] = Claim { ready: Some(ready), is_fresh: true };
            scheduler.push(worker_queue);
        });
    }

    /// Whose turn it is; [`Self::served`] follows.
    #[inline]
    pub(super) fn next_turn(&mut self) -> Option<Turn> {
        self.scheduler.next_turn()
    }

    /// The worker queue has had its turn and said that many messages.
    #[inline]
    pub(super) fn served(
        &mut self,
        turn: Turn,
        used: usize,
        worker_queue: Option<&WorkerQueue>,
        now: Nanos,
    ) {
        let has_more = worker_queue.is_some_and(WorkerQueue::has_messages);
        let claim = &mut self.claims[turn.queue as usize];
        if std::mem::replace(&mut claim.is_fresh, false)
            && used == 0
            && !has_more
            && let Some(limit) = &mut self.false_bits
        {
            limit.take(now);
        }
        if self.scheduler.served(turn, used as u32, has_more) == After::Arm {
            self.arm(turn.queue, worker_queue);
        }
    }

    /// The worker queue is empty: from now on its worker says when it is not.
    fn arm(&mut self, queue: u32, worker_queue: Option<&WorkerQueue>) {
        let Some(ready) = self.claims[queue as usize].ready.take() else { return };
        let Err(ready) = self.set.rearm(ready) else { return };
        // It was marked while it was ours. Usually all of that has been taken.
        let ready = match worker_queue.is_some_and(WorkerQueue::has_messages) {
            true => ready,
            false => match self.set.rearm(ready) {
                Ok(()) => return,
                Err(ready) => ready,
            },
        };
        self.claims[queue as usize].ready = Some(ready);
        self.scheduler.push(queue);
    }

    /// The host is about to sleep: arms every worker queue that is empty.
    pub(super) fn arm_all(&mut self, worker_queues: &[Option<WorkerQueue>]) {
        for _ in 0..self.scheduler.waiting() {
            let Some(turn) = self.scheduler.next_turn() else { return };
            let worker_queue = worker_queues[turn.queue as usize].as_ref();
            match worker_queue.is_some_and(WorkerQueue::has_messages) {
                true => _ = self.scheduler.served(turn, 0, true),
                false => self.arm(turn.queue, worker_queue),
            }
        }
    }

    /// Looks at every worker queue, when that is due: one may have lost its voice.
    #[inline]
    pub(super) fn look_at_all(&mut self, worker_queues: &[Option<WorkerQueue>], now: Nanos) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_EVERY;
        for (queue, worker_queue) in (0..self.set.queues()).zip(worker_queues) {
            if worker_queue.as_ref().is_some_and(WorkerQueue::has_messages) {
                self.scheduler.push(queue);
            }
        }
    }

    /// Whether nobody waits for a turn.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.scheduler.is_empty() && (self.is_muted || self.set.is_quiet())
    }

    /// When workers that are not listened to are listened to again.
    pub(super) fn next_deadline(&self) -> Nanos {
        match &self.false_bits {
            Some(limit) if self.is_muted => limit.next(),
            _ => Nanos::FAR_FUTURE,
        }
    }
}
