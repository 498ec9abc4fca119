//! Copies bytes to and from memory that another process may be writing at the same moment.
//!
//! Word by word with relaxed atomics, because a plain copy would be a data race. What comes out of
//! a copy that raced is some mix of bytes; whoever copies out looks only at the copy.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Copies `bytes` to `to`.
///
/// # Safety
/// `to` is the start of at least `bytes.len()` mapped bytes, written by atomics only.
#[inline]
pub(crate) unsafe fn copy_in(bytes: &[u8], to: NonNull<u8>) {
    let mut at = to.as_ptr();
    let aligned = at.addr().is_multiple_of(8);
    let (words, rest) = if aligned { bytes.as_chunks::<8>() } else { (&[][..], bytes) };
    for word in words {
        // SAFETY: inside the range that the caller vouches for, and aligned as was just seen.
        unsafe {
            AtomicU64::from_ptr(at.cast()).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
            at = at.add(8);
        }
    }
    for byte in rest {
        // SAFETY: as above; a byte is always aligned.
        unsafe {
            AtomicU8::from_ptr(at).store(*byte, Ordering::Relaxed);
            at = at.add(1);
        }
    }
}

/// Fills `bytes` from `from`.
///
/// # Safety
/// As for [`copy_in`], for reading.
#[inline]
pub(crate) unsafe fn copy_out(from: NonNull<u8>, bytes: &mut [u8]) {
    let mut at = from.as_ptr();
    let aligned = at.addr().is_multiple_of(8);
    let (words, rest) = if aligned { bytes.as_chunks_mut::<8>() } else { (&mut [][..], bytes) };
    for word in words {
        // SAFETY: inside the range that the caller vouches for, and aligned as was just seen.
        unsafe {
            *word = AtomicU64::from_ptr(at.cast()).load(Ordering::Relaxed).to_ne_bytes();
            at = at.add(8);
        }
    }
    for byte in rest {
        // SAFETY: as above; a byte is always aligned.
        unsafe {
            *byte = AtomicU8::from_ptr(at).load(Ordering::Relaxed);
            at = at.add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out_at_any_alignment(
            bytes in proptest::collection::vec(any::<u8>(), 0..100), start in 0..16_usize,
        ) {
            let mut memory = [0_u8; 128];
            let to = NonNull::new(memory[start..].as_mut_ptr()).expect("an array's address");
            let mut back = vec![0; bytes.len()];
            // SAFETY: at least 112 bytes follow, and nobody else has the array.
            unsafe {
                copy_in(&bytes, to);
                copy_out(to, &mut back);
            }
            prop_assert_eq!(&back, &bytes);
            prop_assert!(memory[start + bytes.len()..].iter().all(|&byte| byte == 0));
            prop_assert!(memory[..start].iter().all(|&byte| byte == 0));
        }
    }
}
