//! The program's buffers: one, or a list of them, as a cursor that copies to or from the data
//! plane's memory.

use calisto_client::sockets::Piece;
use libc::{c_int, c_void, iovec};
use rustix::io::Errno;

use crate::system::{copy, faults};

/// Buffers of a list, at most.
const PARTS_MAX: usize = libc::UIO_MAXIOV as usize;

/// Bytes of one call, at most, as the kernel cuts them.
const BYTES_MAX: usize = 0x7fff_f000;

/// Buffers, and how far they have been used.
#[derive(Clone, Copy)]
pub(crate) struct Spans {
    /// The one in use.
    start: *mut u8,
    bytes: usize,
    /// Those after it.
    next: *const iovec,
    count: usize,
    /// Bytes that are left of the whole.
    left: usize,
    whole: usize,
}

impl Spans {
    /// One buffer.
    pub(crate) fn one(start: *const c_void, bytes: usize) -> Self {
        faults::watch();
        let bytes = bytes.min(BYTES_MAX);
        Self {
            start: start.cast_mut().cast(),
            bytes,
            next: std::ptr::null(),
            count: 0,
            left: bytes,
            whole: bytes,
        }
    }

    /// A list of them.
    ///
    /// # Safety
    /// Reading the list is the program's wish.
    pub(crate) unsafe fn list(parts: *const iovec, count: c_int) -> Result<Self, Errno> {
        let count = usize::try_from(count).map_err(|_| Errno::INVAL)?;
        // SAFETY: the caller's promise.
        unsafe { Self::counted(parts, count, Errno::INVAL) }
    }

    /// The list of a message.
    ///
    /// # Safety
    /// Reading the list is the program's wish.
    pub(crate) unsafe fn of_message(parts: *const iovec, count: usize) -> Result<Self, Errno> {
        // SAFETY: the caller's promise.
        unsafe { Self::counted(parts, count, Errno::MSGSIZE) }
    }

    unsafe fn counted(parts: *const iovec, count: usize, too_many: Errno) -> Result<Self, Errno> {
        if count > PARTS_MAX {
            return Err(too_many);
        }
        faults::watch();
        let mut left = 0_usize;
        for index in 0..count {
            // SAFETY: the caller's promise; any bits are an iovec.
            let part = unsafe { copy::get(parts.add(index))? };
            if isize::try_from(part.iov_len).is_err() {
                return Err(Errno::INVAL);
            }
            left = left.saturating_add(part.iov_len);
        }
        let left = left.min(BYTES_MAX);
        Ok(Self { start: std::ptr::null_mut(), bytes: 0, next: parts, count, left, whole: left })
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// The buffers themselves, for a call of the kernel; `one` has room for a single one. None:
    /// some of them are used already.
    pub(crate) fn untouched(&self, one: &mut iovec) -> Option<(*const iovec, usize)> {
        if self.left != self.whole {
            return None;
        }
        if self.start.is_null() && self.bytes == 0 {
            return Some((self.next, self.count));
        }
        *one = iovec { iov_base: self.start.cast(), iov_len: self.bytes };
        Some((std::ptr::from_ref(one), 1))
    }

    /// Bytes of all together.
    pub(crate) fn whole(&self) -> usize {
        self.whole
    }

    /// Copies bytes of ours into the buffers; how many found room.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut done = 0;
        while let Some((buffer, room)) = self.next(bytes.len() - done)? {
            // SAFETY: the program has named the buffer for this; `bytes` is ours.
            unsafe { copy::copy(buffer, bytes[done..].as_ptr(), room)? };
            self.advance(room);
            done += room;
        }
        Ok(done)
    }

    /// Copies bytes from the buffers to memory of ours; how many there were.
    pub(crate) fn take(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        let mut done = 0;
        while let Some((buffer, bytes)) = self.next(to.len() - done)? {
            // SAFETY: the program has named the buffer for this; `to` has room for that many.
            unsafe { copy::copy(to[done..].as_mut_ptr(), buffer, bytes)? };
            self.advance(bytes);
            done += bytes;
        }
        Ok(done)
    }

    /// The next stretch of at most `most` bytes; none when all is used.
    fn next(&mut self, most: usize) -> Result<Option<(*mut u8, usize)>, Errno> {
        let most = most.min(self.left);
        if most == 0 {
            return Ok(None);
        }
        while self.bytes == 0 {
            if self.count == 0 {
                return Ok(None);
            }
            // SAFETY: the list has that many elements, or had when it was counted; any bits are an
            // iovec.
            let part = unsafe { copy::get(self.next)? };
            (self.start, self.bytes) = (part.iov_base.cast(), part.iov_len);
            // SAFETY: not beyond the end of the list.
            self.next = unsafe { self.next.add(1) };
            self.count -= 1;
        }
        Ok(Some((self.start, self.bytes.min(most))))
    }

    fn advance(&mut self, bytes: usize) {
        self.start = self.start.wrapping_add(bytes);
        self.bytes -= bytes;
        self.left -= bytes;
    }

    /// Fills the buffers from a piece; how many bytes found room. A bad address is an error only if
    /// nothing went before it, as with the kernel.
    pub(crate) fn fill(&mut self, piece: Piece<'_>) -> Result<usize, Errno> {
        self.each(piece, |buffer, shared, bytes| {
            // SAFETY: the program has named the buffer for this; the piece has that many bytes and
            // is memory that is only ever copied from.
            unsafe { copy::copy(buffer, shared, bytes) }
        })
    }

    /// Fills a piece from the buffers; how many bytes there were.
    pub(crate) fn empty(&mut self, piece: Piece<'_>) -> Result<usize, Errno> {
        self.each(piece, |buffer, shared, bytes| {
            // SAFETY: the program has named the buffer for this; the piece has room for that many
            // bytes and is memory that is only ever copied to.
            unsafe { copy::copy(shared, buffer, bytes) }
        })
    }

    #[inline]
    fn each(
        &mut self,
        piece: Piece<'_>,
        mut carry: impl FnMut(*mut u8, *mut u8, usize) -> Result<(), Errno>,
    ) -> Result<usize, Errno> {
        let mut done = 0;
        while done < piece.len() {
            let carried = self.next(piece.len() - done).and_then(|found| {
                let Some((buffer, bytes)) = found else { return Ok(0) };
                carry(buffer, piece.as_ptr().wrapping_add(done), bytes)?;
                Ok(bytes)
            });
            match carried {
                Ok(0) => break,
                Ok(bytes) => {
                    self.advance(bytes);
                    done += bytes;
                }
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Counts bytes as used that are not wanted; how many there was room for.
    pub(crate) fn skip(&mut self, piece: Piece<'_>) -> usize {
        let bytes = piece.len().min(self.left);
        self.left -= bytes;
        bytes
    }
}
