//! Cache lines that are going to be written, brought here before their turn: lines of the other
//! side come one after the other otherwise, because each is changed by an atomic step that waits
//! for the last.

use crate::sync::AtomicU64;

/// A hint. Whatever the CPU makes of it, nothing but time changes.
#[inline]
pub(super) fn fetch_to_write(word: &AtomicU64) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    {
        use std::arch::asm;
        // SAFETY: PREFETCHW reads and writes nothing that a program can see, and a CPU without it
        // does nothing.
        unsafe {
            asm!(
                "prefetchw [{}]",
                in(reg) word.as_ptr(),
                options(nostack, preserves_flags, readonly),
            );
        };
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = word;
}
