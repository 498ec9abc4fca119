//! The words of one socket, read and written as its own side may, whether the other side is the
//! daemon or another program.
//!
//! A word that another application or a broken daemon may have written is checked: an impossible
//! position breaks the connection, and never leads to a copy from a wrong place.

use std::sync::atomic::{AtomicU32, Ordering};

use base::SlotId;
use rustix::io::Errno;
use shm::sockets::{
    Asks, Backlog, Kind, Piece, RingDesc, SlotLock, SlotOption, SlotState, SlotWords,
};

use super::buffers::most_between;
use super::lock;
use super::region::Region;
use super::stretch::{Nonsense, Stretch};
use super::verdict::{Phase, SocketView};

/// A socket's words at hand.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a> {
    pub(crate) region: &'a Region,
    pub(crate) slot: SlotId,
    pub(crate) words: &'a SlotWords,
    /// Of a local connection: its other end's.
    peer: Option<&'a SlotWords>,
}

/// So often a look is begun anew because a position of our own side has moved during it. Other
/// threads move it at most once in a copy of bytes, so this many is the work of an application that
/// violates the protocol.
const LOOKS_MAX: u32 = 10_000;

impl<'a> Slot<'a> {
    pub(crate) fn new(region: &'a Region, slot: SlotId, words: &'a SlotWords) -> Self {
        let peer = region.peer(slot).map(|(_, words)| words);
        Self { region, slot, words, peer }
    }

    /// Takes the lock of one direction of it, and waits for it if another thread has it.
    ///
    /// # Errors
    /// EDEADLK: see [`lock::hold`]. ECONNRESET: the neighbour at the other end has written into the
    /// lock, and the connection is over. [`lock::GIVEN_TO_KERNEL`]: the connection is the kernel's.
    #[inline]
    pub(crate) fn hold(&self, word: &'a AtomicU32) -> Result<SlotLock<'a>, Errno> {
        if self.peer.is_none() {
            let is_over = || self.is_kernels() || self.region.is_over();
            return lock::hold(word, is_over).map_err(|error| match error {
                lock::GIVEN_TO_KERNEL if !self.is_kernels() => self.lost(),
                error => error,
            });
        }
        lock::hold_beside_a_neighbour(word).inspect_err(|error| {
            if *error == Errno::CONNRESET {
                self.break_off(*error);
            }
        })
    }

    /// Whether the connection was given to the kernel.
    #[inline]
    pub(crate) fn is_kernels(&self) -> bool {
        self.words.state().has(SlotState::KERNELS)
    }

    /// A daemon that has ended in the middle of giving a connection to the kernel has lost it.
    #[cold]
    fn lost(&self) -> Errno {
        self.break_off(Errno::CONNRESET);
        Errno::CONNRESET
    }

    /// What can be read. Another thread may read meanwhile, unless the caller has the lock.
    #[inline]
    pub(crate) fn unread(&self) -> Result<Stretch, Nonsense> {
        for _ in 0..LOOKS_MAX {
            let head = self.words.rx_head.load(Ordering::Acquire);
            // The position that bounds the reading before the ring that it is about.
            let tail = match self.peer {
                None => self.words.rx_tail.load(Ordering::Acquire),
                Some(peer) => peer.tx_tail.load(Ordering::Acquire),
            };
            let ring = RingDesc::of_word(self.words.rx_ring.load(Ordering::Acquire));
            if self.words.rx_head.load(Ordering::Relaxed) == head {
                return Stretch { ring, head, tail }.possible();
            }
        }
        Err(Nonsense)
    }

    /// Where the peer's urgent data end, plus one. Of a peer on this host it is what that has
    /// written last: nobody carries it over, and the positions of both are the same.
    #[inline]
    pub(crate) fn urgent_mark(&self) -> u64 {
        match self.peer {
            None => self.words.rx_urgent.load(Ordering::Acquire),
            Some(peer) => peer.tx_urgent.load(Ordering::Acquire),
        }
    }

    /// The pieces of what can be read, from `head` on.
    #[inline]
    pub(crate) fn unread_pieces(
        &self,
        stretch: &Stretch,
        bytes: usize,
    ) -> Result<[Piece<'a>; 2], Nonsense> {
        let base = u64::from(self.words.rx_base.load(Ordering::Relaxed));
        let index = stretch.head.wrapping_add(base);
        self.region.memory.pieces(stretch.ring, index, bytes).ok_or(Nonsense)
    }

    /// What is written and not acknowledged, in the ring that is written to. Another thread may
    /// write meanwhile, unless the caller has the lock.
    #[inline]
    pub(crate) fn unacknowledged(&self) -> Result<Stretch, Nonsense> {
        for _ in 0..LOOKS_MAX {
            let tail = self.words.tx_tail.load(Ordering::Acquire);
            let head = match self.peer {
                None => self.words.tx_head.load(Ordering::Acquire),
                Some(peer) => peer.rx_head.load(Ordering::Acquire),
            };
            let ring = RingDesc::of_word(self.words.tx_ring_used.load(Ordering::Acquire));
            if self.words.tx_tail.load(Ordering::Relaxed) == tail {
                return Stretch { ring, head, tail }.possible();
            }
        }
        Err(Nonsense)
    }

    /// The pieces of the send ring `ring` from a position on.
    #[inline]
    pub(crate) fn send_pieces(
        &self,
        ring: RingDesc,
        position: u64,
        bytes: usize,
    ) -> Result<[Piece<'a>; 2], Nonsense> {
        let base = u64::from(self.words.tx_base.load(Ordering::Relaxed));
        self.region.memory.pieces(ring, position.wrapping_add(base), bytes).ok_or(Nonsense)
    }

    /// The ring that should be written to.
    #[inline]
    pub(crate) fn offered(&self) -> RingDesc {
        RingDesc::of_word(self.words.tx_ring.load(Ordering::Acquire))
    }

    /// Bytes that can be written now, as far as can be seen without the lock.
    fn room(&self, written: &Stretch) -> u64 {
        let offered = self.offered();
        if offered.is_none() && written.ring.is_none() {
            // There is none before the first byte, unless it was asked for already: then none is
            // to be had yet.
            return u64::from(self.words.asks().grow() == 0);
        }
        let most = offered.bytes().max(written.ring.bytes()).min(self.most());
        most.saturating_sub(written.bytes())
    }

    /// Bytes that may be written and not read by a peer on this host: what the writer has asked for
    /// (SO_SNDBUF), and what the reader has, or would have (SO_RCVBUF). The ring bounds it too.
    pub(crate) fn most(&self) -> u64 {
        self.peer.map_or(u64::MAX, |peer| most_between(self.words, peer))
    }

    /// [`Self::most`] of the peer's: bytes that we may have not read.
    pub(crate) fn most_unread(&self) -> u64 {
        self.peer.map_or(u64::MAX, |peer| most_between(peer, self.words))
    }

    /// Has the other side look.
    #[inline]
    pub(crate) fn tell(&self) {
        self.region.tell(self.slot, self.words);
    }

    /// Asks for something, and says so; what was asked for before.
    pub(crate) fn ask(&self, asks: u32) -> Asks {
        let before = self.words.asks.fetch_or(asks, Ordering::AcqRel);
        self.tell();
        Asks(before)
    }

    /// What a TCP socket's state is at this moment.
    pub(crate) fn view(&self) -> SocketView {
        self.settle();
        let words = self.words;
        // Flags before positions: who says that nothing more comes has placed all of it.
        let state = words.state();
        let (own, peer) = (words.asks(), self.peer.map(SlotWords::asks).unwrap_or_default());
        if state.kind() == Kind::Listener {
            return self.listener_view(own);
        }
        // Of a local peer that has reset the connection no end has come.
        let is_peer_done = state.has(SlotState::PEER_CLOSED)
            || peer.has(Asks::SHUT_WRITE)
            || (peer.has(Asks::CLOSE) && !state.has(SlotState::BROKEN));
        let (Ok(unread), Ok(written)) = (self.unread(), self.unacknowledged()) else {
            return self.broken_view(own);
        };
        // Both ends have been said and heard: within the host that is one moment. Linux has closed
        // the socket by then, whether or not a TIME-WAIT is left of it.
        let are_both_done = is_peer_done
            && match self.peer {
                Some(_) => own.has(Asks::SHUT_WRITE),
                None => state.has(SlotState::SENT_ALL),
            };
        let is_over = state.has(SlotState::BROKEN | SlotState::FINISHED)
            || are_both_done
            || state.kind() == Kind::Free
            || own.has(Asks::CLOSE | Asks::ABORT);
        let phase = if is_over {
            Phase::Closed
        } else if state.has(SlotState::CONNECTED) {
            Phase::Open
        } else {
            Phase::Connecting
        };
        let low = u64::from(words.option(SlotOption::ReceiveLow));
        SocketView {
            phase,
            unread: self.plain_bytes(&unread),
            low_water: low.clamp(1, (unread.ring.bytes() / 2).max(1)),
            is_peer_done,
            is_read_shut: own.has(Asks::SHUT_READ),
            is_write_shut: own.has(Asks::SHUT_WRITE),
            room: self.room(&written),
            queued: written.bytes(),
            is_backlogged: self.is_backlogged(&written),
            error: self.error(),
            is_urgent: self.has_urgent(unread.head),
        }
    }

    fn listener_view(&self, own: Asks) -> SocketView {
        let is_over = self.words.state().has(SlotState::BROKEN | SlotState::FINISHED);
        let has_any = Backlog::has_any(&self.region.memory, self.words);
        SocketView {
            phase: Phase::Listening,
            unread: u64::from(has_any),
            is_read_shut: own.has(Asks::SHUT_READ | Asks::CLOSE) || is_over,
            error: self.error(),
            ..NOTHING
        }
    }

    fn broken_view(&self, own: Asks) -> SocketView {
        SocketView {
            phase: Phase::Closed,
            is_read_shut: own.has(Asks::SHUT_READ),
            is_write_shut: own.has(Asks::SHUT_WRITE),
            error: self.error(),
            ..NOTHING
        }
    }

    fn is_backlogged(&self, written: &Stretch) -> bool {
        match self.words.option(SlotOption::NotSentLow) {
            0 => false,
            // What is on its way counts too: the daemon does not say how much that is.
            low => written.bytes() >= u64::from(low),
        }
    }

    pub(crate) fn error(&self) -> Option<Errno> {
        match self.words.error.load(Ordering::Acquire) {
            0 => None,
            code => Some(errno(code)),
        }
    }

    /// Takes the waiting error: no other call sees it.
    pub(crate) fn take_error(&self) -> Option<Errno> {
        match self.words.error.swap(0, Ordering::AcqRel) {
            0 => None,
            code => Some(errno(code)),
        }
    }

    /// The waiting error for a call that returns it, or that returns what it has done before: then
    /// it goes on waiting.
    pub(crate) fn error_for(&self, is_left: bool) -> Option<Errno> {
        if is_left { self.error() } else { self.take_error() }
    }

    /// What the other side would say if it could: that it is gone, that it has reset the
    /// connection, that its words cannot be.
    #[inline]
    pub(crate) fn settle(&self) {
        if self.region.is_over() {
            self.break_off(Errno::CONNRESET);
        } else if let Some(peer) = self.peer {
            let (asks, own) = (peer.asks(), self.words.asks());
            let is_reset =
                asks.has(Asks::ABORT) || (asks.has(Asks::CLOSE) && self.is_peer_deaf(peer));
            // An end that was said before was heard before.
            if is_reset && asks.has(Asks::SHUT_WRITE) && !own.has(Asks::SHUT_WRITE) {
                self.break_off_behind_an_end();
            } else if is_reset && !asks.has(Asks::SHUT_WRITE) || self.has_refused_bytes() {
                self.break_off(Errno::CONNRESET);
            }
        }
    }

    /// It was shut both ways and was written to after that, as the writer has left word: who resets
    /// what comes has no connection any more.
    fn has_refused_bytes(&self) -> bool {
        let reset = Errno::CONNRESET.raw_os_error().unsigned_abs();
        self.words.error.load(Ordering::Acquire) == reset && self.words.asks().0 & BOTH == BOTH
    }

    /// What is written to a peer of this host that has closed in order breaks the pipe: the peer's
    /// end was heard before its reset (`tcp_reset` of Linux in CLOSE-WAIT), and is told on.
    pub(crate) fn note_write_to_an_end(&self) {
        if self.peer.is_some_and(|peer| peer.asks().has(Asks::CLOSE)) {
            self.break_off_behind_an_end();
        }
    }

    /// Whether what was written goes nowhere: a peer of this host that was shut both ways resets
    /// what comes, and is left word of that.
    #[inline]
    pub(crate) fn is_refused(&self) -> bool {
        let Some(peer) = self.peer.filter(|peer| peer.asks().0 & BOTH == BOTH) else {
            return false;
        };
        self.break_off_behind_an_end();
        let reset = Errno::CONNRESET.raw_os_error().unsigned_abs();
        let _ = peer.error.compare_exchange(0, reset, Ordering::AcqRel, Ordering::Relaxed);
        self.tell();
        true
    }

    /// As `tcp_reset` of Linux in CLOSE-WAIT.
    #[cold]
    fn break_off_behind_an_end(&self) {
        self.words.state.fetch_or(SlotState::PEER_CLOSED, Ordering::AcqRel);
        self.break_off(Errno::PIPE);
    }

    /// A side that closes with bytes unread, or is written to after it has closed, resets (RFC 9293
    /// 3.6.1).
    fn is_peer_deaf(&self, peer: &SlotWords) -> bool {
        self.words.tx_tail.load(Ordering::Acquire) != peer.rx_head.load(Ordering::Acquire)
    }

    /// Ends the connection on this side, once, with an error for the next call.
    #[cold]
    pub(crate) fn break_off(&self, error: Errno) {
        let over = SlotState::BROKEN | SlotState::FINISHED | SlotState::KERNELS;
        let state = self.words.state();
        // A free slot belongs to no socket, unless all are given up at once: then it was not
        // closed.
        if state.has(over) || (state.kind() == Kind::Free && !self.region.is_over()) {
            return;
        }
        // The error first: who sees the state finds it.
        let code = error.raw_os_error().unsigned_abs();
        let _ = self.words.error.compare_exchange(0, code, Ordering::AcqRel, Ordering::Relaxed);
        let before = self.words.state.fetch_or(SlotState::BROKEN, Ordering::AcqRel);
        if before & over != 0 {
            // Another thread was faster, and its error may have been read already.
            let _ = self.words.error.compare_exchange(code, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// Shut both ways.
const BOTH: u32 = Asks::SHUT_READ | Asks::SHUT_WRITE;

/// A socket of which nothing can be had.
const NOTHING: SocketView = SocketView {
    phase: Phase::Closed,
    unread: 0,
    low_water: 1,
    is_peer_done: false,
    is_read_shut: false,
    is_write_shut: false,
    room: 0,
    queued: 0,
    is_backlogged: false,
    error: None,
    is_urgent: false,
};

/// An error that stands in shared memory.
fn errno(code: u32) -> Errno {
    match i32::try_from(code) {
        Ok(code @ 1..=4095) => Errno::from_raw_os_error(code),
        _ => Errno::IO,
    }
}
