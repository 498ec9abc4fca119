//! A region of two applications, and the connections in it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use attach::{RegionKind, Reply};
use base::{AppId, RegionId, SlotId};
use shm::sockets::{
    Asks, Heap, Kind, Quota, RingMemory, Side, SlotOption, SlotState, SlotWords, SocketServer,
    SocketSizes,
};
use sys::eventfd::EventFd;
use sys::futex::{self, Scope};

use super::answer::Answer;
use super::endings::Nameless;
use super::guards::Ends;
use super::notifier::Wakers;

/// Connections of one local pair, at most.
const PAIRS_MAX: u32 = 8192;

/// Descriptors of a local pair: its memory and the two ways to wake a side.
pub(super) const DESCRIPTORS: usize = 3;

/// Bytes of each of a connection's two rings, as a logarithm: what is wished for, and what it may
/// be when memory is short.
const RING_LOG2: [u8; 2] = [18, 14];

pub(super) const SIDES: [Side; 2] = [Side::Zero, Side::One];

/// A region of two applications.
pub(super) struct LocalPair {
    pub(super) server: SocketServer,
    pub(super) ends: [End; 2],
    /// By the number of the first slot.
    pub(super) pairs: BTreeMap<SlotId, Pair>,
    /// The first slots of those whose accepted end has no name yet.
    unnamed: BTreeSet<SlotId>,
    /// Whose both sides are.
    pub(super) uid: u32,
}

/// One application's side.
pub(super) struct End {
    pub(super) app: AppId,
    pub(super) region: RegionId,
    /// How the other side wakes this side's pollers. Both have it, and can have whoever writes
    /// there wait: the daemon never does.
    pub(super) wake: EventFd,
    /// How the daemon wakes them.
    pub(super) wakers: Arc<Wakers>,
    pub(super) is_gone: bool,
}

pub(super) struct Pair {
    /// The connecting side's address, and the accepting side's.
    name: Ends,
    rings: [RingMemory; 2],
    is_named: [bool; 2],
    is_over: [bool; 2],
}

impl LocalPair {
    /// What its sockets take is counted for `quota`: that of who connects.
    pub(super) fn create(
        ends: [End; 2],
        uid: u32,
        memory_mib: u32,
        quota: Arc<Quota>,
    ) -> Option<Self> {
        let sizes = SocketSizes {
            slots: 2 * PAIRS_MAX,
            pollers: shm::sockets::POLLERS_MAX,
            sides: 2,
            workers: 0,
            ring_bytes: u64::from(memory_mib.clamp(1, 1 << 16)) << 20,
        };
        let server = SocketServer::within("local_pair", sizes, quota).ok()?;
        Some(Self { server, ends, pairs: BTreeMap::new(), unnamed: BTreeSet::new(), uid })
    }

    /// Whose a side is.
    pub(super) fn app(&self, side: Side) -> AppId {
        self.ends[side as usize].app
    }

    /// What is said about the region to a side.
    pub(super) fn describe(&self, side: Side) -> Reply {
        Reply::Region { kind: RegionKind::LocalPair, side: side as u8 }
    }

    /// Adds what a side needs: the memory, how to wake the other side, how it is woken.
    pub(super) fn give(&self, side: Side, answer: Answer) -> rustix::io::Result<Answer> {
        let own = side as usize;
        answer
            .with(self.server.memory().descriptor())?
            .with(self.ends[1 - own].wake.as_fd())?
            .with(self.ends[own].wake.as_fd())
    }

    /// Whether a socket of the application lives here that a descriptor stands for.
    pub(super) fn has_named_end(&self, app: AppId) -> bool {
        self.pairs.values().any(|pair| {
            (0..2).any(|at| self.ends[at].app == app && pair.is_named[at] && !pair.is_over[at])
        })
    }

    /// The accepted ends of an application that have no name.
    pub(super) fn unnamed_of(&self, app: AppId) -> impl Iterator<Item = Nameless> {
        let End { app: accepting, region, .. } = self.ends[1];
        let firsts = self.unnamed.iter().filter(move |_| accepting == app);
        firsts.map(move |first| {
            let place = (region, first.next());
            Nameless { place, generation: self.server.generation(place.1) }
        })
    }

    pub(super) fn words(&self, slot: SlotId) -> Option<&SlotWords> {
        self.server.memory().slot(slot)
    }

    /// A side's sockets that are not over.
    pub(super) fn slots(&self, side: Side) -> Vec<SlotId> {
        let living = self.pairs.iter().filter(|(_, pair)| !pair.is_over[side as usize]);
        living.map(|(first, _)| [*first, first.next()][side as usize]).collect()
    }

    /// Opens a connection: the number of its first slot.
    pub(super) fn open(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        cookie: u64,
    ) -> Option<SlotId> {
        let heap = self.server.heap();
        let (out, back) = RING_LOG2.into_iter().find_map(|log2| lend_two(heap, log2))?;
        let Some(first) = self.server.lend_pair() else {
            heap.take_back(out);
            heap.take_back(back);
            return None;
        };
        let log2 = u32::from(out.desc().log2().unwrap_or_default());
        let halves =
            [(first, local, remote, &out, &back), (first.next(), remote, local, &back, &out)];
        for (slot, own, other, send, receive) in halves {
            let Some(words) = self.server.memory().slot(slot) else { continue };
            words.local.set(Some(own));
            words.remote.set(Some(other));
            words.rx_ring.store(receive.desc().word(), Ordering::Relaxed);
            words.tx_ring.store(send.desc().word(), Ordering::Relaxed);
            words.tx_ring_used.store(send.desc().word(), Ordering::Relaxed);
            words.tx_log2_max.store(log2, Ordering::Relaxed);
        }
        if let Some(words) = self.words(first) {
            words.cookie.store(cookie, Ordering::Relaxed);
        }
        for slot in [first, first.next()] {
            let state = Kind::Stream as u32 | SlotState::CONNECTED | SlotState::LOCAL;
            if let Some(words) = self.words(slot) {
                words.state.store(state, Ordering::Release);
            }
        }
        let rings = [out, back];
        self.unnamed.insert(first);
        let name = (local, remote);
        self.pairs
            .insert(first, Pair { name, rings, is_named: [true, false], is_over: [false; 2] });
        Some(first)
    }

    /// The other end of `slot` hears of a reset, and not of an ordinary end.
    pub(super) fn reset(&self, slot: SlotId) {
        if let Some(words) = self.words(slot) {
            words.asks.fetch_or(Asks::ABORT, Ordering::AcqRel);
        }
    }

    /// One end is over: the other learns it. True: so are both, and the pair is free.
    pub(super) fn end(&mut self, slot: SlotId) -> bool {
        let (first, own) = (slot.connecting(), slot.end());
        let Some(pair) = self.pairs.get_mut(&first) else { return false };
        if std::mem::replace(&mut pair.is_over[own], true) {
            return false;
        }
        if !pair.is_over[1 - own] {
            if let Some(words) = self.words(slot) {
                words.asks.fetch_or(Asks::CLOSE, Ordering::AcqRel);
            }
            self.tell(slot.peer());
            return false;
        }
        self.unnamed.remove(&first);
        if let Some(pair) = self.pairs.remove(&first) {
            pair.rings.into_iter().for_each(|ring| self.server.heap().take_back(ring));
        }
        self.server.take_back_slot(first);
        self.server.take_back_slot(first.next());
        true
    }

    /// Tells whoever waits for a slot that there is news.
    pub(super) fn tell(&self, slot: SlotId) {
        let (memory, side) = (self.server.memory(), SIDES[slot.end()]);
        let Some(words) = memory.slot(slot) else { return };
        fence(Ordering::SeqCst);
        for (at, word) in words.pollers.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let poller = at as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let ready_bits = memory.poller(side, poller);
                if ready_bits
                    .is_some_and(|ready_bits| ready_bits.set(slot) && ready_bits.claim_wake())
                {
                    self.ends[side as usize].wakers.ring(poller);
                }
            }
        }
        if words.sleepers.swap(0, Ordering::Relaxed) != 0 {
            words.notify_word.fetch_add(1, Ordering::Release);
            futex::wake(&words.notify_word, Scope::Shared, u32::MAX);
        }
    }

    /// Accepted ends whose descriptor has been named since the last look: slot and cookie.
    pub(super) fn learn(&mut self) -> Vec<(SlotId, u64)> {
        let memory = self.server.memory();
        let mut learned = Vec::new();
        let pairs = &mut self.pairs;
        self.unnamed.retain(|first| {
            let (Some(words), Some(pair)) = (memory.slot(first.next()), pairs.get_mut(first))
            else {
                return false;
            };
            let is_named = words.asks().has(Asks::NAMED);
            if is_named {
                pair.is_named[1] = true;
                learned.push((first.next(), words.cookie.load(Ordering::Relaxed)));
            }
            !is_named
        });
        learned
    }

    /// Whether it has a connection of that name, of which an end is still open.
    pub(super) fn has(&self, name: Ends) -> bool {
        self.pairs.values().any(|pair| pair.name == name)
    }

    /// Whether it has no connections.
    pub(super) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    pub(super) fn is_over(&self) -> bool {
        self.ends.iter().all(|end| end.is_gone)
            || (self.pairs.is_empty() && self.ends.iter().any(|end| end.is_gone))
    }
}

/// Two rings, or none.
fn lend_two(heap: &Heap, log2: u8) -> Option<(RingMemory, RingMemory)> {
    let one = heap.lend(log2)?;
    match heap.lend(log2) {
        Some(other) => Some((one, other)),
        None => {
            heap.take_back(one);
            None
        }
    }
}

/// What an accepted socket has from its listener: all but what belongs to the descriptor.
pub(super) fn inherit(from: &SlotWords, to: &SlotWords) {
    for (value, place) in from.options.iter().zip(&to.options) {
        place.store(value.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    // Timeouts of accept are the listener's own.
    for own in [SlotOption::ReceiveTimeout, SlotOption::SendTimeout] {
        to.options[own as usize].store(0, Ordering::Relaxed);
    }
}
