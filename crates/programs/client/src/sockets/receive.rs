//! Reading from a connection.

use std::sync::atomic::{Ordering, fence};

use rustix::io::Errno;
use shm::sockets::{Piece, RingDesc, SlotOption};

use super::slot::Slot;
use super::socket::Socket;
use super::stretch::{Nonsense, Stretch};
use super::verdict::Verdict;

/// The flags of recv(2) that change what is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveFlags {
    /// The bytes stay, and are read again by the next call: MSG_PEEK.
    pub peek: bool,
    /// The whole length of a datagram is returned, however much of it fits: MSG_TRUNC.
    pub truncate: bool,
    /// Datagrams of one length that follow on each other come as one, of at most this many bytes:
    /// UDP_GRO. Zero: each comes alone.
    pub join_bytes: usize,
    /// The call has taken some already: an error that waits is left for the next one.
    pub after_some: bool,
}

impl Socket {
    /// Reads bytes: `copy` is given stretches of them, in order, and says how many it took; fewer
    /// than there are end the call. How many were read; 0 at the end of the stream.
    ///
    /// # Errors
    /// EAGAIN while there is none; the connection's error, once; ENOTCONN; and what `copy` returns
    /// before anything was taken.
    #[inline]
    pub fn receive_with(
        &self,
        flags: ReceiveFlags,
        mut copy: impl FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let slot = self.slot()?;
        let _lock = slot.hold(&slot.words.rx_lock)?;
        if let Ok(unread) = slot.unread()
            && unread.tail > unread.head
            && !self.is_listener()
        {
            let plain = slot.past_urgent(unread, flags);
            if plain.bytes() > 0 {
                return slot.take_bytes(&plain, flags, &mut copy);
            }
        }
        slot.receive_slow(flags, &mut copy)
    }

    /// Reads into a slice.
    ///
    /// # Errors
    /// As for [`Self::receive_with`].
    #[inline]
    pub fn receive(&self, to: &mut [u8]) -> Result<usize, Errno> {
        if to.is_empty() {
            return Ok(0);
        }
        let mut done = 0;
        self.receive_with(ReceiveFlags::default(), |piece| {
            let copied = piece.copy_out(&mut to[done..]);
            done += copied;
            Ok(copied)
        })
    }

    /// Bytes that can be read now, up to the urgent one: FIONREAD (SIOCINQ of tcp(7)).
    pub fn unread_bytes(&self) -> u64 {
        let Ok(slot) = self.slot() else { return 0 };
        slot.unread().map_or(0, |unread| match slot.urgent_among(&unread) {
            Some(at) => at - unread.head,
            None => unread.bytes(),
        })
    }

    /// Whether the next byte is the one after the urgent data: sockatmark(3).
    pub fn at_mark(&self) -> bool {
        let Ok(slot) = self.slot() else { return false };
        let mark = slot.urgent_mark();
        let head = slot.words.rx_head.load(Ordering::Relaxed);
        // The mark is the urgent byte itself, as in Linux.
        mark > 1 && head == mark - 2
    }

    /// Has the next call, or SO_ERROR of socket(7), tell this error, unless one waits already.
    pub fn leave_error(&self, error: Errno) {
        if let Ok(slot) = self.slot() {
            let code = error.raw_os_error().unsigned_abs();
            let word = &slot.words.error;
            let _ = word.compare_exchange(0, code, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The urgent byte (RFC 6093; MSG_OOB of recv(2)); who only peeks can read it again.
    ///
    /// # Errors
    /// EINVAL: there is none, or it was read already. EAGAIN: it was announced and has not come.
    pub fn receive_urgent(&self, peek: bool) -> Result<u8, Errno> {
        let slot = self.slot()?;
        let _lock = slot.hold(&slot.words.rx_lock)?;
        let mark = slot.urgent_mark();
        let unread = slot.unread().map_err(|Nonsense| Errno::INVAL)?;
        if !slot.has_urgent(unread.head) || slot.words.option(SlotOption::UrgentInline) != 0 {
            return Err(Errno::INVAL);
        }
        let at = mark - 2;
        if at >= unread.tail {
            return Err(Errno::AGAIN);
        }
        let from = Stretch { head: at, ..unread };
        let pieces = slot.unread_pieces(&from, 1).map_err(|Nonsense| Errno::INVAL)?;
        let mut byte = [0];
        pieces[0].copy_out(&mut byte);
        if !peek {
            slot.words.urgent_read.store(mark, Ordering::Relaxed);
        }
        Ok(byte[0])
    }
}

impl Slot<'_> {
    #[cold]
    fn receive_slow(
        &self,
        flags: ReceiveFlags,
        copy: &mut dyn FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        loop {
            match self.view().receive() {
                Verdict::Copy => match self.unread() {
                    Ok(unread) => {
                        let plain = self.past_urgent(unread, flags);
                        return self.take_bytes(&plain, flags, copy);
                    }
                    Err(Nonsense) => self.break_off(Errno::CONNRESET),
                },
                Verdict::End => return Ok(0),
                // If another thread has taken it, this one sees what comes after it.
                Verdict::Error => {
                    if let Some(error) = self.error_for(flags.after_some) {
                        return Err(error);
                    }
                }
                Verdict::Fail(error) => return Err(error),
                Verdict::Wait => match self.unread() {
                    Ok(_) => return Err(Errno::AGAIN),
                    Err(Nonsense) => self.break_off(Errno::CONNRESET),
                },
            }
        }
    }

    #[inline]
    fn take_bytes(
        &self,
        unread: &Stretch,
        flags: ReceiveFlags,
        mut copy: impl FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let broken = |Nonsense| {
            self.break_off(Errno::CONNRESET);
            Errno::CONNRESET
        };
        let pieces = self.unread_pieces(unread, unread.bytes() as usize).map_err(broken)?;
        let sample = self.words.trace.load(Ordering::Relaxed);
        if sample != 0 {
            self.note_read(sample);
        }
        let mut taken = 0;
        for piece in pieces {
            if piece.is_empty() {
                break;
            }
            match copy(piece) {
                Ok(bytes) => taken += bytes.min(piece.len()),
                Err(error) if taken == 0 => return Err(error),
                Err(_) => break,
            }
            if taken < pieces[0].len() {
                break;
            }
        }
        // A daemon that is short of memory takes the ring from the words before it takes the bytes.
        fence(Ordering::Acquire);
        if RingDesc::of_word(self.words.rx_ring.load(Ordering::Relaxed)).is_none() {
            return Err(broken(Nonsense));
        }
        if !flags.peek {
            let head = unread.head + taken as u64;
            self.words.rx_head.store(head, Ordering::Release);
            // The other side is told of each quarter that has become free of what it may write, so
            // that its picture is never older than that, and an ordinary request costs no call.
            let quarter = (unread.ring.bytes().min(self.most_unread()) / 4).max(1);
            if unread.head / quarter != head / quarter {
                self.tell();
            }
        }
        Ok(taken)
    }

    /// Urgent bytes are not read with the others, and a call stops before one. One that nothing
    /// follows is no end: who reads waits for more.
    #[inline]
    fn past_urgent(&self, unread: Stretch, flags: ReceiveFlags) -> Stretch {
        match self.urgent_among(&unread) {
            None => unread,
            Some(at) => self.around_urgent(unread, at, flags),
        }
    }

    #[cold]
    fn around_urgent(&self, unread: Stretch, at: u64, flags: ReceiveFlags) -> Stretch {
        if at > unread.head {
            return Stretch { tail: at, ..unread };
        }
        let past = Stretch { head: at + 1, ..unread };
        // Who only looks leaves it where it is.
        if !flags.peek {
            self.words.rx_head.store(past.head, Ordering::Release);
        }
        past
    }

    /// Whether an urgent byte was announced that was not read, and that nothing behind it was.
    pub(super) fn has_urgent(&self, head: u64) -> bool {
        let mark = self.urgent_mark();
        mark > head + 1 && mark != self.words.urgent_read.load(Ordering::Relaxed)
    }

    /// Where the urgent byte is, if it is among these and not read with the others.
    #[inline]
    fn urgent_among(&self, unread: &Stretch) -> Option<u64> {
        let at = self.urgent_mark().checked_sub(2)?;
        if at < unread.head || at >= unread.tail {
            return None;
        }
        (self.words.option(SlotOption::UrgentInline) == 0).then_some(at)
    }

    /// How many of these a call that reads can take by and by: all but an urgent byte before them.
    pub(crate) fn plain_bytes(&self, unread: &Stretch) -> u64 {
        let is_first = self.urgent_among(unread) == Some(unread.head);
        unread.bytes() - u64::from(is_first)
    }
}
