//! What belongs to one worker's thread alone, and is found there by whatever runs on it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use base::Nanos;
use sys::clock;

use crate::rt::bound::BoundTasks;
use crate::rt::class_guard::Lingering;
use crate::rt::mailbox::{Mailbox, lock};
use crate::rt::packets::Packets;
use crate::rt::peers::Peers;
use crate::rt::readers::Readers;
use crate::rt::watch::Site;
use crate::rt::worker_set::WorkerSet;
use crate::sockets::reactor::Reactor;
use crate::worker::Worker;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
}

/// Packets that one poll of a task may take before it gives way: the others have waited meanwhile,
/// and what it has sent leaves after it.
const PACKETS_PER_POLL: u32 = 32;

/// One worker's part of the runtime.
pub(crate) struct Local {
    pub(crate) worker_set: Arc<WorkerSet>,
    pub(crate) index: usize,
    /// When the last poll has ended or this round has begun.
    now: Cell<Nanos>,
    /// Packets that the poll of now may still take.
    budget: Cell<u32>,
    pub(crate) bound: BoundTasks,
    pub(crate) packets: Packets,
    pub(crate) readers: Readers,
    pub(crate) peers: RefCell<Peers>,
    lingering: RefCell<Vec<Lingering>>,
    /// Its tasks that wait for sockets, if there ever were any.
    pub(crate) reactor: RefCell<Option<Arc<Reactor>>>,
}

impl Local {
    pub(crate) fn new(worker_set: Arc<WorkerSet>, index: usize, worker: Worker) -> Rc<Self> {
        Rc::new(Self {
            index,
            now: Cell::new(clock::now()),
            budget: Cell::new(0),
            bound: BoundTasks::new(),
            packets: Packets::new(worker),
            readers: Readers::new(worker_set.listeners.len()),
            peers: RefCell::new(Peers::new()),
            lingering: RefCell::default(),
            reactor: RefCell::default(),
            worker_set,
        })
    }

    /// Makes it the one of this thread; with `None`, this thread is no worker's any more.
    pub(crate) fn enter(local: Option<Rc<Self>>) {
        let before = CURRENT.with(|current| current.replace(local));
        drop(before);
    }

    /// The one of this thread, if it is a worker's.
    pub(crate) fn current() -> Option<Rc<Self>> {
        CURRENT.with(|current| current.borrow().clone())
    }

    /// The same, for what can be done on a worker's thread only.
    #[track_caller]
    pub(crate) fn here() -> Rc<Self> {
        Self::current().expect("this is for tasks of `rt::run`: it needs a worker's thread")
    }

    /// Where a task of `worker_set` begins: at the worker that spawns it, or at each in turn.
    pub(crate) fn home(worker_set: &Arc<WorkerSet>) -> usize {
        match Self::current() {
            Some(local) if Arc::ptr_eq(&local.worker_set, worker_set) => local.index,
            _ => worker_set.next_home(),
        }
    }

    /// A time for what is queued: cheap on a worker's thread, and right elsewhere.
    pub(crate) fn stamp() -> Nanos {
        CURRENT
            .with(|current| current.borrow().as_ref().map(|local| local.now.get()))
            .unwrap_or_else(clock::now)
    }

    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.worker_set.mailboxes[self.index]
    }

    /// The longest IP packet that a port takes.
    pub(crate) fn mtu(&self, port: u16) -> usize {
        self.worker_set.mtus.get(usize::from(port)).copied().unwrap_or(usize::MAX)
    }

    pub(crate) fn now(&self) -> Nanos {
        self.now.get()
    }

    pub(crate) fn set_now(&self, now: Nanos) {
        self.now.set(now);
    }

    /// Polls a task under the eyes of the watchdog.
    pub(crate) fn timed<R>(&self, site: Site, poll: impl FnOnce() -> R) -> R {
        let mailbox = self.mailbox();
        self.budget.set(PACKETS_PER_POLL);
        lock(&mailbox.watch).begin(self.now.get(), site);
        let result = poll();
        let now = clock::now();
        self.now.set(now);
        let overrun = lock(&mailbox.watch).end(now, self.worker_set.settings.long_poll);
        mailbox.counters.polls.add(1);
        if let Some(overrun) = overrun {
            self.worker_set.note_overrun(self.index, overrun);
        }
        result
    }

    /// Whether the poll of now may take one more packet.
    pub(crate) fn spend(&self) -> bool {
        let left = self.budget.get();
        self.budget.set(left.saturating_sub(1));
        left > 0
    }

    /// Wakes tasks whose sockets have news; whether there was any.
    pub(crate) fn hear_sockets(&self) -> bool {
        self.reactor.borrow().as_ref().is_some_and(|reactor| reactor.turn())
    }

    /// Before the worker sleeps. False: a socket has news already.
    pub(crate) fn arm_sockets(&self) -> bool {
        self.reactor.borrow().as_ref().is_none_or(|reactor| reactor.arm())
    }

    /// After it has slept.
    pub(crate) fn disarm_sockets(&self) {
        if let Some(reactor) = &*self.reactor.borrow() {
            reactor.disarm();
        }
    }

    /// Lets a class go when the daemon has what was sent in it, see [`Self::let_go_lingering`].
    pub(crate) fn linger(&self, lingering: Lingering) {
        self.lingering.borrow_mut().push(lingering);
    }

    pub(crate) fn is_lingering(&self) -> bool {
        !self.lingering.borrow().is_empty()
    }

    /// Answers leave by the ring of the worker that gave them. So that those of a flow leave in
    /// their order, a stolen class goes back when the daemon has taken the thief's answers.
    pub(crate) fn let_go_lingering(&self) {
        if self.is_lingering() && self.packets.are_all_taken() {
            self.let_go_now();
        }
    }

    /// The same at the worker's end, when order does not matter any more.
    pub(crate) fn let_go_now(&self) {
        let all = std::mem::take(&mut *self.lingering.borrow_mut());
        all.into_iter().for_each(|lingering| lingering.let_go(self));
    }
}

impl Local {
    /// At the worker's end: the frames of packets that nobody works on any more.
    pub(crate) fn give_everything_back(&self) {
        let inboxes =
            self.worker_set.listeners.iter().map(|listener| &listener.inboxes[self.index]);
        let waiting = inboxes.flat_map(|inbox| inbox.drain()).map(|packet| packet.frame);
        waiting.chain(self.mailbox().take_returned()).for_each(|frame| self.packets.finish(frame));
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("index", &self.index).finish_non_exhaustive()
    }
}
