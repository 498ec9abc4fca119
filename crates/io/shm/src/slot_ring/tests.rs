//! Rings of slots: order, bounds, and peers that violate the protocol.

use super::*;

/// A ring on the heap, leaked: tests are short.
fn memory(capacity: u32) -> RingMemory {
    let word = || NonNull::from(Box::leak(Box::new(AtomicU32::new(0))));
    let slots: Vec<[AtomicU64; SLOT_WORDS]> =
        (0..capacity).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect();
    let slots = NonNull::from(Box::leak(slots.into_boxed_slice())).cast();
    RingMemory { head: word(), tail: word(), slots, capacity }
}

fn ends(memory: RingMemory) -> (SlotProducer, SlotConsumer) {
    // SAFETY: the memory is leaked, aligned and zero.
    unsafe { (SlotProducer::new(memory), SlotConsumer::new(memory)) }
}

#[cfg(not(loom))]
mod hostile {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_ring_is_a_bounded_queue(steps in proptest::collection::vec(0..5_u8, 0..300)) {
            let (mut producer, mut consumer) = ends(memory(4));
            let (mut staged, mut shown) = (VecDeque::new(), VecDeque::new());
            // The producer sees room only when taken slots are released.
            let mut unreleased = 0;
            for (number, step) in steps.into_iter().enumerate() {
                let slot = [number as u64; SLOT_WORDS];
                match step {
                    0 | 1 => {
                        let room = staged.len() + shown.len() + unreleased < 4;
                        prop_assert_eq!(producer.stage(&slot), Ok(room));
                        if room { staged.push_back(slot); }
                    }
                    2 => {
                        prop_assert_eq!(producer.publish(), !staged.is_empty());
                        shown.append(&mut staged);
                    }
                    3 => {
                        let next = consumer.peek().expect("an honest peer");
                        prop_assert_eq!(next, shown.front().copied());
                        if next.is_some() {
                            consumer.advance();
                            shown.pop_front();
                            unreleased += 1;
                        }
                    }
                    _ => {
                        consumer.release();
                        unreleased = 0;
                        let len = staged.len() + shown.len();
                        prop_assert_eq!(producer.len(), Ok(len as u32));
                    }
                }
            }
        }

        #[test]
        fn any_index_of_the_peer_is_either_possible_or_a_violation(
            head in any::<u32>(), tail in any::<u32>(), staged in 0..=4_u32, taken in 0..=4_u32,
        ) {
            let shared = memory(4);
            let (mut producer, mut consumer) = ends(shared);
            for _ in 0..staged {
                prop_assert_eq!(producer.stage(&[7; SLOT_WORDS]), Ok(true));
            }
            producer.publish();
            shared.head().store(head, Ordering::Relaxed);
            let honest = head <= staged;
            prop_assert_eq!(producer.len(), if honest { Ok(staged - head) } else { Err(ProtocolViolation::RingIndex) });

            let taken = taken.min(staged);
            for _ in 0..taken {
                prop_assert!(consumer.peek().expect("an honest peer so far").is_some());
                consumer.advance();
            }
            consumer.release();
            shared.tail().store(tail, Ordering::Relaxed);
            let mut seen = 0;
            let violated = loop {
                match consumer.peek() {
                    Ok(Some(_)) => { consumer.advance(); seen += 1; }
                    Ok(None) => break false,
                    Err(violation) => { prop_assert_eq!(violation, ProtocolViolation::RingIndex); break true; }
                }
                prop_assert!(seen <= 4, "no more than there are slots");
            };
            let possible = tail.wrapping_sub(taken + seen) == 0;
            prop_assert!(violated || possible);
        }
    }

    #[test]
    fn an_index_that_goes_back_is_a_violation_even_within_the_ring() {
        let shared = memory(4);
        let (mut producer, _consumer) = ends(shared);
        for _ in 0..3 {
            assert_eq!(producer.stage(&[1; SLOT_WORDS]), Ok(true));
        }
        producer.publish();
        shared.head().store(2, Ordering::Relaxed);
        assert_eq!(producer.len(), Ok(1));
        shared.head().store(1, Ordering::Relaxed);
        assert_eq!(producer.len(), Err(ProtocolViolation::RingIndex));
    }
}

#[cfg(loom)]
#[test]
fn loom_a_slot_is_read_as_it_was_written() {
    loom::model(|| {
        let (mut producer, mut consumer) = ends(memory(2));
        let writer = loom::thread::spawn(move || {
            let mut sent = 0;
            for number in 1..=3_u64 {
                if producer.stage(&[number; SLOT_WORDS]) == Ok(true) {
                    producer.publish();
                    sent = number;
                }
            }
            sent
        });
        let mut last = 0;
        for _ in 0..3 {
            if let Some(slot) = consumer.peek().expect("an honest peer") {
                assert_eq!(slot, [slot[0]; SLOT_WORDS], "no slot is torn");
                assert!(slot[0] > last, "in order");
                last = slot[0];
                consumer.advance();
                consumer.release();
            }
        }
        assert!(writer.join().expect("it only writes") >= last);
    });
}
