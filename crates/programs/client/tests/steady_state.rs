//! After attaching, nothing that a worker does allocates.

mod common;

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use calisto_client::{Batch, Nanos, Verdict};
use common::{Folder, attached};
use sys::counting_alloc::{CountingAllocator, allocations_in};
use sys::poll;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

#[test]
fn receiving_sending_and_waiting_allocate_nothing() {
    let folder = Folder::new("steady");
    let (mut served, _app, mut workers) = attached(&folder, &folder.options());
    let mut worker = workers.remove(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                if !served.echo() {
                    poll::wait_readable(served.wake.as_fd(), Nanos::from_micros(50));
                }
            }
        });
        let mut received = 0;
        let allocations = allocations_in(|| {
            let mut batch = Batch::new();
            for round in 0..2000 {
                worker.set_spin(Nanos::from_micros(round % 2 * 20));
                batch.extend(worker.take());
                if worker.send(&mut batch).expect("attached") == 0 {
                    worker.done(&mut batch).expect("attached");
                }
                worker.flush();
                worker.wait(Nanos::from_micros(200)).expect("attached");
                if round % 3 == 0 {
                    received += worker.receive(&mut batch).expect("attached");
                    worker.done(&mut batch).expect("attached");
                } else {
                    received += worker.step(|_| Verdict::Done).expect("attached");
                }
            }
        });
        stop.store(true, Ordering::Release);
        assert!(received > 100, "{received} packets are no steady state");
        assert_eq!(allocations, 0);
    });
}
