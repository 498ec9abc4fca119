//! Writing to a connection.

use std::sync::atomic::Ordering;

use rustix::io::Errno;
use shm::sockets::{Asks, Piece, RingDesc, SlotOption, SlotState, TX_GROW_SHIFT};

use super::slot::Slot;
use super::socket::Socket;
use super::stretch::{Nonsense, Stretch};
use super::verdict::Verdict;

/// The flags of send(2) that change how bytes are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendFlags {
    /// More bytes follow, so a segment that is not full waits for them: MSG_MORE.
    pub more: bool,
    /// The last byte is urgent: MSG_OOB (RFC 6093).
    pub urgent: bool,
    /// The call has sent some already: an error that waits is left for the next one.
    pub after_some: bool,
}

/// A send ring that is wished for before the first byte.
const FIRST_LOG2: u8 = 14;

/// A full ring is to become 2 to this power times as long.
const GROW_LOG2: u8 = 2;

/// No ring is longer, as a logarithm.
const SEND_LOG2_MAX: u32 = 30;

/// Bytes that are carried to another ring at a time.
const CARRY: usize = 4096;

impl Socket {
    /// Writes up to `bytes` bytes: `copy` is given stretches of room, in order, and says how much
    /// it has filled; less than there is ends the call. How many were written, at least one.
    ///
    /// # Errors
    /// EAGAIN while there is no room; the connection's error, once; EPIPE; and what `copy` returns
    /// before anything was written.
    #[inline]
    pub fn send_with(
        &self,
        flags: SendFlags,
        bytes: usize,
        mut copy: impl FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let slot = self.slot()?;
        let _lock = slot.hold(&slot.words.tx_lock)?;
        loop {
            match slot.view().send() {
                Verdict::Copy => {}
                Verdict::Error => match slot.error_for(flags.after_some) {
                    Some(error) => return Err(error),
                    None => continue,
                },
                Verdict::Fail(error) => return Err(error),
                Verdict::End | Verdict::Wait => {
                    slot.wish_for(bytes);
                    return Err(Errno::AGAIN);
                }
            }
            if bytes == 0 {
                return Ok(0);
            }
            let written = slot.written().map_err(|Nonsense| slot.nonsense())?;
            if slot.room_of(&written) == 0 {
                slot.wish_for(bytes);
                return Err(Errno::AGAIN);
            }
            return slot.put_bytes(&written, flags, bytes, &mut copy);
        }
    }

    /// Writes a slice, or the beginning of it.
    ///
    /// # Errors
    /// As for [`Self::send_with`].
    #[inline]
    pub fn send(&self, from: &[u8]) -> Result<usize, Errno> {
        let mut done = 0;
        self.send_with(SendFlags::default(), from.len(), |piece| {
            let copied = piece.copy_in(&from[done..]);
            done += copied;
            Ok(copied)
        })
    }

    /// Bytes that may be written ahead of the peer once its ring has grown, which is what SO_SNDBUF
    /// tells of a socket that has not asked for any number; `None` as long as nobody knows.
    pub fn send_buffer_bytes(&self) -> Option<u32> {
        let log2 = self.slot().ok()?.words.tx_log2_max.load(Ordering::Relaxed);
        (1..=SEND_LOG2_MAX).contains(&log2).then(|| 1 << log2)
    }

    /// Bytes that are written and that the peer has not acknowledged: SIOCOUTQ of tcp(7).
    pub fn unsent_bytes(&self) -> u64 {
        let slot = self.slot().ok();
        slot.and_then(|slot| slot.unacknowledged().ok()).map_or(0, |written| written.bytes())
    }
}

impl Slot<'_> {
    fn nonsense(&self) -> Errno {
        self.break_off(Errno::CONNRESET);
        Errno::CONNRESET
    }

    /// What is written, in the ring that is to be written to: if the other side offers another one,
    /// what it has not acknowledged is carried over first.
    #[inline]
    fn written(&self) -> Result<Stretch, Nonsense> {
        let written = self.unacknowledged()?;
        let offered = self.offered();
        if offered == written.ring || offered.is_none() {
            return Ok(written);
        }
        self.move_to(written, offered)
    }

    #[cold]
    fn move_to(&self, written: Stretch, ring: RingDesc) -> Result<Stretch, Nonsense> {
        if written.bytes() > ring.bytes() {
            // It waits until enough of it is acknowledged.
            return Ok(written);
        }
        let mut buffer = [0; CARRY];
        let mut at = written.head;
        while at < written.tail {
            let bytes = (written.tail - at).min(CARRY as u64) as usize;
            let mut done = 0;
            for piece in self.send_pieces(written.ring, at, bytes)? {
                done += piece.copy_out(&mut buffer[done..bytes]);
            }
            let mut done = 0;
            for piece in self.send_pieces(ring, at, bytes)? {
                done += piece.copy_in(&buffer[done..bytes]);
            }
            at += bytes as u64;
        }
        // Release: who sees the new ring sees the bytes in it.
        self.words.tx_ring_used.store(ring.word(), Ordering::Release);
        self.tell();
        Ok(Stretch { ring, ..written })
    }

    #[inline]
    fn put_bytes(
        &self,
        written: &Stretch,
        flags: SendFlags,
        bytes: usize,
        mut copy: impl FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let room = bytes.min(self.room_of(written) as usize);
        let pieces = self.send_pieces(written.ring, written.tail, room);
        let pieces = pieces.map_err(|Nonsense| self.nonsense())?;
        let mut put = 0;
        for piece in pieces {
            if piece.is_empty() {
                break;
            }
            match copy(piece) {
                Ok(bytes) => put += bytes.min(piece.len()),
                Err(error) if put == 0 => return Err(error),
                Err(_) => break,
            }
            if put < pieces[0].len() {
                break;
            }
        }
        if put == 0 {
            return Ok(0);
        }
        self.say_more(flags.more);
        let tail = written.tail + put as u64;
        if flags.urgent && put == bytes {
            self.words.tx_urgent.store(tail + 1, Ordering::Release);
            self.words.asks.fetch_or(Asks::URGENT, Ordering::AcqRel);
        }
        let sample = self.words.trace.load(Ordering::Relaxed);
        if sample != 0 {
            self.note_written(sample);
        }
        if self.is_refused() {
            return Ok(put);
        }
        // Release: who sees the position sees the bytes before it.
        self.words.tx_tail.store(tail, Ordering::Release);
        if put < bytes {
            self.wish(bytes - put, written.ring);
        }
        self.tell();
        self.note_write_to_an_end();
        Ok(put)
    }

    /// Free bytes of the ring that may be used.
    #[inline]
    fn room_of(&self, written: &Stretch) -> u64 {
        written.room().min(self.most().saturating_sub(written.bytes()))
    }

    /// Says of a write with MSG_MORE that more follows, and of the next one that this was it.
    #[inline]
    fn say_more(&self, more: bool) {
        let said = self.words.option(SlotOption::More);
        if more {
            let times = (said >> 1).wrapping_add(1);
            self.words.set_option(SlotOption::More, times << 1 | 1);
        } else if said & 1 != 0 {
            self.words.set_option(SlotOption::More, said & !1);
        }
    }

    /// Asks to be told of room, by a longer ring if one is to be had that takes `bytes` more;
    /// whether one is.
    pub(super) fn wish_for(&self, bytes: usize) -> bool {
        let used = RingDesc::of_word(self.words.tx_ring_used.load(Ordering::Relaxed));
        if self.wish(bytes, used) {
            self.tell();
        }
        used.log2().is_none_or(|log2| self.words.asks().grow() > log2)
    }

    /// Asks to be told of room in the ring as it is.
    #[cold]
    pub(super) fn wait_for_room(&self) {
        let used = RingDesc::of_word(self.words.tx_ring_used.load(Ordering::Relaxed));
        if self.ask_to_grow(used.log2().unwrap_or(FIRST_LOG2)) {
            self.tell();
        }
    }

    /// Writes down the wish; whether it is a new one.
    fn wish(&self, bytes: usize, used: RingDesc) -> bool {
        let most = self.words.tx_log2_max.load(Ordering::Relaxed).min(SEND_LOG2_MAX) as u8;
        let longer = used.log2().map_or(FIRST_LOG2, |log2| log2 + GROW_LOG2);
        // A large write is worth a ring that takes all of it.
        let fits = (used.bytes() + bytes as u64).next_power_of_two().trailing_zeros() as u8;
        let least = used.log2().unwrap_or(FIRST_LOG2);
        self.ask_to_grow(longer.max(fits).min(most).max(least))
    }

    /// The other side takes the wish out when it has heard it, and tells us of room then, or later;
    /// so it is written down again whenever there is none. A local peer needs none of that.
    fn ask_to_grow(&self, log2: u8) -> bool {
        let is_ready_for_it = !self.words.state().has(SlotState::CONNECTING);
        if self.region.is_local_pair() || !is_ready_for_it || self.words.asks().grow() >= log2 {
            return false;
        }
        let set = |asks| Some(asks & !Asks::GROW | u32::from(log2) << TX_GROW_SHIFT);
        self.words.asks.fetch_update(Ordering::AcqRel, Ordering::Relaxed, set).is_ok()
    }
}
