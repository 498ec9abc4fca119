//! A stretch of memory to copy into, and from.

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::ReadPiece;
use crate::copy::copy;

/// A stretch of memory that is only copied into and from, and that others may write meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    start: NonNull<u8>,
    bytes: usize,
    memory: PhantomData<&'a mut u8>,
}

impl<'a> Piece<'a> {
    /// No bytes.
    pub const EMPTY: Self = Self { start: NonNull::dangling(), bytes: 0, memory: PhantomData };

    /// # Safety
    /// `bytes` from `start` on can be read and written for `'a`, and while they are, nobody in this
    /// process has a reference to them or touches them otherwise than through pieces.
    pub const unsafe fn new(start: NonNull<u8>, bytes: usize) -> Self {
        Self { start, bytes, memory: PhantomData }
    }

    /// How long it is.
    #[inline]
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The same bytes, to be copied from.
    #[inline]
    pub const fn read(self) -> ReadPiece<'a> {
        // SAFETY: `new` has asked for more.
        unsafe { ReadPiece::new(self.start, self.bytes) }
    }

    /// `bytes` of it from `at` on; nothing when it is not so long.
    #[inline]
    pub fn get(self, at: usize, bytes: usize) -> Option<Self> {
        if at > self.bytes || bytes > self.bytes - at {
            return None;
        }
        // SAFETY: inside the stretch, or one past its end.
        Some(Self { start: unsafe { self.start.add(at) }, bytes, memory: PhantomData })
    }

    /// Its first bytes, `at` of them at most, and the rest.
    #[inline]
    pub fn split_at(self, at: usize) -> (Self, Self) {
        let first = at.min(self.bytes);
        // SAFETY: at most one past the end of the stretch.
        let rest = unsafe { self.start.add(first) };
        (Self { bytes: first, ..self }, Self { start: rest, bytes: self.bytes - first, ..self })
    }

    /// Where it begins: for a copy of the caller's own, by bytes that may change under it.
    #[inline]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Copies its first bytes to `to`; how many.
    #[inline]
    pub fn copy_out(&self, to: &mut [u8]) -> usize {
        self.read().copy_out(to)
    }

    /// Copies the first bytes of `from` to its start; how many.
    #[inline]
    pub fn copy_in(&self, from: &[u8]) -> usize {
        let bytes = self.bytes.min(from.len());
        // SAFETY: neither is shorter, and whoever made this piece may write there.
        unsafe { copy(from.as_ptr(), self.start.as_ptr(), bytes) };
        bytes
    }

    /// Makes all of it zero.
    pub fn clear(&self) {
        let mut rest = *self;
        while !rest.is_empty() {
            let done = rest.copy_in(&[0; 4096]);
            rest = rest.split_at(done).1;
        }
    }
}

impl Default for Piece<'_> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<'a, T: AsMut<[u8]> + ?Sized> From<&'a mut T> for Piece<'a> {
    #[inline]
    fn from(bytes: &'a mut T) -> Self {
        let bytes = bytes.as_mut();
        let length = bytes.len();
        Self { start: NonNull::from(bytes).cast(), bytes: length, memory: PhantomData }
    }
}

impl<'a> From<Piece<'a>> for ReadPiece<'a> {
    #[inline]
    fn from(piece: Piece<'a>) -> Self {
        piece.read()
    }
}

impl ReadPiece<'_> {
    /// Copies its first bytes to the start of `to`; how many.
    #[inline]
    pub fn copy_to(&self, to: Piece<'_>) -> usize {
        let bytes = self.len().min(to.len());
        // SAFETY: neither is shorter, and `to` may be written.
        unsafe { copy(self.as_ptr(), to.as_ptr(), bytes) };
        bytes
    }
}
