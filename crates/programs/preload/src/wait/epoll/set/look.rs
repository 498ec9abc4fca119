//! What a waiting thread asks of a set: what there is to tell, whether it may sleep, and what has
//! woken it.

use std::sync::atomic::Ordering;

use libc::{c_int, epoll_event};
use rustix::io::Errno;

use super::{MARKS, OwnPoller, Set, State};
use crate::process::lookup;
use crate::wait::epoll::members::Member;

/// Calls after which the kernel's members are looked at, however much ours have to tell.
const CALLS_MAX: u32 = 16;

/// What a look has come to.
pub(crate) enum Look {
    /// How many events of ours there are.
    Ours(usize),
    /// It is the kernel's turn to be looked at first.
    Kernel,
}

/// Whether a thread may sleep.
pub(crate) enum Prepared {
    /// It will be woken.
    Sleep,
    /// There is something.
    LookAgain,
    /// Nothing wakes it: it must look from time to time.
    Blind,
}

/// Which member an event of the kernel's set is about.
pub(crate) enum Source {
    /// A member of the kernel: the program's own event.
    Kernel,
    /// The poller.
    Poller,
    /// The kernel half of this member.
    Half(u32),
    /// A mark that no member has any more.
    Nobody,
}

impl Set {
    /// Fills `out` with what members of ours have to tell; how many.
    pub(crate) fn gather(&self, set: c_int, out: &mut [epoll_event]) -> Result<usize, Errno> {
        let mut state = self.lock()?;
        let count = self.gather_locked(&mut state, set, out);
        let given = state.members.take_given();
        drop(state);
        send_home(given);
        Ok(count)
    }

    fn gather_locked(&self, state: &mut State, set: c_int, out: &mut [epoll_event]) -> usize {
        self.reap(state, set);
        let State { members, poller, .. } = state;
        match poller.as_ref().and_then(OwnPoller::own) {
            Some(poller) => members.hear(poller),
            None => members.queue_all(),
        }
        members.tell(out)
    }

    /// Looks without waiting: what members of ours have to tell goes to `out`, unless it is the
    /// kernel's turn.
    pub(crate) fn look(&self, set: c_int, out: &mut [epoll_event]) -> Result<Look, Errno> {
        let mut state = self.lock()?;
        state.calls += 1;
        if state.calls >= CALLS_MAX && state.kernel_members > 0 {
            state.calls = 0;
            return Ok(Look::Kernel);
        }
        let count = self.gather_locked(&mut state, set, out);
        let given = state.members.take_given();
        drop(state);
        send_home(given);
        Ok(Look::Ours(count))
    }

    /// Prepares for sleep. Should something come between the last look and this, it says so.
    pub(crate) fn prepare(&self, set: c_int) -> Result<Prepared, Errno> {
        for _ in 0..2 {
            let state = self.lock()?;
            if state.poller.is_none() && state.members.is_empty() {
                // The first member of ours brings a poller, which the kernel's set hears.
                return Ok(Prepared::Sleep);
            }
            if let Some(poller) = state.own_poller() {
                let may_sleep = !state.members.has_queued() && poller.arm();
                return Ok(if may_sleep { Prepared::Sleep } else { Prepared::LookAgain });
            }
            drop(state);
            self.ensure_poller(set)?;
        }
        Ok(Prepared::Blind)
    }

    /// After a sleep: if no other thread sleeps, none needs to be woken. The poller is made quiet
    /// if it is what has woken us, unless others must still be woken by it.
    pub(crate) fn awake(&self, was_called: bool) -> Result<(), Errno> {
        let state = self.lock()?;
        let Some(poller) = state.own_poller() else { return Ok(()) };
        let others =
            self.sleepers.load(Ordering::SeqCst) > 0 || self.is_waited_for.load(Ordering::Acquire);
        if !others {
            poller.disarm();
        }
        if was_called && (!others || !state.members.has_queued()) {
            poller.drain();
        }
        Ok(())
    }

    /// Before a thread leaves that has slept: who has called it has disarmed the poller, and nobody
    /// would call the others that sleep on.
    pub(crate) fn pass_on(&self) -> Result<(), Errno> {
        let state = self.lock()?;
        if self.sleepers.load(Ordering::SeqCst) > 0
            && let Some(poller) = state.own_poller()
            && (state.members.has_queued() || !poller.arm())
        {
            poller.poke();
        }
        Ok(())
    }

    /// Which member an event of the kernel's set is about.
    pub(crate) fn source(state: &State, event: &epoll_event) -> Source {
        let mark = event.u64.wrapping_sub(state.mark);
        match mark {
            0 => Source::Poller,
            1..MARKS => {
                let index = (mark - 1) as u32;
                let has_half = |member: &Member| member.has_kernel_half;
                if state.members.get(index).is_some_and(has_half) {
                    Source::Half(index)
                } else {
                    Source::Nobody
                }
            }
            _ => Source::Kernel,
        }
    }
}

/// Connections that were given to the kernel become members of the kernel's set, by the look that
/// every use of a number takes.
#[inline]
fn send_home(given: Vec<c_int>) {
    for fd in given {
        drop(lookup::socket(fd));
    }
}
