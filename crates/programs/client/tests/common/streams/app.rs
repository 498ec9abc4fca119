//! An application as the small daemon has it: its slots, its flows, and how its threads are told.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use attach::{FallbackReason, Peer};
use base::SlotId;
use shm::sockets::{RingDesc, RingMemory, Side, SocketServer};
use sys::eventfd::EventFd;

/// One flow's half: what the daemon keeps to itself.
#[derive(Default)]
pub(crate) struct Flow {
    pub(crate) rx: Option<RingMemory>,
    pub(crate) tx: Vec<RingMemory>,
    pub(crate) rx_tail: u64,
    pub(crate) tx_read: u64,
    /// The other half: application and slot.
    pub(crate) other: Option<(usize, SlotId)>,
    /// The application wants to hear of room.
    pub(crate) was_full: bool,
}

pub(crate) struct App {
    pub(crate) peers: Vec<Peer>,
    pub(crate) server: SocketServer,
    pub(crate) doorbell: EventFd,
    /// Writing ends by poller.
    pub(crate) pollers: BTreeMap<u32, OwnedFd>,
    pub(crate) flows: BTreeMap<SlotId, Flow>,
    /// Pollers, fallbacks and cookies as they were told.
    pub(crate) fallbacks: Vec<FallbackReason>,
    pub(crate) marked: BTreeSet<SlotId>,
}

impl App {
    pub(crate) fn lend(&mut self, state: u32) -> SlotId {
        let slot = self.server.lend_slot().expect("there are some");
        let words = self.server.memory().slot(slot).expect("it was lent");
        words.state.store(state, Ordering::Release);
        slot
    }

    /// Rings for a flow.
    pub(crate) fn set_up(&mut self, slot: SlotId) {
        self.flows.insert(slot, Flow::default());
        self.offer(slot, 12);
    }

    /// Somebody waits for room; there may be some already.
    pub(crate) fn is_waiting(&mut self, slot: SlotId) {
        if let Some(flow) = self.flows.get_mut(&slot) {
            flow.was_full = true;
            self.tell_of_room(slot);
        }
    }

    pub(crate) fn tell_of_room(&mut self, slot: SlotId) {
        let words = self.server.memory().slot(slot).expect("it was lent");
        let flow = self.flows.get_mut(&slot).expect("it was set up");
        let bytes = RingDesc::of_word(words.tx_ring_used.load(Ordering::Relaxed)).bytes();
        let left = words.tx_tail.load(Ordering::Relaxed) - flow.tx_read;
        if flow.was_full && (bytes - left) * 3 >= bytes {
            flow.was_full = false;
            self.notify(slot);
        }
    }

    pub(crate) fn offer(&mut self, slot: SlotId, log2: u8) {
        let ring = self.server.heap().lend(log2).expect("there is room");
        let words = self.server.memory().slot(slot).expect("it was lent");
        words.tx_ring.store(ring.desc().word(), Ordering::Release);
        self.flows.get_mut(&slot).expect("it was set up").tx.push(ring);
    }

    pub(crate) fn room(&self, slot: SlotId) -> usize {
        let words = self.server.memory().slot(slot).expect("it was lent");
        let flow = &self.flows[&slot];
        (1 << 14) - (flow.rx_tail - words.rx_head.load(Ordering::Acquire)) as usize
    }

    /// Copies bytes into the receive ring.
    pub(crate) fn place(&mut self, slot: SlotId, bytes: &[u8]) -> bool {
        if bytes.len() > self.room(slot) {
            return false;
        }
        let flow = self.flows.get_mut(&slot).expect("it was set up");
        let words = self.server.memory().slot(slot).expect("it was lent");
        let heap = self.server.heap();
        let ring = flow.rx.get_or_insert_with(|| heap.lend(14).expect("there is room"));
        words.rx_ring.store(ring.desc().word(), Ordering::Release);
        for &byte in bytes {
            ring.piece().split_at(flow.rx_tail as usize % (1 << 14)).1.copy_in(&[byte]);
            flow.rx_tail += 1;
        }
        words.rx_tail.store(flow.rx_tail, Ordering::Release);
        true
    }

    /// Takes what was written, `most` bytes of it at most, and acknowledges it.
    pub(crate) fn collect(&mut self, slot: SlotId, most: usize) -> Vec<u8> {
        let flow = self.flows.get_mut(&slot).expect("it was set up");
        let words = self.server.memory().slot(slot).expect("it was lent");
        let tail = words.tx_tail.load(Ordering::Acquire);
        let desc = RingDesc::of_word(words.tx_ring_used.load(Ordering::Acquire));
        let Some(ring) = flow.tx.iter().find(|ring| ring.desc() == desc) else {
            assert_eq!(tail, flow.tx_read, "bytes come in a ring that was offered");
            return Vec::new();
        };
        let count = (tail - flow.tx_read).min(most as u64);
        let bytes = (flow.tx_read..flow.tx_read + count)
            .map(|at| ring.read_piece().byte((at % desc.bytes()) as usize).expect("it is inside"))
            .collect();
        flow.tx_read += count;
        words.tx_head.store(flow.tx_read, Ordering::Release);
        bytes
    }

    /// Tells the application's threads of news of a socket.
    pub(crate) fn notify(&self, slot: SlotId) {
        let words = self.server.memory().slot(slot).expect("it was lent");
        for (poller, pipe) in &self.pollers {
            let word = &words.pollers[(*poller / 64) as usize];
            let ready_bits =
                self.server.memory().poller(Side::Zero, *poller).expect("there is one");
            if word.load(Ordering::Acquire) & 1 << (poller % 64) != 0
                && ready_bits.set(slot)
                && ready_bits.claim_wake()
            {
                let _ = rustix::io::write(pipe, &[1]);
            }
        }
        std::sync::atomic::fence(Ordering::SeqCst);
        if words.sleepers.load(Ordering::Relaxed) != 0 {
            words.sleepers.store(0, Ordering::Relaxed);
            words.notify_word.fetch_add(1, Ordering::Release);
            sys::futex::wake(&words.notify_word, sys::futex::Scope::Shared, u32::MAX >> 1);
        }
    }
}

pub(crate) fn worker(app: &App) -> shm::sockets::ReadyBits<'_> {
    app.server.memory().worker(0).expect("there is one")
}
