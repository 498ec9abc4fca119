//! One worker's loop: packets in, timers, tasks, packets out; then what others have too much of;
//! then sleep.

use std::rc::Rc;
use std::sync::Arc;

use attach::Detached;
use base::Nanos;
use sys::{clock, thread};

use crate::rt::class_guard::ClassGuard;
use crate::rt::local::Local;
use crate::rt::mailbox::lock;
use crate::worker::Worker;

/// Polls of tasks of each kind in a round; then packets are looked at again.
const POLLS_PER_ROUND: u32 = 64;

/// Answers that the ring had no room for are offered again this often.
const UNSENT_RETRY: Nanos = Nanos::from_millis(1);

/// A claim to a core is looked at so often, since the runtime may end meanwhile.
const CLAIM_MAX: Nanos = Nanos::from_millis(100);

/// A class that was stolen goes back when the daemon has taken the answers; it is looked at so
/// often.
const LINGERING_LOOK: Nanos = Nanos::from_micros(50);

/// The loop and what it remembers from round to round.
pub(crate) struct Executor<'main> {
    local: Rc<Local>,
    /// Whether the main task has ended.
    is_main_done: &'main dyn Fn() -> bool,
    has_noted_main: bool,
    /// Since when there was nothing to do.
    idle_since: Option<Nanos>,
    /// How long there was nothing to do while it was awake, all its life.
    idle: Nanos,
    /// When the main task is dropped; known once a stop was asked for.
    grace_ends: Option<Nanos>,
}

impl<'main> Executor<'main> {
    pub(crate) fn new(local: &Rc<Local>, is_main_done: &'main dyn Fn() -> bool) -> Self {
        let has_core_grant = local.packets.with_worker(|worker| {
            worker.set_alarm(Arc::clone(&local.mailbox().alarm));
            worker.has_core_grant()
        });
        if has_core_grant {
            local.worker_set.note_managed();
        }
        Self {
            local: Rc::clone(local),
            is_main_done,
            has_noted_main: false,
            idle_since: None,
            idle: Nanos::ZERO,
            grace_ends: None,
        }
    }

    /// Runs until the worker set has ended.
    ///
    /// # Errors
    /// The attachment has ended.
    pub(crate) fn run(&mut self) -> Result<(), Detached> {
        self.local.worker_set.watchdog.arm();
        while self.local.packets.with_worker(Worker::must_park) && !self.local.worker_set.is_over()
        {
            self.sleep()?;
        }
        // The main task first: what it binds is there for the first packet.
        self.run_tasks();
        while !self.local.worker_set.is_over() {
            if self.local.packets.with_worker(Worker::must_park) {
                self.sleep()?;
                continue;
            }
            let begun = clock::now();
            let worked = self.round(begun)?;
            self.look_at_end();
            if worked || self.steal() {
                self.idle_since = None;
                continue;
            }
            let goes_on = self.is_spinning();
            self.idle += clock::now().since(begun);
            if !goes_on {
                self.sleep()?;
            }
        }
        Ok(())
    }

    /// Everything that is there to do, once; whether there was anything.
    fn round(&self, now: Nanos) -> Result<bool, Detached> {
        let local = &self.local;
        let (worker_set, mailbox) = (&local.worker_set, local.mailbox());
        local.set_now(now);
        let (listeners, counters) = (&worker_set.listeners, &mailbox.counters);
        let received = local.packets.receive(local.index, listeners, counters, now)?;
        let fired = self.fire_timers(now);
        let heard = local.hear_sockets();
        self.take_back_frames();
        self.wake_readers();
        let polls = self.run_tasks();
        let sent = local.packets.flush()?;
        mailbox.counters.sent.add(sent as u64);
        local.let_go_lingering();
        let now = local.now();
        if worker_set.is_late(local.index, now) {
            worker_set.call_thief(local.index);
        }
        let (put, taken, oldest) = mailbox.run_queue(now);
        local.packets.with_worker(|worker| worker.note_tasks(put, taken, oldest, self.idle));
        Ok(received > 0 || fired > 0 || heard || polls > 0)
    }

    fn fire_timers(&self, now: Nanos) -> u32 {
        let timers = &self.local.mailbox().timers;
        let mut fired = 0;
        loop {
            // A statement of its own: the lock is not held while the waker works.
            let due = lock(timers).pop_due(now);
            let Some(waker) = due else { return fired };
            fired += 1;
            waker.wake();
        }
    }

    fn take_back_frames(&self) {
        if self.local.mailbox().has_returned() {
            let frames = self.local.mailbox().take_returned();
            frames.into_iter().for_each(|frame| self.local.packets.finish(frame));
        }
    }

    /// One socket for each listener with packets; it wakes the next one if there are more.
    fn wake_readers(&self) {
        let local = &self.local;
        for (number, listener) in local.worker_set.listeners.iter().enumerate() {
            if !listener.inboxes[local.index].is_quiet() {
                local.readers.wake_one(number);
            }
        }
    }

    fn run_tasks(&self) -> u32 {
        let (local, mailbox) = (&self.local, self.local.mailbox());
        let mut polls = 0;
        for _ in 0..POLLS_PER_ROUND {
            let before = polls;
            if let Some(task) = mailbox.next_bound() {
                local.bound.run(task, local);
                polls += 1;
            }
            if let Some(task) = mailbox.next_task() {
                task.run(local);
                polls += 1;
            }
            if polls == before
                || local.packets.with_worker(Worker::must_park)
                || local.worker_set.is_over()
            {
                break;
            }
        }
        polls
    }

    /// Takes over what another worker does not get to: tasks first, then a class of flows whose
    /// oldest packet has waited too long. Whether there was anything.
    fn steal(&self) -> bool {
        let local = &self.local;
        let (worker_set, count) = (&local.worker_set, local.worker_set.mailboxes.len());
        let victims = || (1..count).map(|offset| (local.index + offset) % count);
        for victim in victims() {
            let stolen = local.mailbox().steal_from(&worker_set.mailboxes[victim]);
            if stolen > 0 {
                local.mailbox().counters.tasks_stolen.add(stolen as u64);
                return true;
            }
        }
        let listeners = 0..worker_set.listeners.len();
        listeners
            .filter(|&listener| local.readers.is_waited(listener))
            .any(|listener| victims().any(|victim| self.steal_class(listener, victim)))
    }

    fn steal_class(&self, listener: usize, victim: usize) -> bool {
        let local = &self.local;
        let inbox = &local.worker_set.listeners[listener].inboxes[victim];
        let Some(claim) = inbox.claim_old(clock::now(), local.worker_set.settings.steal_after)
        else {
            return false;
        };
        // Dropped, the guard lets the class go and says so to its owner: when it is the wrong one,
        // and when nobody waits here any more.
        let counters = &local.mailbox().counters;
        match claim {
            Err(ready) => {
                drop(ClassGuard::new(local, listener, victim, ready));
                false
            }
            Ok(ready) => {
                let is_often = inbox.note_steal(&ready);
                let given =
                    local.readers.give(listener, ClassGuard::new(local, listener, victim, ready));
                counters.group_steals.add(u64::from(given));
                counters.groups_stolen.add(u64::from(is_often));
                given
            }
        }
    }

    /// Nothing to do: whether to go on looking for a while.
    fn is_spinning(&mut self) -> bool {
        let spin = self.local.worker_set.settings.spin;
        let now = self.local.now();
        let since = *self.idle_since.get_or_insert(now);
        let goes_on = now.since(since) < spin && !self.local.packets.with_worker(Worker::must_park);
        if goes_on {
            // Whoever has work for us may share this CPU.
            thread::sched_yield();
        }
        goes_on
    }

    /// Sleeps until a packet, a timer, a waker or a call, and without a core if that was asked
    /// back.
    fn sleep(&mut self) -> Result<(), Detached> {
        let local = &self.local;
        let (worker_set, mailbox) = (&local.worker_set, local.mailbox());
        // Without a core there are no rounds, and this must not wait for one.
        local.let_go_lingering();
        let is_asked_back = local.packets.with_worker(Worker::must_park);
        mailbox.arm();
        worker_set.note_asleep(local.index);
        let timeout = self.timeout();
        let has_work = mailbox.waiting() > 0
            || mailbox.has_returned()
            || self.has_packets()
            || worker_set.is_stopping() && self.grace_ends.is_none()
            || timeout == Nanos::ZERO
            || !local.arm_sockets();
        // Without a core, too, it leaves when everything ends.
        let result = if worker_set.is_over() || has_work && !is_asked_back {
            Ok(false)
        } else {
            mailbox.counters.parks.add(1);
            local.packets.with_worker(|worker| match has_work {
                true => worker.claim_core(CLAIM_MAX),
                false => worker.wait(timeout),
            })
        };
        mailbox.disarm();
        local.disarm_sockets();
        self.idle_since = None;
        if worker_set.note_awake(local.index) {
            if self.steal() {
                // There may be more of it for others.
                worker_set.end_search();
                worker_set.call_thief(local.index);
            } else {
                worker_set.end_search();
            }
        }
        result.map(|_| ())
    }

    /// Whether a socket waits for packets that are there: another worker has let them go just now.
    fn has_packets(&self) -> bool {
        let local = &self.local;
        let mut listeners = local.worker_set.listeners.iter().enumerate();
        listeners.any(|(number, listener)| {
            !listener.inboxes[local.index].is_quiet() && local.readers.is_waited(number)
        })
    }

    fn timeout(&self) -> Nanos {
        let local = &self.local;
        let now = clock::now();
        let grace_ends = self.grace_ends.filter(|_| !self.has_noted_main);
        let deadlines = [lock(&local.mailbox().timers).next(), grace_ends];
        let deadline = deadlines.into_iter().flatten().min();
        let mut timeout = deadline.map_or(Nanos::FAR_FUTURE, |deadline| deadline.since(now));
        if local.packets.has_unsent() {
            timeout = timeout.min(UNSENT_RETRY);
        }
        if local.is_lingering() {
            timeout = timeout.min(LINGERING_LOOK);
        }
        timeout
    }

    /// The main task has ended, or is to, or has not in time.
    fn look_at_end(&mut self) {
        let worker_set = &self.local.worker_set;
        if worker_set.is_stopping() && self.grace_ends.is_none() {
            self.grace_ends = Some(clock::now() + worker_set.settings.grace);
            self.local.readers.wake_all();
        }
        if self.has_noted_main {
            return;
        }
        let is_too_late = self.grace_ends.is_some_and(|ends| clock::now() >= ends);
        if (self.is_main_done)() || is_too_late {
            self.has_noted_main = true;
            worker_set.main_ended();
        }
    }
}
