//! The steady state allocates nothing: counted, not believed.

use sys::counting_alloc::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

#[test]
fn a_hundred_thousand_packets_through_dispatcher_and_worker_allocate_nothing() {
    let count = bench::steady_state_allocations(100_000)
        .expect("the data path can be made")
        .expect("this program counts its allocations");
    assert_eq!(count, 0);
}
