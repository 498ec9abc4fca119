//! A stretch of memory to copy from.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::copy::copy;

/// A stretch of memory that is only copied from, and that others may write meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct ReadPiece<'a> {
    start: NonNull<u8>,
    bytes: usize,
    memory: PhantomData<&'a u8>,
}

impl<'a> ReadPiece<'a> {
    /// No bytes.
    pub const EMPTY: Self = Self { start: NonNull::dangling(), bytes: 0, memory: PhantomData };

    /// # Safety
    /// `bytes` from `start` on can be read for `'a`, and while they are, nobody in this process has
    /// a `&mut` to them or writes them otherwise than through a [`Piece`](crate::Piece).
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

    /// Copies its first bytes to `to`; how many.
    #[inline]
    pub fn copy_out(&self, to: &mut [u8]) -> usize {
        let bytes = self.bytes.min(to.len());
        // SAFETY: neither is shorter, and `to` is the caller's alone.
        unsafe { copy(self.start.as_ptr(), to.as_mut_ptr(), bytes) };
        bytes
    }

    /// Where it begins.
    #[inline]
    pub(crate) const fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// The byte at `at` as it is now.
    #[inline]
    pub fn byte(&self, at: usize) -> Option<u8> {
        (at < self.bytes).then(|| {
            // SAFETY: inside the stretch; any byte is aligned, and a load does not write.
            unsafe { AtomicU8::from_ptr(self.start.as_ptr().add(at)) }.load(Ordering::Relaxed)
        })
    }

    /// A copy of its own.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut copy = vec![0; self.bytes];
        self.copy_out(&mut copy);
        copy
    }
}

impl Default for ReadPiece<'_> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for ReadPiece<'a> {
    #[inline]
    fn from(bytes: &'a T) -> Self {
        let bytes = bytes.as_ref();
        Self { start: NonNull::from(bytes).cast(), bytes: bytes.len(), memory: PhantomData }
    }
}
