//! One owner at a time, order within a queue, nothing lost.

use super::*;
use crate::ring;

#[cfg(not(loom))]
#[test]
fn a_claim_that_is_dropped_leaves_the_queue_ready() {
    let queues = ReadyQueues::new([7, 8, 9]);
    assert!(queues.claim(&mut 0).is_none());
    assert!(queues.set_ready(1));
    let mut claim = queues.claim(&mut 0).expect("it was marked");
    assert_eq!((claim.queue(), claim.with(|item| *item)), (1, 8));
    assert!(queues.claim(&mut 0).is_none(), "it has an owner");
    assert!(!queues.set_ready(1), "the owner will see it");
    drop(claim);
    let claim = queues.claim(&mut 0).expect("left ready");
    let claim = claim.rearm();
    assert!(claim.is_none() && queues.is_quiet());
    assert!(queues.set_ready(1), "armed again");
}

#[cfg(not(loom))]
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

#[cfg(loom)]
mod models {
    use super::*;
    use crate::Consumer;
    use crate::sync::Arc;

    type Queues = ReadyQueues<(Consumer<u8>, u8)>;

    /// Takes up to one batch of one item from one queue; the items, which must come in order.
    fn batch(queues: &Queues) -> u8 {
        let Some(mut claim) = queues.claim(&mut 0) else { return 0 };
        let mut count = 0;
        loop {
            let taken = claim.with(|(consumer, next)| match consumer.pop() {
                Some(item) => {
                    assert_eq!(item, *next, "in order, whoever takes it");
                    *next += 1;
                    1
                }
                None => 0,
            });
            count += taken;
            if taken == 1 {
                return count;
            }
            match claim.rearm() {
                None => return count,
                Some(again) => claim = again,
            }
        }
    }

    #[test]
    fn loom_a_queue_has_one_owner_and_its_order_is_kept() {
        loom::model(|| {
            let (mut producer, consumer) = ring(4);
            let queues = Arc::new(Queues::new([(consumer, 0)]));
            assert!(producer.push(0).is_ok());
            assert!(queues.set_ready(0));
            let consume = Arc::clone(&queues);
            let other = loom::thread::spawn(move || batch(&consume));
            let marker = Arc::clone(&queues);
            let writer = loom::thread::spawn(move || {
                assert!(producer.push(1).is_ok());
                let _ = marker.set_ready(0);
            });
            let mut count = batch(&queues);
            count += other.join().expect("it only takes");
            writer.join().expect("it only pushes");
            for _ in 0..2 {
                count += batch(&queues);
            }
            assert_eq!(count, 2, "nothing is lost");
        });
    }

    #[test]
    fn loom_what_one_consumer_leaves_while_another_empties_the_word_is_found() {
        loom::model(|| {
            // Three queues: two words of two bits, and one above.
            let (mut one, first) = ring(2);
            let (mut other, second) = ring(2);
            let queues = Arc::new(Queues::new([(first, 0), (second, 0)]));
            assert!(one.push(0).is_ok() && other.push(0).is_ok());
            assert!(queues.set_ready(0) && queues.set_ready(1));
            let consume = Arc::clone(&queues);
            let thread = loom::thread::spawn(move || {
                // Takes one and leaves it as it is.
                drop(consume.claim(&mut 1));
            });
            let mut count = batch(&queues);
            thread.join().expect("it only claims");
            for _ in 0..4 {
                count += batch(&queues);
            }
            assert_eq!(count, 2);
        });
    }
}
