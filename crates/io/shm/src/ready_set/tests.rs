//! Ready sets against a plain list, between threads, and in all orders of a few steps.

use super::*;
use crate::ring;

#[cfg(not(loom))]
mod oracle {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        SetReady(u32),
        Claim(u32),
        /// The n-th of those claimed.
        Rearm(usize),
        PutBack(usize),
    }

    fn step(queues: u32) -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..queues + 2).prop_map(Step::SetReady),
            2 => (0..9_u32).prop_map(Step::Claim),
            2 => any::<usize>().prop_map(Step::Rearm),
            1 => any::<usize>().prop_map(Step::PutBack),
        ]
    }

    /// One level, two, two that are full, and three.
    const SIZES: [u32; 6] = [1, 64, 65, 4096, 4097, 20_000];

    proptest! {
        #[test]
        fn a_queue_is_ready_once_from_its_first_mark_after_arming_until_it_is_claimed(
            (queues, steps) in proptest::sample::select(&SIZES[..]).prop_flat_map(|queues| {
                (Just(queues), proptest::collection::vec(step(queues), 0..200))
            }),
            is_shared in any::<bool>(),
        ) {
            let set = if is_shared && queues < 5000 {
                ReadySet::create_shared(queues).expect("a megabyte is left")
            } else {
                ReadySet::new(queues)
            };
            let mut armed: BTreeSet<u32> = (0..queues).collect();
            let mut ready: BTreeSet<u32> = BTreeSet::new();
            let mut held: Vec<(Ready, bool)> = Vec::new();
            let mut cursor = 0;
            for step in steps {
                match step {
                    Step::SetReady(queue) => {
                        let edge = armed.remove(&queue);
                        prop_assert_eq!(set.set_ready(queue), edge);
                        if edge { ready.insert(queue); }
                        held.iter_mut().for_each(|(held, marked)| *marked |= held.queue() == queue);
                    }
                    Step::Claim(most) => {
                        let mut got = Vec::new();
                        let count = set.claim(&mut cursor, most, |ready| got.push(ready));
                        prop_assert_eq!(count as usize, got.len());
                        prop_assert_eq!(count as usize, ready.len().min(most as usize));
                        for claimed in got {
                            prop_assert!(ready.remove(&claimed.queue()));
                            held.push((claimed, false));
                        }
                    }
                    Step::Rearm(at) if !held.is_empty() => {
                        let (claimed, marked) = held.swap_remove(at % held.len());
                        let queue = claimed.queue();
                        match set.rearm(claimed) {
                            Ok(()) => {
                                prop_assert!(!marked);
                                armed.insert(queue);
                            }
                            Err(again) => {
                                prop_assert!(marked, "nothing came in between");
                                held.push((again, false));
                            }
                        }
                    }
                    Step::PutBack(at) if !held.is_empty() => {
                        let (claimed, _) = held.swap_remove(at % held.len());
                        ready.insert(claimed.queue());
                        set.put_back(claimed);
                    }
                    Step::Rearm(_) | Step::PutBack(_) => {}
                }
                prop_assert_eq!(set.is_quiet(), ready.is_empty());
            }
        }

        #[test]
        fn whatever_the_other_side_writes_the_claims_stay_possible_and_bounded(
            words in proptest::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 0..300),
            queues in proptest::sample::select(&SIZES[..5]), most in 1..200_u32,
        ) {
            let set = ReadySet::create_shared(queues).expect("a megabyte is left");
            let fd = set.region().expect("shared").try_clone_to_owned().expect("descriptors");
            let region = crate::Region::map(fd, crate::region::RegionKind::ReadySet).expect("it is one");
            for (at, word) in words {
                let at = 128 + 8 * at.index((region.len_bytes() - 128) / 8);
                // SAFETY: inside the mapping and aligned; the other side writes what it likes.
                unsafe { region.base().add(at).cast::<u64>().write_volatile(word) };
            }
            let mut cursor = 0;
            for _ in 0..50 {
                let mut got = Vec::new();
                prop_assert!(set.claim(&mut cursor, most, |ready| got.push(ready)) <= most);
                for ready in got {
                    prop_assert!(ready.queue() < queues);
                    if let Err(again) = set.rearm(ready) { set.put_back(again); }
                }
            }
            for queue in 0..queues { set.set_ready(queue); }
        }
    }

    #[test]
    fn the_cursor_goes_around_so_that_no_queue_is_always_first() {
        let set = ReadySet::new(200);
        let mut cursor = 0;
        let mut order = Vec::new();
        for _ in 0..6 {
            for queue in [3, 70, 130, 131] {
                set.set_ready(queue);
            }
            set.claim(&mut cursor, 1, |ready| {
                order.push(ready.queue());
                set.rearm(ready).expect("nothing came in between");
            });
        }
        assert_eq!(order, [3, 70, 130, 131, 3, 70]);
    }

    #[test]
    fn a_shared_set_is_one_set_for_both_sides() {
        let consumer = ReadySet::create_shared(4097).expect("memory is left");
        let file = consumer.region().expect("shared").try_clone_to_owned().expect("descriptors");
        let producer = ReadySet::open(file).expect("just made");
        assert_eq!(producer.queues(), 4097);
        consumer.doorbell().arm();
        assert!(producer.set_ready(4096) && producer.doorbell().ring());
        let mut claimed = None;
        assert_eq!(consumer.claim(&mut 0, 64, |ready| claimed = Some(ready)), 1);
        let ready = claimed.expect("it was marked");
        assert_eq!(ready.queue(), 4096);
        assert!(!producer.set_ready(4096), "not armed");
        let ready = consumer.rearm(ready).expect_err("a mark came in between");
        consumer.rearm(ready).expect("and none since");
        assert!(ReadySet::new(1).region().is_none());
    }

    #[test]
    fn a_set_that_is_not_what_it_says_is_refused() {
        for queues in [0, QUEUES_MAX + 1] {
            let error = ReadySet::create_shared(queues).expect_err("impossible").to_string();
            assert!(error.contains("use 1 to 262144"), "{error}");
        }
        let set = ReadySet::create_shared(10).expect("memory is left");
        let fd = || set.region().expect("shared").try_clone_to_owned().expect("descriptors");
        let region = crate::Region::map(fd(), crate::region::RegionKind::ReadySet).expect("one");
        for queues in [0, 5000, u32::MAX] {
            // SAFETY: inside the mapping and aligned.
            unsafe { region.base().add(64).cast::<u32>().write_volatile(queues) };
            let error = ReadySet::open(fd()).expect_err("it does not fit");
            assert_eq!(error, crate::MapError::Sizes, "{queues}");
        }
    }

    #[test]
    fn one_ready_queue_is_found_among_any_number_and_what_that_costs_is_printed() {
        println!("queues  ns for mark, claim and rearm");
        for queues in [1, 64, 512, 1024, 4096, 1 << 15, QUEUES_MAX] {
            let set = ReadySet::new(queues);
            let mut cursor = 0;
            let mut best = u128::MAX;
            for round in 0..5_u32 {
                let began = std::time::Instant::now();
                for item in 0..10_000_u32 {
                    let queue = (item.wrapping_mul(0x9e37_79b9) ^ round) % queues;
                    assert!(set.set_ready(queue));
                    let mut found = None;
                    set.claim(&mut cursor, 64, |ready| found = Some(ready));
                    let ready = found.expect("one was marked");
                    assert_eq!(ready.queue(), queue);
                    set.rearm(ready).expect("nothing came in between");
                }
                best = best.min(began.elapsed().as_nanos() / 10_000);
            }
            println!("{queues:>6}{best:>12}");
        }
    }

    #[test]
    fn a_million_items_over_a_thousand_queues_arrive_in_order_and_no_sleep_is_for_ever() {
        const QUEUES: u32 = 1000;
        const ITEMS: u32 = 1_000_000;
        let set = ReadySet::new(QUEUES);
        let (mut producers, mut consumers): (Vec<_>, Vec<_>) =
            (0..QUEUES).map(|_| ring::<u32>(64)).unzip();
        let marker = set.clone();
        let sleeper = std::thread::current();
        let writer = std::thread::spawn(move || {
            let mut state = 0x2545_f491_u32;
            for item in 0..ITEMS {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let queue = if item % 7 == 0 { 5 } else { (state >> 8) % QUEUES };
                while producers[queue as usize].push(item).is_err() {
                    std::thread::yield_now();
                }
                if marker.set_ready(queue) && marker.doorbell().ring() {
                    sleeper.unpark();
                }
            }
        });
        let mut last = vec![None; QUEUES as usize];
        let (mut cursor, mut count, mut sleeps) = (0, 0, 0);
        let began = std::time::Instant::now();
        while count < ITEMS {
            // No measure of speed: a bug is to end here and not in a hang.
            assert!(began.elapsed().as_secs() < 120, "only {count} items arrived");
            let mut held = Vec::new();
            set.claim(&mut cursor, 64, |ready| held.push(ready));
            for mut ready in held {
                let queue = ready.queue() as usize;
                loop {
                    while let Some(item) = consumers[queue].pop() {
                        assert!(last[queue] < Some(item), "queue {queue} in order");
                        last[queue] = Some(item);
                        count += 1;
                    }
                    match set.rearm(ready) {
                        Ok(()) => break,
                        Err(again) => ready = again,
                    }
                }
            }
            set.doorbell().arm();
            if count < ITEMS && set.is_quiet() {
                sleeps += 1;
                std::thread::park_timeout(std::time::Duration::from_secs(120));
            }
            set.doorbell().disarm();
        }
        writer.join().expect("it only pushes");
        println!("{sleeps} sleeps");
    }
}

/// Two bits a word here: five queues have three levels.
#[cfg(loom)]
mod models {
    use super::*;

    /// Takes everything that is ready, up to `most` queues by one claim; how many items.
    fn pass(set: &ReadySet, most: u32, consumers: &mut [crate::Consumer<u8>]) -> u8 {
        let mut count = 0;
        let mut held = Vec::new();
        while set.claim(&mut 0, most, |ready| held.push(ready)) > 0 {
            for mut ready in held.drain(..) {
                loop {
                    let queue = ready.queue() as usize;
                    while consumers[queue].pop().is_some() {
                        count += 1;
                    }
                    match set.rearm(ready) {
                        Ok(()) => break,
                        Err(again) => ready = again,
                    }
                }
            }
        }
        count
    }

    #[test]
    fn loom_nothing_that_was_marked_is_lost_while_queues_are_armed_again() {
        loom::model(|| {
            let set = ReadySet::new(3);
            let (mut producer, consumer) = ring(4);
            let mut consumers = [consumer];
            let marker = set.clone();
            let writer = loom::thread::spawn(move || {
                for item in 0..2 {
                    assert!(producer.push(item).is_ok());
                    let _ = marker.set_ready(0);
                }
            });
            let before = pass(&set, 1, &mut consumers);
            writer.join().expect("it only pushes");
            assert_eq!(before + pass(&set, 1, &mut consumers), 2);
            assert!(set.is_quiet());
        });
    }

    #[test]
    fn loom_two_producers_of_one_word_are_both_found_at_every_level() {
        two_producers_of_one_word(1);
    }

    #[test]
    fn loom_two_producers_of_one_word_are_both_found_by_who_takes_all() {
        two_producers_of_one_word(5);
    }

    fn two_producers_of_one_word(most: u32) {
        loom::model(move || {
            let set = ReadySet::new(5);
            let (mut one, first) = ring(2);
            let (mut other, second) = ring(2);
            let mut consumers = [first, second];
            let marker = set.clone();
            let writer = loom::thread::spawn(move || {
                assert!(one.push(1).is_ok());
                let _ = marker.set_ready(0);
            });
            let marker = set.clone();
            let other_writer = loom::thread::spawn(move || {
                assert!(other.push(1).is_ok());
                let _ = marker.set_ready(1);
            });
            let before = pass(&set, most, &mut consumers);
            writer.join().expect("it only pushes");
            other_writer.join().expect("it only pushes");
            assert_eq!(before + pass(&set, most, &mut consumers), 2);
        });
    }

    #[test]
    fn loom_of_two_producers_of_a_queue_one_takes_the_edge() {
        loom::model(|| {
            let set = ReadySet::new(3);
            let marker = set.clone();
            let other = loom::thread::spawn(move || marker.set_ready(2));
            let mut held = Vec::new();
            let mine = set.set_ready(2);
            set.claim(&mut 0, 4, |ready| held.push(ready));
            let theirs = other.join().expect("it only marks");
            set.claim(&mut 0, 4, |ready| held.push(ready));
            assert!(mine != theirs, "one of them rings");
            assert_eq!(held.len(), 1, "the queue has one owner");
        });
    }

    #[test]
    fn loom_a_bit_that_is_set_while_its_word_is_emptied_is_found() {
        loom::model(|| {
            let set = ReadySet::new(5);
            assert!(set.set_ready(0));
            let marker = set.clone();
            let writer = loom::thread::spawn(move || assert!(marker.set_ready(1)));
            let mut held = Vec::new();
            set.claim(&mut 0, 1, |ready| held.push(ready));
            writer.join().expect("it only marks");
            set.claim(&mut 0, 2, |ready| held.push(ready));
            assert_eq!(held.len(), 2);
            assert!(set.is_quiet());
        });
    }

    /// Consuming ends that several consumers share, each with the item that comes next.
    type Shared = [loom::sync::Mutex<(crate::Consumer<u8>, u8)>];

    /// Takes one item of one ready queue, which it leaves ready; how many.
    fn batch(set: &ReadySet, queues: &Shared) -> u8 {
        let mut claimed = None;
        // A word that another consumer emptied first counts as a look too: some are allowed.
        for _ in 0..4 {
            set.claim(&mut 0, 1, |ready| claimed = Some(ready));
            if claimed.is_some() || set.is_quiet() {
                break;
            }
        }
        let Some(mut ready) = claimed else { return 0 };
        loop {
            let queue = &queues[ready.queue() as usize];
            let is_taken = {
                let mut owned = queue.try_lock().expect("a queue has one owner at a time");
                let (consumer, next) = &mut *owned;
                let item = consumer.pop();
                assert!(item.is_none_or(|item| item == *next), "in order, whoever takes it");
                *next += u8::from(item.is_some());
                item.is_some()
            };
            if is_taken {
                set.put_back(ready);
                return 1;
            }
            match set.rearm(ready) {
                Ok(()) => return 0,
                Err(again) => ready = again,
            }
        }
    }

    #[test]
    fn loom_of_two_consumers_a_queue_has_one_and_its_order_is_kept() {
        loom::model(|| {
            let set = ReadySet::new(1);
            let (mut producer, consumer) = ring(4);
            let queues = loom::sync::Arc::new([loom::sync::Mutex::new((consumer, 0))]);
            assert!(producer.push(0).is_ok());
            assert!(set.set_ready(0));
            let (shared, consume) = (queues.clone(), set.clone());
            let other = loom::thread::spawn(move || batch(&consume, &*shared));
            let marker = set.clone();
            let writer = loom::thread::spawn(move || {
                assert!(producer.push(1).is_ok());
                let _ = marker.set_ready(0);
            });
            let mut count = batch(&set, &*queues);
            count += other.join().expect("it only takes");
            writer.join().expect("it only pushes");
            for _ in 0..2 {
                count += batch(&set, &*queues);
            }
            assert_eq!(count, 2, "nothing is lost");
        });
    }

    #[test]
    fn loom_what_one_consumer_leaves_while_another_empties_the_word_is_found() {
        loom::model(|| {
            // Three queues: two words of two bits, and one above.
            let set = ReadySet::new(2);
            let (mut one, first) = ring(2);
            let (mut other, second) = ring(2);
            let queues = [first, second].map(|consumer| loom::sync::Mutex::new((consumer, 0)));
            assert!(one.push(0).is_ok() && other.push(0).is_ok());
            assert!(set.set_ready(0) && set.set_ready(1));
            let consume = set.clone();
            let thread = loom::thread::spawn(move || {
                // Takes one and leaves it as it is.
                let mut claimed = None;
                consume.claim(&mut 1, 1, |ready| claimed = Some(ready));
                if let Some(ready) = claimed {
                    consume.put_back(ready);
                }
            });
            let mut count = batch(&set, &queues);
            thread.join().expect("it only claims");
            for _ in 0..4 {
                count += batch(&set, &queues);
            }
            assert_eq!(count, 2);
        });
    }

    #[test]
    fn loom_a_sleeper_has_seen_the_work_or_is_rung() {
        loom::model(|| {
            let set = ReadySet::new(3);
            let (mut producer, consumer) = ring(4);
            let mut consumers = [consumer];
            let marker = set.clone();
            let writer = loom::thread::spawn(move || {
                let mut rung = false;
                for item in 0..2 {
                    assert!(producer.push(item).is_ok());
                    rung |= marker.set_ready(0) && marker.doorbell().ring();
                }
                rung
            });
            let mut count = pass(&set, 1, &mut consumers);
            set.doorbell().arm();
            let sleeps = set.is_quiet();
            let rung = writer.join().expect("it only pushes");
            if !sleeps || rung {
                count += pass(&set, 1, &mut consumers);
            }
            assert_eq!(count, 2, "it would sleep for ever on what is there");
        });
    }
}
