//! A region that this process has mapped, and how its other side is told of news.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};

use attach::DetachReason;
use base::{RegionId, SlotId};
use rustix::thread::futex;
use shm::sockets::{ReadyBits, Side, SlotWords, SocketMemory};
use sys::eventfd::EventFd;

/// A mapped region.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) id: RegionId,
    pub(crate) memory: SocketMemory,
    /// It is another application's, and so are the pollers of its side.
    pub(crate) is_foreign: bool,
    wakes: Wakes,
}

/// How sleepers behind a region are woken.
#[derive(Debug)]
enum Wakes {
    /// The daemon's workers.
    Daemon(EventFd),
    /// The pollers of both sides of a local pair.
    Sides([EventFd; 2]),
}

impl Region {
    /// An application's own.
    pub(crate) fn own(id: RegionId, memory: SocketMemory, daemon: EventFd) -> Self {
        Self { id, memory, is_foreign: false, wakes: Wakes::Daemon(daemon) }
    }

    /// The region as that of another application, one of whose sockets has come to this process.
    pub(crate) fn foreign(self) -> Self {
        Self { is_foreign: true, ..self }
    }

    /// Between two applications, of which this one is `side`.
    pub(crate) fn local_pair(
        id: RegionId,
        memory: SocketMemory,
        side: Side,
        other: EventFd,
        own: EventFd,
    ) -> Self {
        let sides = match side {
            Side::Zero => [own, other],
            Side::One => [other, own],
        };
        Self { id, memory, is_foreign: false, wakes: Wakes::Sides(sides) }
    }

    pub(crate) fn is_local_pair(&self) -> bool {
        matches!(self.wakes, Wakes::Sides(_))
    }

    /// Adds its own descriptors to a list.
    pub(crate) fn add_descriptors(&self, all: &mut Vec<RawFd>) {
        let number = |event: &EventFd| event.as_fd().as_raw_fd();
        match &self.wakes {
            Wakes::Daemon(daemon) => all.push(number(daemon)),
            Wakes::Sides(sides) => all.extend(sides.iter().map(number)),
        }
    }

    /// The side of a slot: in a local pair even ones connect and odd ones accept.
    pub(crate) fn side(&self, slot: SlotId) -> Side {
        match &self.wakes {
            Wakes::Sides(_) if slot.end() == 1 => Side::One,
            _ => Side::Zero,
        }
    }

    /// What the pollers of a side of a local pair are woken by.
    pub(crate) fn wake_of(&self, side: Side) -> Option<&EventFd> {
        match &self.wakes {
            Wakes::Daemon(_) => None,
            Wakes::Sides(sides) => Some(&sides[side as usize]),
        }
    }

    /// The words of the other end of a local connection.
    pub(crate) fn peer(&self, slot: SlotId) -> Option<(SlotId, &SlotWords)> {
        let peer = slot.peer();
        self.is_local_pair().then(|| self.memory.slot(peer)).flatten().map(|words| (peer, words))
    }

    /// Whether the daemon has let go of it, or is gone.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.memory.state().load(Ordering::Acquire) != 0
    }

    /// Why it is over; `None` while it is not.
    pub(crate) fn detach_reason(&self) -> Option<DetachReason> {
        DetachReason::from_number(self.memory.state().load(Ordering::Acquire))
    }

    /// Says that it is over.
    pub(crate) fn end(&self, reason: DetachReason) {
        self.memory.end(reason.number());
    }

    /// Has the other side look at a slot.
    #[inline]
    pub(crate) fn tell(&self, slot: SlotId, words: &SlotWords) {
        match &self.wakes {
            Wakes::Daemon(daemon) => {
                let worker = words.worker.load(Ordering::Relaxed);
                let Some(ready_bits) = self.memory.worker(worker) else { return };
                if ready_bits.set(slot) && ready_bits.claim_wake() {
                    daemon.ring();
                }
            }
            Wakes::Sides(sides) => {
                let Some((peer, words)) = self.peer(slot) else { return };
                let side = self.side(peer);
                self.call_pollers(peer, words, side, |_| sides[side as usize].ring());
                ring_notify_word(words);
            }
        }
    }

    /// Has all workers look at a slot: each has a listener of its own for it.
    pub(crate) fn tell_all(&self, slot: SlotId) {
        let Wakes::Daemon(daemon) = &self.wakes else { return };
        let mut must_ring = false;
        for ready_bits in (0..).map_while(|worker| self.memory.worker(worker)) {
            must_ring |= ready_bits.set(slot) && ready_bits.claim_wake();
        }
        if must_ring {
            daemon.ring();
        }
    }

    /// Marks a slot for each poller that wants to hear of it; `wake` is for those that sleep.
    pub(crate) fn call_pollers(
        &self,
        slot: SlotId,
        words: &SlotWords,
        side: Side,
        mut wake: impl FnMut(u32),
    ) {
        for (at, word) in (0..).zip(&words.pollers) {
            let mut bits = word.load(Ordering::Acquire);
            while bits != 0 {
                let poller = at * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let Some(ready_bits) = self.memory.poller(side, poller) else { continue };
                if ready_bits.set(slot) && ready_bits.claim_wake() {
                    wake(poller);
                }
            }
        }
    }

    /// The ready bits of a poller of ours.
    pub(crate) fn poller(&self, side: Side, poller: u32) -> Option<ReadyBits<'_>> {
        self.memory.poller(side, poller)
    }
}

/// Wakes the threads that sleep on one socket.
pub(crate) fn ring_notify_word(words: &SlotWords) {
    // What is said was written before the look at `sleepers`; a sleeper does it the other way
    // round.
    fence(Ordering::SeqCst);
    if words.sleepers.load(Ordering::Relaxed) != 0 {
        words.sleepers.store(0, Ordering::Relaxed);
        words.notify_word.fetch_add(1, Ordering::Release);
        wake_all(&words.notify_word);
    }
}

fn wake_all(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}
