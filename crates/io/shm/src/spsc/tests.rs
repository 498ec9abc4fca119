//! The ring against a `VecDeque`, and under loom.

#[cfg(not(loom))]
mod oracle {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use arrayvec::ArrayVec;
    use proptest::prelude::*;

    use crate::ring;

    #[derive(Clone, Debug)]
    enum Step {
        Stage(u16),
        Publish,
        Push(u16),
        Pop,
        PopBatch,
        Peek,
        Take,
        Release,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => any::<u16>().prop_map(Step::Stage),
            2 => Just(Step::Publish),
            2 => any::<u16>().prop_map(Step::Push),
            2 => Just(Step::Pop),
            1 => Just(Step::PopBatch),
            1 => Just(Step::Peek),
            1 => Just(Step::Take),
            1 => Just(Step::Release),
        ]
    }

    proptest! {
        #[test]
        fn a_ring_is_a_bounded_queue_that_shows_only_what_was_published(
            capacity_log2 in 0_u32..5,
            steps in proptest::collection::vec(step(), 0..300),
        ) {
            let capacity = 1_usize << capacity_log2;
            let (mut producer, mut consumer) = ring(capacity);
            let (mut staged, mut published) = (VecDeque::new(), VecDeque::new());
            // Taken but not released: the producer still counts these as in the ring.
            let mut unreleased = 0;
            for step in steps {
                match step {
                    Step::Stage(item) => {
                        let full = staged.len() + published.len() + unreleased == capacity;
                        prop_assert_eq!(producer.stage(item), if full { Err(item) } else { Ok(()) });
                        if !full { staged.push_back(item); }
                    }
                    Step::Publish => {
                        prop_assert_eq!(producer.publish(), !staged.is_empty());
                        published.append(&mut staged);
                    }
                    Step::Push(item) => {
                        let full = staged.len() + published.len() + unreleased == capacity;
                        prop_assert_eq!(producer.push(item), if full { Err(item) } else { Ok(()) });
                        if !full {
                            staged.push_back(item);
                            published.append(&mut staged);
                        }
                    }
                    Step::Pop => {
                        let expected = published.pop_front();
                        if expected.is_some() { unreleased = 0; }
                        prop_assert_eq!(consumer.pop(), expected);
                    }
                    Step::Peek => prop_assert_eq!(consumer.peek(), published.front_mut()),
                    Step::Take => {
                        let expected = published.pop_front();
                        unreleased += usize::from(expected.is_some());
                        prop_assert_eq!(consumer.take(), expected);
                    }
                    Step::Release => {
                        consumer.release();
                        unreleased = 0;
                    }
                    Step::PopBatch => {
                        let mut items = ArrayVec::<u16, 4>::new();
                        let taken = consumer.pop_batch(&mut items);
                        unreleased = 0;
                        prop_assert_eq!(taken, items.len());
                        for item in items { prop_assert_eq!(Some(item), published.pop_front()); }
                        prop_assert!(taken == 4 || published.is_empty());
                    }
                }
                prop_assert_eq!(consumer.len(), published.len());
                prop_assert_eq!(producer.len(), staged.len() + published.len() + unreleased);
                prop_assert_eq!(producer.room(), capacity - producer.len());
            }
        }
    }

    #[test]
    fn items_left_in_a_ring_are_dropped_exactly_once() {
        let witness = Arc::new(());
        let (mut producer, mut consumer) = ring(8);
        for _ in 0..5 {
            assert!(producer.stage(Arc::clone(&witness)).is_ok());
        }
        producer.publish();
        assert!(consumer.pop().is_some());
        assert!(consumer.take().is_some(), "taken and never released");
        assert!(producer.stage(Arc::clone(&witness)).is_ok());
        assert_eq!(Arc::strong_count(&witness), 5);
        drop(producer);
        assert!(!consumer.has_producer());
        drop(consumer);
        assert_eq!(Arc::strong_count(&witness), 1);
    }

    #[test]
    fn a_million_items_cross_two_threads_in_order() {
        let (mut producer, mut consumer) = ring(256);
        let writer = std::thread::spawn(move || {
            for item in 0_u64..1_000_000 {
                while producer.push(item).is_err() {
                    std::thread::yield_now();
                }
            }
        });
        let mut expected = 0;
        let mut items = ArrayVec::<u64, 64>::new();
        while expected < 1_000_000 {
            if consumer.pop_batch(&mut items) == 0 {
                std::thread::yield_now();
            }
            for item in items.drain(..) {
                assert_eq!(item, expected);
                expected += 1;
            }
        }
        writer.join().expect("the writer only pushes");
    }

    #[test]
    #[should_panic(expected = "power of two")]
    fn a_capacity_that_is_no_power_of_two_is_refused() {
        let _ = ring::<u8>(3);
    }
}

#[cfg(loom)]
mod loom {
    use crate::ring;

    #[test]
    fn loom_ring_delivers_every_item_once_and_in_order() {
        loom::model(|| {
            let (mut producer, mut consumer) = ring(2);
            let writer = loom::thread::spawn(move || {
                for item in 0..3 {
                    while producer.push(item).is_err() {
                        loom::thread::yield_now();
                    }
                }
            });
            let mut expected = 0;
            while expected < 3 {
                match consumer.pop() {
                    Some(item) => {
                        assert_eq!(item, expected);
                        expected += 1;
                    }
                    None => loom::thread::yield_now(),
                }
            }
            writer.join().expect("the writer only pushes");
        });
    }

    #[test]
    fn loom_staged_items_stay_unseen_until_published() {
        loom::model(|| {
            let (mut producer, mut consumer) = ring(4);
            let writer = loom::thread::spawn(move || {
                assert!(producer.stage(Box::new(1)).is_ok());
                assert!(producer.stage(Box::new(2)).is_ok());
                producer.publish();
                assert!(producer.stage(Box::new(3)).is_ok());
                // Dropped unpublished: the box must be freed here and never be read.
            });
            let first = consumer.pop();
            if first.is_some() {
                assert_eq!(consumer.pop().as_deref(), Some(&2), "published together");
                assert_eq!(consumer.pop(), None);
            }
            writer.join().expect("the writer only pushes");
        });
    }
}
