//! What the workers of a runtime share.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;

use attach::Detached;
use base::Nanos;
use sys::clock;

use crate::app::App;
use crate::rt::bound::BoundTask;
use crate::rt::listener::Listener;
use crate::rt::mailbox::{Mailbox, lock};
use crate::rt::settings::Settings;
use crate::rt::stats::Stats;
use crate::rt::task::Task;
use crate::rt::watch::{LongPoll, LongPolls, Overrun};
use crate::rt::watchdog::Watchdog;

/// All workers, and what becomes of them.
#[derive(Debug)]
pub(crate) struct WorkerSet {
    /// The daemon's number for the application.
    pub(crate) app: u32,
    pub(crate) settings: Settings,
    /// By worker.
    pub(crate) mailboxes: Box<[Mailbox]>,
    pub(crate) listeners: Box<[Listener]>,
    /// By port: the longest IP packet that it takes.
    pub(crate) mtus: Box<[usize]>,
    pub(crate) watchdog: Watchdog,
    /// Bit n: worker n sleeps, or is about to.
    asleep: AtomicU64,
    /// Workers that were woken to steal and still look: one at a time is enough.
    searching: AtomicU32,
    /// The daemon gives cores out; then a worker without one is not for us to wake.
    is_managed: AtomicBool,
    /// A stop was asked for: main tasks are to end.
    is_stopping: AtomicBool,
    /// Every worker is to leave its loop.
    is_over: AtomicBool,
    /// The workers have left; nothing runs any more.
    is_closed: AtomicBool,
    /// Main tasks that have not ended.
    mains: AtomicUsize,
    detached: OnceLock<Detached>,
    /// The tasks that wait for a stop.
    stop_wakers: Mutex<Vec<Waker>>,
    long_polls: Mutex<LongPolls>,
    /// The worker that gets the next task of a thread that is none.
    next: AtomicUsize,
}

impl WorkerSet {
    pub(crate) fn new(
        app: &App,
        settings: Settings,
        mailboxes: Box<[Mailbox]>,
        listeners: Box<[Listener]>,
        watchdog: Watchdog,
    ) -> Self {
        Self {
            app: app.id(),
            settings,
            mains: AtomicUsize::new(mailboxes.len()),
            mailboxes,
            listeners,
            mtus: app.ports().iter().map(|port| port.mtu as usize).collect(),
            watchdog,
            asleep: AtomicU64::new(0),
            searching: AtomicU32::new(0),
            is_managed: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            detached: OnceLock::new(),
            stop_wakers: Mutex::default(),
            long_polls: Mutex::default(),
            next: AtomicUsize::new(0),
        }
    }

    /// Queues a task at a worker and wakes it, or another one if that has much to do already.
    pub(crate) fn queue(&self, worker: usize, task: Arc<Task>, now: Nanos) {
        let mailbox = &self.mailboxes[worker];
        let waiting = mailbox.put_task(now, task);
        if !mailbox.ring() && waiting > 1 {
            self.call_thief(worker);
        }
        if self.is_closed.load(Ordering::Acquire) {
            mailbox.clear();
        }
    }

    pub(crate) fn queue_bound(&self, worker: usize, task: Arc<BoundTask>, now: Nanos) {
        let mailbox = &self.mailboxes[worker];
        mailbox.put_bound(now, task);
        mailbox.ring();
    }

    /// The worker at which a task of a thread that is none begins: each in turn.
    pub(crate) fn next_home(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % self.mailboxes.len()
    }

    /// The daemon gives cores out: it wakes workers, we do not.
    pub(crate) fn note_managed(&self) {
        self.is_managed.store(true, Ordering::Relaxed);
    }

    /// Worker `index` is about to sleep, its doorbell being armed.
    pub(crate) fn note_asleep(&self, index: usize) {
        self.asleep.fetch_or(1 << index, Ordering::SeqCst);
    }

    /// Worker `index` is awake. True: it was called to steal, and says [`Self::end_search`] after
    /// that.
    pub(crate) fn note_awake(&self, index: usize) -> bool {
        self.asleep.fetch_and(!(1 << index), Ordering::SeqCst);
        self.watchdog.arm();
        self.mailboxes[index].is_called.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn end_search(&self) {
        self.searching.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether a worker is awake.
    fn is_anyone_awake(&self) -> bool {
        self.asleep.load(Ordering::SeqCst).count_ones() as usize != self.mailboxes.len()
    }

    /// Wakes a worker that sleeps, to take over something of worker `from`.
    pub(crate) fn call_thief(&self, from: usize) {
        if self.is_managed.load(Ordering::Relaxed) || self.searching.load(Ordering::Acquire) > 0 {
            return;
        }
        let sleepers = self.asleep.load(Ordering::SeqCst) & !(1 << from);
        let thief = sleepers.trailing_zeros() as usize;
        let Some(mailbox) = self.mailboxes.get(thief) else { return };
        self.searching.fetch_add(1, Ordering::AcqRel);
        if mailbox.is_called.swap(true, Ordering::AcqRel) {
            // Somebody else has called it at the same time.
            self.end_search();
        } else if !mailbox.ring() && mailbox.is_called.swap(false, Ordering::AcqRel) {
            // It woke by itself and has not seen the call.
            self.end_search();
        }
    }

    pub(crate) fn note_overrun(&self, worker: usize, overrun: Overrun) {
        let counters = &self.mailboxes[worker].counters;
        counters.longest_poll.note(overrun.length);
        counters.long_polls.add(u64::from(overrun.is_new));
        lock(&self.long_polls).note(overrun);
    }

    /// What the watchdog does at its rate: looks for polls that do not end, and has others take
    /// over what waits behind them.
    fn look_at_polls(&self, now: Nanos) {
        for (index, mailbox) in self.mailboxes.iter().enumerate() {
            let Some(overrun) = lock(&mailbox.watch).look(now, self.settings.long_poll) else {
                continue;
            };
            self.note_overrun(index, overrun);
            if mailbox.has_stealable() || self.is_late(index, now) {
                self.call_thief(index);
            }
        }
    }

    /// The watchdog's thread: until everything has ended.
    pub(crate) fn watch_polls(&self) {
        while !self.is_over() {
            self.watchdog.sleep();
            if self.is_over() {
                return;
            }
            self.look_at_polls(clock::now());
            self.watchdog.disarm();
            if self.is_anyone_awake() {
                self.watchdog.arm();
            }
        }
    }

    /// Whether a packet of the worker's has waited so long that others may take it over.
    pub(crate) fn is_late(&self, index: usize, now: Nanos) -> bool {
        let age = self.settings.steal_after;
        self.listeners.iter().any(|listener| listener.inboxes[index].is_late(now, age))
    }

    /// Asks the main tasks to end.
    pub(crate) fn stop(&self) {
        if self.is_stopping.swap(true, Ordering::AcqRel) {
            return;
        }
        let wakers = std::mem::take(&mut *lock(&self.stop_wakers));
        wakers.into_iter().for_each(Waker::wake);
        self.ring_all();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Wakes `waker` when a stop is asked for; false when it was already.
    pub(crate) fn wake_at_stop(&self, waker: &Waker) -> bool {
        let mut wakers = lock(&self.stop_wakers);
        if self.is_stopping() {
            return false;
        }
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        true
    }

    /// The main task of a worker has ended; with the last one, everything does.
    pub(crate) fn main_ended(&self) {
        if self.mains.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end();
        }
    }

    /// The attachment has ended: everything does.
    pub(crate) fn detach(&self, detached: Detached) {
        self.detached.get_or_init(|| detached);
        self.end();
    }

    pub(crate) fn detached(&self) -> Option<Detached> {
        self.detached.get().cloned()
    }

    /// Every worker leaves its loop after the poll that it is in.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.ring_all();
        self.watchdog.fire();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// The workers have left: whatever still waits is cancelled, and whatever comes.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.mailboxes.iter().for_each(Mailbox::clear);
        let wakers = std::mem::take(&mut *lock(&self.stop_wakers));
        drop(wakers);
        for inbox in self.listeners.iter().flat_map(|listener| &listener.inboxes) {
            drop(inbox.drain());
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        self.mailboxes.iter().map(Mailbox::stats).fold(Stats::default(), Stats::and)
    }

    pub(crate) fn long_polls(&self) -> Vec<LongPoll> {
        lock(&self.long_polls).all()
    }

    fn ring_all(&self) {
        for mailbox in &self.mailboxes {
            mailbox.ring();
        }
    }
}
