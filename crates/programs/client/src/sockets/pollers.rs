//! The pollers of this process, and how one of its threads wakes another's.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::epoll;
use shm::sockets::POLLERS_MAX;
use sys::SysError;
use sys::eventfd::EventFd;

/// Which of its descriptors was readable does not matter.
pub(crate) const TAG: epoll::EventData = epoll::EventData::new_u64(0);

/// The pollers of this process, for those of its threads that have news for the others.
#[derive(Debug)]
pub(crate) struct Pollers {
    /// Always readable: a poller that is told again to watch it wakes up.
    lit: EventFd,
    /// By number, with the descriptors of each.
    list: Mutex<Vec<(u32, Arc<OwnedFd>, RawFd)>>,
    /// By number, those to be woken: by the thread that has the list next, or has it already.
    poked: [AtomicU64; POLLERS_MAX.div_ceil(64) as usize],
}

thread_local! {
    /// This thread has the list of some pollers, or waits for it. The handler of a signal must not
    /// wait too.
    static HAS_LIST: Cell<bool> = const { Cell::new(false) };
}

impl Pollers {
    pub(crate) fn new() -> Result<Self, SysError> {
        let lit = EventFd::new()?.out_of_the_way();
        lit.ring();
        Ok(Self { lit, list: Mutex::default(), poked: Default::default() })
    }

    /// Does something with the list, and wakes the pollers that are to be woken meanwhile. Nothing
    /// is done in a signal's handler that has interrupted its own thread here.
    pub(crate) fn change(&self, with: impl FnOnce(&mut Vec<(u32, Arc<OwnedFd>, RawFd)>)) {
        if HAS_LIST.replace(true) {
            return;
        }
        let mut with = Some(with);
        loop {
            {
                let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
                with.take().into_iter().for_each(|with| with(&mut list));
                self.wake_the_poked(&list);
            }
            HAS_LIST.set(false);
            // What a handler has left until now, nobody else may do.
            if self.poked.iter().all(|word| word.load(Ordering::Acquire) == 0) {
                return;
            }
            HAS_LIST.set(true);
        }
    }

    fn wake_the_poked(&self, list: &[(u32, Arc<OwnedFd>, RawFd)]) {
        for (at, word) in (0..).zip(&self.poked) {
            let bits = word.swap(0, Ordering::AcqRel);
            let is_meant = |number: u32| number / 64 == at && bits >> (number % 64) & 1 != 0;
            for (_, epoll, _) in list.iter().filter(|(number, ..)| is_meant(*number)) {
                let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
                // It was added when the poller was made.
                let _ = epoll::modify(epoll, &self.lit, TAG, flags);
            }
        }
    }

    /// Always readable, for a poller to watch at edges.
    pub(crate) fn lit(&self) -> BorrowedFd<'_> {
        self.lit.as_fd()
    }

    /// Wakes the threads that sleep on a poller of this process.
    pub(crate) fn poke(&self, poller: u32) {
        let Some(word) = self.poked.get((poller / 64) as usize) else { return };
        word.fetch_or(1 << (poller % 64), Ordering::AcqRel);
        self.change(|_| {});
    }

    /// Adds their own descriptors to a list.
    pub(crate) fn add_descriptors(&self, all: &mut Vec<RawFd>) {
        all.push(self.lit.as_fd().as_raw_fd());
        self.change(|list| {
            all.extend(list.iter().flat_map(|(_, epoll, pipe)| [epoll.as_raw_fd(), *pipe]));
        });
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec};

    use super::*;

    fn is_readable(epoll: &OwnedFd) -> bool {
        let mut fds = [PollFd::new(epoll, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&at_once)).is_ok_and(|count| count > 0)
    }

    #[test]
    fn who_is_woken_by_a_handler_in_the_middle_of_the_list_is_woken_after_it() {
        let pollers = Pollers::new().expect("descriptors are left");
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("descriptors are left");
        let epoll = Arc::new(epoll);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &pollers.lit, TAG, flags).expect("it is new");
        let mut events = Vec::with_capacity(1);
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None).expect("it is lit");
        assert!(!is_readable(&epoll), "what was always lit was heard of");
        pollers.change(|list| {
            list.push((130, Arc::clone(&epoll), 0));
            // As the handler of a signal that comes just now.
            pollers.poke(130);
            pollers.poke(7);
            assert!(!is_readable(&epoll));
        });
        assert!(is_readable(&epoll));
    }
}
