//! The threads of kept workers: proven, placed, evicted, and let go.

use std::rc::Rc;

use base::Nanos;
use datapath::cores::{CoreSlot, Hands, Strayed, Suspect};
use sys::cpu_set::CpuSet;
use sys::other_thread::{OtherThread, Unchanged};
use sys::pidfd::PidFd;

use crate::failure::Failure;
use crate::log;

/// A parked worker may use this share of its time: it wakes for hand-overs and late doorbells.
const PARKED_SHARE_MAX: u64 = 4;
/// Shorter spans say nothing: the kernel counts CPU time of others by ticks.
const SPAN_MIN: Nanos = Nanos::from_millis(50);

/// Moves threads by sched_setaffinity(2) and sched_setscheduler(2).
pub(crate) struct CoreHands {
    /// CPUs that no worker was granted: where a worker goes whose core was taken.
    left_over: CpuSet,
    /// By slot.
    worker_pool: Vec<Option<Employed>>,
    /// A refusal of the kernel was told.
    has_warned: bool,
}

/// What is known of a slot's worker.
struct Employed {
    /// None: a thread of our own.
    process: Option<Rc<PidFd>>,
    placed: Option<Placed>,
    /// The last look at it: when, since when it was parked then, and what it had used.
    looked: Option<(Nanos, Nanos, Nanos)>,
}

/// A thread that was proven to be its worker's.
struct Placed {
    thread: OtherThread,
    /// Where it could run before.
    before: Option<CpuSet>,
    core: Option<u16>,
    is_evicted: bool,
}

impl Placed {
    /// It may run where it could before, as it could before.
    fn restore(self) {
        let Self { thread, before, core: _, is_evicted } = self;
        // A thread that has ended needs nothing.
        if is_evicted {
            let _ = thread.idle_class(false);
        }
        if let Some(before) = before {
            let _ = thread.set_affinity(&before);
        }
    }
}

/// What a look at a suspect has found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Honest,
    /// It uses CPU time, and says that it is parked.
    RunsParked,
    /// Its thread has ended.
    Dead,
}

impl CoreHands {
    pub(crate) fn new(cores: &[u16]) -> Result<Self, Failure> {
        let allowed = CpuSet::attainable()?;
        for &core in cores {
            if !allowed.contains(usize::from(core)) {
                return Err(Failure::Said(format!(
                    "cores.set: CPU {core} is not among those that this process may use ({allowed})"
                )));
            }
        }
        let mut left_over = CpuSet::new();
        let others =
            allowed.iter().filter(|&cpu| !cores.iter().any(|&core| usize::from(core) == cpu));
        for cpu in others {
            left_over.insert(cpu);
        }
        // With every CPU managed, an evicted thread gets what its scheduling class leaves it.
        let left_over = if left_over.is_empty() { allowed } else { left_over };
        Ok(Self { left_over, worker_pool: Vec::new(), has_warned: false })
    }

    /// The slots' workers are threads of this process; none: of our own.
    pub(crate) fn employ(&mut self, slots: &[CoreSlot], process: Option<PidFd>) {
        let process = process.map(Rc::new);
        for slot in slots {
            self.worker_pool.resize_with(self.worker_pool.len().max(slot.index() + 1), || None);
            let process = process.clone();
            self.worker_pool[slot.index()] = Some(Employed { process, placed: None, looked: None });
        }
    }

    /// Whether the slot's process has ended, or is about to.
    pub(super) fn is_ending(&self, slot: CoreSlot) -> bool {
        let employed = self.worker_pool.get(slot.index()).and_then(Option::as_ref);
        employed.and_then(|of| of.process.as_ref()).is_some_and(|process| process.is_ending())
    }

    /// The slot's thread, proven to be one of its process.
    fn thread(&mut self, slot: CoreSlot, tid: u32) -> Result<&mut Placed, Strayed> {
        let employed =
            self.worker_pool.get_mut(slot.index()).and_then(Option::as_mut).ok_or(Strayed)?;
        let placed = match employed.placed.take() {
            Some(placed) if placed.thread.tid() == tid => placed,
            another => {
                let thread = match &employed.process {
                    Some(process) => OtherThread::find(process, tid),
                    None => OtherThread::of_ours(tid),
                };
                // The worker has gone to another thread: its earlier one is no worker's now.
                if let Some(another) = another {
                    another.restore();
                }
                let thread = thread.map_err(|_| Strayed)?;
                // Where a thread of several workers could run is known from the first of them.
                let mut known =
                    self.worker_pool.iter().flatten().filter_map(|of| of.placed.as_ref());
                let known = known.find(|placed| placed.thread.tid() == tid);
                let before = known.map_or_else(|| thread.affinity().ok(), |placed| placed.before);
                Placed { thread, before, core: None, is_evicted: false }
            }
        };
        let employed =
            self.worker_pool.get_mut(slot.index()).and_then(Option::as_mut).ok_or(Strayed)?;
        Ok(employed.placed.insert(placed))
    }

    fn heed(&mut self, changed: Result<(), Unchanged>) -> Result<(), Strayed> {
        match changed {
            Ok(()) => Ok(()),
            Err(Unchanged::Gone) => Err(Strayed),
            Err(Unchanged::Refused(why)) => {
                if !std::mem::replace(&mut self.has_warned, true) {
                    tracing::warn!(target: log::WORKERS, "a worker stays where it is: {why}");
                }
                Ok(())
            }
        }
    }

    pub(crate) fn examine(&mut self, suspect: Suspect, now: Nanos) -> Verdict {
        let Suspect { slot, thread, parked_since } = suspect;
        let Ok(placed) = self.thread(slot, thread) else { return Verdict::Dead };
        let Some(since) = parked_since else {
            return if placed.thread.is_gone() { Verdict::Dead } else { Verdict::Honest };
        };
        if placed.is_evicted {
            return Verdict::Honest;
        }
        let Ok(used) = placed.thread.cpu_time() else { return Verdict::Dead };
        let Some(Some(employed)) = self.worker_pool.get_mut(slot.index()) else {
            return Verdict::Honest;
        };
        match employed.looked {
            Some((at, parked, before)) if parked == since => {
                let (span, used) = (now.since(at), used.since(before));
                if span < SPAN_MIN {
                    return Verdict::Honest;
                }
                employed.looked = None;
                if used.0 > span.0 / PARKED_SHARE_MAX {
                    Verdict::RunsParked
                } else {
                    Verdict::Honest
                }
            }
            _ => {
                employed.looked = Some((now, since, used));
                Verdict::Honest
            }
        }
    }
}

impl Hands for CoreHands {
    fn place(&mut self, slot: CoreSlot, thread: u32, core: u16) -> Result<(), Strayed> {
        let placed = self.thread(slot, thread)?;
        let mut changed = Ok(());
        if placed.is_evicted {
            changed = placed.thread.idle_class(false);
            placed.is_evicted = false;
            placed.core = None;
        }
        // A thread that is there already costs no system call.
        if placed.core != Some(core) && changed.is_ok() {
            changed = placed.thread.pin(usize::from(core));
            placed.core = Some(core);
        }
        self.heed(changed)
    }

    fn evict(&mut self, slot: CoreSlot, thread: u32) -> Result<(), Strayed> {
        let left_over = self.left_over;
        let placed = self.thread(slot, thread)?;
        placed.is_evicted = true;
        placed.core = None;
        let changed = placed.thread.idle_class(true);
        let changed = changed.and_then(|()| placed.thread.set_affinity(&left_over));
        self.heed(changed)
    }

    fn nudge(&mut self, slot: CoreSlot, thread: u32) -> Result<(), Strayed> {
        if thread == 0 {
            return Ok(());
        }
        let nudged = self.thread(slot, thread)?.thread.nudge();
        self.heed(nudged)
    }

    fn release(&mut self, slot: CoreSlot) {
        let employed = self.worker_pool.get_mut(slot.index()).and_then(Option::take);
        if let Some(placed) = employed.and_then(|of| of.placed) {
            placed.restore();
        }
    }
}
