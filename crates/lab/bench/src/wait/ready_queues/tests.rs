//! One owner at a time, order within a queue, nothing lost.

use shm::ring;

use super::*;

#[test]
fn a_claim_that_is_dropped_leaves_the_queue_ready() {
    let queues = ReadyQueues::new([7, 8, 9]);
    assert!(queues.claim(&mut 0).is_none());
    assert!(queues.set_ready(1));
    let mut claim = queues.claim(&mut 0).expect("it was marked");
    assert_eq!(claim.with(|item| *item), 8);
    assert!(queues.claim(&mut 0).is_none(), "it has an owner");
    assert!(!queues.set_ready(1), "the owner will see it");
    drop(claim);
    let claim = queues.claim(&mut 0).expect("left ready");
    let claim = claim.rearm();
    assert!(claim.is_none() && queues.is_quiet());
    assert!(queues.set_ready(1), "armed again");
}

#[test]
fn several_consumers_share_a_million_items_and_keep_each_queues_order() {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    const QUEUES: u32 = 130;
    const ITEMS: u32 = 500_000;
    let (mut producers, consumers): (Vec<_>, Vec<_>) = (0..QUEUES).map(|_| ring::<u32>(64)).unzip();
    // With each queue goes what it gave last, so that its order is checked by whoever owns it.
    let queues = ReadyQueues::new(consumers.into_iter().map(|consumer| (consumer, None)));
    let count = AtomicU32::new(0);
    let shares = Mutex::new(Vec::new());
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        for start in [0, 40, 90] {
            let (queues, count, shares) = (&queues, &count, &shares);
            scope.spawn(move || {
                let (mut cursor, mut share) = (start, 0);
                while count.load(Ordering::Relaxed) < ITEMS {
                    // No measure of speed: a bug is to end here and not in a hang.
                    assert!(began.elapsed().as_secs() < 120, "items are missing");
                    let Some(mut claim) = queues.claim(&mut cursor) else {
                        std::thread::yield_now();
                        continue;
                    };
                    loop {
                        let taken = claim.with(|(consumer, last)| {
                            let mut taken = 0;
                            while taken < 16
                                && let Some(item) = consumer.pop()
                            {
                                assert!(*last < Some(item), "in order");
                                *last = Some(item);
                                taken += 1;
                            }
                            taken
                        });
                        share += taken;
                        count.fetch_add(taken, Ordering::Relaxed);
                        if taken == 16 {
                            // More may be there: the next one may have it.
                            break;
                        }
                        match claim.rearm() {
                            None => break,
                            Some(again) => claim = again,
                        }
                    }
                }
                shares.lock().expect("nobody panicked").push(share);
            });
        }
        for item in 0..ITEMS {
            let queue = item.wrapping_mul(0x9e37_79b9) % QUEUES;
            while producers[queue as usize].push(item).is_err() {
                assert!(began.elapsed().as_secs() < 120, "nobody takes item {item}");
                std::thread::yield_now();
            }
            queues.set_ready(queue);
        }
    });
    let shares = shares.into_inner().expect("nobody panicked");
    println!("shares {shares:?}");
    assert_eq!(shares.iter().sum::<u32>(), ITEMS);
}
