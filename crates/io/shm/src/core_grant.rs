//! The right to use a core: a word from the core control to a worker, and a word back.
//!
//! The control *grants* a core, *revokes* it (park soon), or *withdraws* it (it is gone). The
//! worker says that it runs, that it has *parked*, or that it is parked and *wants* a core. Each
//! word is written by one side only. Every grant has a generation, and an answer counts for its own
//! generation only: a park that comes late, or is made up, ends no later grant.
//!
//! Neither word wakes anybody. Whoever parks sleeps by its own means, and a grant is followed by a
//! wake-up that is remembered (a byte in a pipe, an unpark token), so a park and a grant may cross.

use crate::sync::{Arc, AtomicU32, AtomicU64, Ordering, OwnLine};

/// The words of one core grant, on two pairs of cache lines: one for each writer. All zero is a
/// parked worker without a core.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct CoreGrantWords {
    /// Control to worker: generation << 32 | [`REVOKED`] | [`DRAIN`] | core + 1.
    told: OwnLine<AtomicU64>,
    said: OwnLine<SaidWords>,
}

/// What the worker writes.
#[derive(Debug, Default)]
#[repr(C)]
struct SaidWords {
    /// Generation << 32 | one of the constants below.
    answer: AtomicU64,
    /// Tasks ever made ready << 32 | tasks ever taken.
    tasks: AtomicU64,
    /// Nanoseconds for which the oldest task waits.
    oldest_task_ns: AtomicU64,
    /// Nanoseconds for which the worker has had nothing to do, all its life.
    idle_ns: AtomicU64,
    /// Its thread, by the kernel's number.
    thread: AtomicU32,
}

const REVOKED: u64 = 1 << 31;
const DRAIN: u64 = 1 << 30;
const CORE_MASK: u64 = 0xffff;

const PARKED: u32 = 0;
const RUNNING: u32 = 1;
const WANTS: u32 = 2;

/// What a worker was told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreCommand {
    /// It has no core: park.
    Nothing,
    /// This core is its own.
    Run(u16),
    /// This core is asked back: park at the next poll boundary.
    Park(u16),
    /// It has no core, and is to do what is in its ring, wherever it is, and park again: there are
    /// hand-overs that nobody else can do.
    Drain,
}

/// What a worker says to its last grant, or to the last withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreReply {
    /// Nothing yet.
    Nothing,
    /// It runs.
    Running,
    /// It sleeps, or is about to, until it is granted a core.
    Parked,
    /// The same, and it has something to do.
    Wants,
}

/// What a worker says about its work. Input: it may be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreGrantTasks {
    /// Tasks ever made ready, modulo 2^32.
    pub put: u32,
    /// Tasks ever taken, modulo 2^32.
    pub taken: u32,
    /// Nanoseconds for which the oldest one waits.
    pub oldest_ns: u64,
    /// Nanoseconds without work, all its life.
    pub idle_ns: u64,
}

/// A core grant for a thread of this process, both sides of it.
pub fn core_grant() -> (CoreGrantControl, CoreGrant) {
    let words = Arc::new(CoreGrantWords::default());
    (CoreGrantControl::over(Words::Own(Arc::clone(&words))), CoreGrant::over(Words::Own(words)))
}

/// Where the words are.
#[derive(Clone, Debug)]
enum Words {
    Own(Arc<CoreGrantWords>),
    /// In a region that an application maps too. It can make the control believe of this worker
    /// what it likes, and of no other.
    #[cfg(not(loom))]
    Shared(crate::packets::SharedCoreGrant),
}

impl Words {
    #[inline]
    fn get(&self) -> &CoreGrantWords {
        match self {
            Self::Own(words) => words,
            #[cfg(not(loom))]
            Self::Shared(words) => words.get(),
        }
    }
}

/// The control's side.
#[derive(Debug)]
pub struct CoreGrantControl {
    words: Words,
    generation: u32,
    core: Option<u16>,
}

impl CoreGrantControl {
    fn over(words: Words) -> Self {
        Self { words, generation: 0, core: None }
    }

    #[cfg(not(loom))]
    pub(crate) fn shared(words: crate::packets::SharedCoreGrant) -> Self {
        Self::over(Words::Shared(words))
    }

    /// The worker may run, on this core. Wake it after this.
    pub fn grant(&mut self, core: u16) {
        self.generation = self.generation.wrapping_add(1);
        self.core = Some(core);
        self.tell(0);
    }

    /// The worker is to park soon. Nothing when it has no core.
    pub fn revoke(&mut self) {
        if self.core.is_some() {
            self.tell(REVOKED);
        }
    }

    /// Accepts that the worker has parked: its core is free.
    pub fn accept_park(&mut self) {
        // Nothing is told, so that what it says next still answers the same word.
        self.core = None;
    }

    /// A worker without a core is to do what is in its ring. Wake it after this.
    pub fn drain(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.core = None;
        self.tell(DRAIN);
    }

    /// The core is no longer the worker's, whatever it does.
    pub fn withdraw(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.core = None;
        self.tell(0);
    }

    fn tell(&self, flags: u64) {
        let core = self.core.map_or(0, |core| u64::from(core) + 1);
        let told = u64::from(self.generation) << 32 | flags | core;
        // Release: what was done on the core before is seen by whoever runs on it next. Pairs with
        // the load in `CoreGrant::look`.
        self.words.get().told.0.store(told, Ordering::Release);
    }

    /// The core that the worker was granted and that was not withdrawn.
    pub fn core(&self) -> Option<u16> {
        self.core
    }

    /// What the worker says.
    #[inline]
    pub fn said(&self) -> CoreReply {
        // Acquire: pairs with the store in `CoreGrant::say`, so that all it did on the core is
        // done.
        let answer = self.words.get().said.0.answer.load(Ordering::Acquire);
        if (answer >> 32) as u32 != self.generation {
            return CoreReply::Nothing;
        }
        match answer as u32 {
            PARKED => CoreReply::Parked,
            WANTS => CoreReply::Wants,
            // Nonsense is no parked worker.
            _ => CoreReply::Running,
        }
    }

    /// What the worker says about its work.
    #[inline]
    pub fn tasks(&self) -> CoreGrantTasks {
        let said = &self.words.get().said.0;
        let tasks = said.tasks.load(Ordering::Relaxed);
        CoreGrantTasks {
            put: (tasks >> 32) as u32,
            taken: tasks as u32,
            oldest_ns: said.oldest_task_ns.load(Ordering::Relaxed),
            idle_ns: said.idle_ns.load(Ordering::Relaxed),
        }
    }

    /// The thread that the worker says it is; zero until it has said so.
    pub fn thread(&self) -> u32 {
        self.words.get().said.0.thread.load(Ordering::Relaxed)
    }
}

/// The worker's side.
#[derive(Debug)]
pub struct CoreGrant {
    words: Words,
    /// The generation that the last look has seen.
    seen: u32,
    /// The one that it has given up.
    left: Option<u32>,
}

impl CoreGrant {
    fn over(words: Words) -> Self {
        Self { words, seen: 0, left: None }
    }

    #[cfg(not(loom))]
    pub(crate) fn shared(words: crate::packets::SharedCoreGrant) -> Self {
        Self::over(Words::Shared(words))
    }

    /// What it is told. The answer that it gives next is one to this.
    #[inline]
    pub fn look(&mut self) -> CoreCommand {
        // Acquire: pairs with the store in `CoreGrantControl::tell`.
        let told = self.words.get().told.0.load(Ordering::Acquire);
        self.seen = (told >> 32) as u32;
        match (told & CORE_MASK).checked_sub(1) {
            _ if self.left == Some(self.seen) => CoreCommand::Nothing,
            None if told & DRAIN != 0 => CoreCommand::Drain,
            None => CoreCommand::Nothing,
            Some(core) if told & REVOKED != 0 => CoreCommand::Park(core as u16),
            Some(core) => CoreCommand::Run(core as u16),
        }
    }

    /// It runs.
    pub fn run(&self) {
        self.say(RUNNING);
    }

    /// It does nothing any more until it is granted a core.
    pub fn park(&mut self) {
        self.left = Some(self.seen);
        self.say(PARKED);
    }

    /// The same, and it has something to do.
    pub fn want(&mut self) {
        self.left = Some(self.seen);
        self.say(WANTS);
    }

    /// Whether it has parked since it was told what it was told last.
    pub fn has_left(&self) -> bool {
        self.left == Some(self.seen)
    }

    fn say(&self, what: u32) {
        let answer = u64::from(self.seen) << 32 | u64::from(what);
        // Release: pairs with the load in `CoreGrantControl::said`.
        self.words.get().said.0.answer.store(answer, Ordering::Release);
    }

    /// Tells about its work.
    #[inline]
    pub fn note(&self, tasks: CoreGrantTasks) {
        let CoreGrantTasks { put, taken, oldest_ns, idle_ns } = tasks;
        let said = &self.words.get().said.0;
        said.tasks.store(u64::from(put) << 32 | u64::from(taken), Ordering::Relaxed);
        said.oldest_task_ns.store(oldest_ns, Ordering::Relaxed);
        said.idle_ns.store(idle_ns, Ordering::Relaxed);
    }

    /// Tells which thread it is.
    pub fn note_thread(&self, thread: u32) {
        self.words.get().said.0.thread.store(thread, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
