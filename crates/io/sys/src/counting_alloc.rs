//! Counting allocator, to prove that the steady state allocates nothing.
//!
//! A test or bench makes it its `#[global_allocator]` and compares counts around the loop.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counted.
#[derive(Debug, Default)]
pub struct CountingAllocator;

static PROCESS_CALLS: AtomicU64 = AtomicU64::new(0);
static PROCESS_BYTES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // Const and without a destructor: reaching it never allocates, which would recurse.
    static THREAD_CALLS: Cell<u64> = const { Cell::new(0) };
}

impl CountingAllocator {
    /// For `static`s.
    pub const fn new() -> Self {
        Self
    }
}

/// Allocations (and reallocations) of the calling thread since it started. Frees do not count:
/// a steady state that frees has allocated before.
pub fn thread_allocations() -> u64 {
    THREAD_CALLS.with(Cell::get)
}

/// Allocations (and reallocations) of all threads since the process started.
pub fn process_allocations() -> u64 {
    PROCESS_CALLS.load(Ordering::Relaxed)
}

/// Bytes asked for by all threads since the process started, freed ones included.
pub fn process_allocated_bytes() -> u64 {
    PROCESS_BYTES.load(Ordering::Relaxed)
}

/// Allocations of the calling thread while `work` ran.
pub fn allocations_in(work: impl FnOnce()) -> u64 {
    let before = thread_allocations();
    work();
    thread_allocations() - before
}

fn count(bytes: usize) {
    // Relaxed: the counts order nothing; readers compare them around work of their own thread.
    PROCESS_CALLS.fetch_add(1, Ordering::Relaxed);
    PROCESS_BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    // A thread that is ending has no counter any more; nobody can ask for it either.
    let _ = THREAD_CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every method passes its arguments to `System` unchanged and returns its answer; counting
// neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is System's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        // SAFETY: `pointer` came from `System` by way of this allocator, with this layout.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as for `realloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator::new();

    #[test]
    fn an_allocation_is_counted_in_its_thread_and_its_process() {
        let process = process_allocations();
        let calls = allocations_in(|| {
            std::hint::black_box(Box::new(7u64));
        });
        assert_eq!(calls, 1);
        assert!(process_allocations() > process);
    }

    #[test]
    fn growing_counts_and_plain_work_does_not() {
        let mut list: Vec<u64> = Vec::with_capacity(4);
        assert_eq!(allocations_in(|| list.extend([1, 2, 3, 4])), 0);
        assert_eq!(allocations_in(|| list.push(5)), 1);
    }
}
