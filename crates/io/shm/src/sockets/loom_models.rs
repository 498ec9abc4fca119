//! Places, limits and locks that several threads take at once, in every order (loom).

use super::*;
use crate::sync::{Arc, AtomicU32, Ordering};

#[test]
fn no_place_has_two_holders_and_none_is_lost() {
    loom::model(|| {
        let places = Arc::new(FreeIndexes::new(2));
        let holders = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let taker = |places: Arc<FreeIndexes>, holders: Arc<[AtomicU32; 2]>| {
            if let Some(place) = places.take() {
                let holder = &holders[place as usize];
                assert_eq!(holder.fetch_add(1, Ordering::Relaxed), 0, "two holders");
                holder.fetch_sub(1, Ordering::Relaxed);
                assert!(places.give_back(place));
            }
        };
        let other = loom::thread::spawn({
            let (places, holders) = (Arc::clone(&places), Arc::clone(&holders));
            move || taker(places, holders)
        });
        taker(Arc::clone(&places), Arc::clone(&holders));
        // By number, as who discards its memory does.
        if places.take_at(0) {
            assert_eq!(holders[0].load(Ordering::Relaxed), 0, "it is lent out");
            assert!(places.give_back(0));
        }
        other.join().expect("it does not panic");
        assert_eq!(places.taken(), 0);
        assert_eq!((places.take(), places.take(), places.take()), (Some(0), Some(1), None));
    });
}

#[test]
fn together_nobody_has_more_than_a_limit_and_what_is_refused_costs_nothing() {
    loom::model(|| {
        let quota = Quota::within(1, 1 << 10, Arc::new(Budget::new(1 << 10)), 1 << 10);
        let quota = Arc::new(quota);
        let held = Arc::new(AtomicU32::new(0));
        let taker = |quota: Arc<Quota>, held: Arc<AtomicU32>| {
            if quota.take_slots(1) {
                assert_eq!(held.fetch_add(1, Ordering::Relaxed), 0, "more than the limit");
                held.fetch_sub(1, Ordering::Relaxed);
                quota.give_back_slots(1);
            }
            if quota.take_bytes(1 << 10) {
                if quota.take_resident(10) {
                    quota.give_back_resident(1 << 10);
                }
                quota.give_back_bytes(1 << 10);
            }
        };
        let other = loom::thread::spawn({
            let (quota, held) = (Arc::clone(&quota), Arc::clone(&held));
            move || taker(quota, held)
        });
        taker(Arc::clone(&quota), Arc::clone(&held));
        other.join().expect("it does not panic");
        assert_eq!((quota.slots(), quota.bytes(), quota.budget().bytes()), (0, 0, 0));
        assert!(quota.has_room(10), "what is left is all there is");
    });
}

#[test]
fn a_lock_has_one_holder_and_who_comes_behind_sees_what_it_did() {
    loom::model(|| {
        let word = Arc::new(AtomicU32::new(0));
        let inside = Arc::new(crate::sync::UnsafeCell::new(0));
        let holder = |word: Arc<AtomicU32>, inside: Arc<crate::sync::UnsafeCell<u32>>, me| {
            let lock = SlotLock::acquire(&word, me, |_| Holder::Lives);
            assert!(matches!(lock, Locked::Ours(_)));
            // SAFETY: loom sees to it that nobody else is here; the lock is held.
            inside.with_mut(|count| unsafe { *count += 1 });
        };
        let other = loom::thread::spawn({
            let (word, inside) = (Arc::clone(&word), Arc::clone(&inside));
            move || holder(word, inside, 7)
        });
        holder(Arc::clone(&word), Arc::clone(&inside), 8);
        other.join().expect("it does not panic");
        // SAFETY: the other thread has ended.
        inside.with(|count| assert_eq!(unsafe { *count }, 2));
        assert_eq!(word.load(Ordering::Relaxed), 0);
    });
}

/// Two find that the holder is dead: one of them has the lock, then the other.
#[test]
fn the_lock_of_a_dead_holder_goes_to_one_after_the_other() {
    loom::model(|| {
        let word = Arc::new(AtomicU32::new(5));
        let inside = Arc::new(AtomicU32::new(0));
        let heir = |word: Arc<AtomicU32>, inside: Arc<AtomicU32>, me| {
            let ask = |holder| if holder == 5 { Holder::IsDead } else { Holder::Lives };
            let lock = SlotLock::acquire(&word, me, ask);
            assert!(matches!(lock, Locked::Ours(_)));
            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two have it");
            inside.fetch_sub(1, Ordering::Relaxed);
        };
        let other = loom::thread::spawn({
            let (word, inside) = (Arc::clone(&word), Arc::clone(&inside));
            move || heir(word, inside, 7)
        });
        heir(Arc::clone(&word), Arc::clone(&inside), 8);
        other.join().expect("it does not panic");
        assert_eq!(word.load(Ordering::Relaxed), 0);
    });
}
