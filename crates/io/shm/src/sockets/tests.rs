//! Both sides of a region, on one thread.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{Generation, RegionId, SlotId};
use proptest::prelude::*;

use super::*;

fn sizes() -> SocketSizes {
    SocketSizes { slots: 200, pollers: 4, sides: 1, workers: 2, ring_bytes: 1 << 20 }
}

fn pair() -> (SocketServer, SocketMemory) {
    let server = SocketServer::create("test", sizes()).expect("a few MiB of addresses");
    let fd = server.memory().descriptor().as_fd().try_clone_to_owned().expect("descriptors left");
    (server, SocketMemory::open(fd).expect("it is such a region"))
}

#[test]
fn what_the_daemon_places_is_what_the_application_reads() {
    let (server, app) = pair();
    let slot = server.lend_slot().expect("none is in use");
    let mut ring = server.heap().lend(12).expect("there is room");
    let words = server.memory().slot(slot).expect("it was lent");
    ring.piece().split_at(4094).1.copy_in(b"he");
    ring.piece().copy_in(b"llo");
    words.rx_ring.store(ring.desc().word(), Ordering::Release);
    words.rx_base.store(4094, Ordering::Release);
    words.rx_tail.store(5, Ordering::Release);

    let seen = app.slot(slot).expect("the same");
    let bytes = seen.rx_tail.load(Ordering::Acquire) as usize;
    let desc = RingDesc::of_word(seen.rx_ring.load(Ordering::Acquire));
    let index = u64::from(seen.rx_base.load(Ordering::Relaxed));
    let mut text = [0; 5];
    let [first, second] = app.pieces(desc, index, bytes).expect("it lies in the heap");
    let copied = first.copy_out(&mut text);
    assert_eq!(copied + second.copy_out(&mut text[copied..]), 5);
    assert_eq!(&text, b"hello");
    server.heap().take_back(ring);
    assert_eq!(server.heap().bytes(), 0);
}

#[test]
fn a_ring_that_is_not_in_the_heap_gives_no_piece() {
    let (server, app) = pair();
    let ring = server.heap().lend(10).expect("there is room");
    assert!(app.pieces(ring.desc(), 7, 1024).is_some());
    assert!(app.pieces(ring.desc(), 7, 1025).is_none(), "longer than the ring");
    for word in [0, u64::MAX, 12 << 56 | 1 << 50, 12 << 56 | 8, 63 << 56, 10 << 56 | (1 << 40)] {
        assert!(app.pieces(RingDesc::of_word(word), 0, 1).is_none(), "{word:#x}");
    }
}

#[test]
fn rings_are_lent_up_to_the_limit_and_never_twice() {
    let (server, _app) = pair();
    let mut rings = Vec::new();
    while let Some(ring) = server.heap().lend(16) {
        rings.push(ring);
    }
    assert_eq!(rings.len(), 16, "16 times 64 KiB is the limit of 1 MiB");
    let mut offsets: Vec<u64> = rings.iter().map(|ring| ring.desc().offset()).collect();
    offsets.dedup();
    assert_eq!(offsets.len(), 16);
    assert!(server.heap().lend(10).is_none(), "all classes share the limit");
    rings.into_iter().for_each(|ring| server.heap().take_back(ring));
    assert!(server.heap().lend(10).is_some() && server.heap().lend(31).is_none());
}

#[test]
fn regions_of_one_user_share_what_it_may_have_and_one_that_goes_gives_its_share_back() {
    let quota = Arc::new(Quota::new(5, 40 << 10));
    let [one, other] = [0; 2].map(|_| {
        SocketServer::within("test", sizes(), Arc::clone(&quota)).expect("addresses are left")
    });
    let slots = [one.lend_slot(), one.lend_slot(), other.lend_pair()];
    assert_eq!(slots, [0, 1, 0].map(|slot| Some(SlotId(slot))));
    assert_eq!((other.lend_pair(), one.lend_slot()), (None, Some(SlotId(2))), "one is left");
    assert_eq!((other.lend_slot(), quota.slots()), (None, 5));
    other.take_back_slot(SlotId(1));
    other.take_back_slot(SlotId(1));
    assert_eq!((quota.slots(), one.lend_slot()), (4, Some(SlotId(3))), "given back once");
    let ring = one.heap().lend(14).expect("16 of 40 KiB");
    assert!(other.heap().lend(14).is_some() && other.heap().lend(14).is_none());
    assert!(!other.heap().has_room(14) && other.heap().lend(12).is_some());
    assert_eq!((one.heap().bytes(), other.heap().bytes()), (16 << 10, 20 << 10));
    drop(other);
    assert_eq!((quota.slots(), quota.bytes()), (4, 16 << 10));
    one.heap().take_back(ring);
    assert_eq!(quota.bytes(), 0);
}

#[test]
fn rings_that_went_back_stay_in_memory_and_count_until_they_are_discarded() {
    let budget = Arc::new(Budget::new(1 << 20));
    let quota = Arc::new(Quota::within(10, u64::MAX, Arc::clone(&budget), u64::MAX));
    let server = SocketServer::within("test", sizes(), quota).expect("addresses are left");
    let heap = server.heap();
    let mut rings: Vec<_> = std::iter::from_fn(|| heap.lend(16)).collect();
    assert_eq!(rings.len(), 8, "one region has at most half of what there is");
    rings.iter_mut().for_each(|ring| _ = ring.piece().copy_in(&[7; 1 << 16]));
    let kept = rings.pop().expect("there are eight");
    rings.into_iter().for_each(|ring| heap.take_back(ring));
    assert_eq!((heap.bytes(), budget.bytes()), (64 << 10, 512 << 10));
    assert!(heap.lend(14).is_none(), "its pages are those of longer rings");
    assert_eq!((heap.trim(2), heap.trim(100)), (2 * (64 << 10), 5 * (64 << 10)));
    assert_eq!((heap.resident_bytes(), budget.bytes()), (64 << 10, 64 << 10));
    assert!(kept.read_piece().to_vec().iter().all(|byte| *byte == 7), "what is lent is left alone");
    let anew = heap.lend(16).expect("there is room again");
    assert!(anew.read_piece().to_vec().iter().all(|byte| *byte == 0), "its pages were discarded");
    heap.take_back(anew);
    heap.take_back(kept);
    drop(server);
    assert_eq!(budget.bytes(), 0);
}

#[test]
fn a_crowd_that_is_gone_leaves_the_memory_of_its_rings_behind_only_for_a_while() {
    let quota = Arc::new(Quota::within(10, u64::MAX, Arc::new(Budget::unlimited()), u64::MAX));
    let sizes = SocketSizes { ring_bytes: 64 << 20, ..sizes() };
    let server = SocketServer::within("test", sizes, quota).expect("addresses are left");
    let heap = server.heap();
    let mut rings: Vec<_> = (0..640).map(|_| heap.lend(16).expect("room for all")).collect();
    rings.iter_mut().for_each(|ring| _ = ring.piece().copy_in(&[7; 1 << 16]));
    assert_eq!(heap.trim_unused(1000), 0, "all of them are lent");
    let kept = rings.remove(0);
    rings.into_iter().for_each(|ring| heap.take_back(ring));
    assert_eq!((heap.trim_unused(1000), heap.resident_bytes()), (0, 40 << 20), "it may come again");
    let discarded: Vec<u64> = (0..1000).map(|_| heap.trim_unused(16)).collect();
    assert_eq!(discarded.iter().sum::<u64>(), 32 << 20, "nobody came");
    assert!(discarded.iter().all(|bytes| *bytes <= 16 << 16), "not more at once than was asked");
    assert_eq!(heap.resident_bytes(), 8 << 20);
    assert!(kept.read_piece().to_vec().iter().all(|byte| *byte == 7), "what is lent is left alone");
    let again: Vec<_> = (0..127).map(|_| heap.lend(16).expect("room")).collect();
    assert_eq!(heap.resident_bytes(), 8 << 20, "those that are lent first stayed");
    again.into_iter().chain([kept]).for_each(|ring| heap.take_back(ring));
}

#[test]
fn a_ring_whose_pages_are_discarded_stays_lent_and_costs_nothing() {
    let budget = Arc::new(Budget::new(1 << 20));
    let quota = Arc::new(Quota::within(10, u64::MAX, Arc::clone(&budget), u64::MAX));
    let server = SocketServer::within("test", sizes(), quota).expect("addresses are left");
    let heap = server.heap();
    let (mut ring, short) = (heap.lend(16).expect("room"), heap.lend(10).expect("room"));
    ring.piece().copy_in(&[7; 1 << 16]);
    assert_eq!((heap.discard(&ring), heap.discard(&ring), heap.discard(&short)), (64 << 10, 0, 0));
    assert!(ring.read_piece().to_vec().iter().all(|byte| *byte == 0));
    assert_eq!((heap.resident_bytes(), budget.bytes()), (1 << 10, 1 << 10));
    assert_eq!((heap.bytes(), heap.trim(10)), (65 << 10, 0));
    heap.take_back(ring);
    assert!(heap.lend(16).is_some());
    assert_eq!(budget.bytes(), 65 << 10);
}

#[test]
fn threads_that_lend_at_once_do_not_go_beyond_a_regions_part_together() {
    let budget = Arc::new(Budget::new(1 << 20));
    let quota = Arc::new(Quota::within(10, u64::MAX, Arc::clone(&budget), u64::MAX));
    let server = SocketServer::within("test", sizes(), quota).expect("addresses are left");
    let heap = server.heap();
    for _ in 0..300 {
        let together = std::sync::Barrier::new(4);
        let lend = || {
            together.wait();
            std::iter::from_fn(|| heap.lend(16)).collect::<Vec<_>>()
        };
        let rings: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(lend)).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("it lends")).collect()
        });
        assert!(rings.len() <= 8, "{} rings of 64 KiB are more than half a MiB", rings.len());
        rings.into_iter().for_each(|ring| heap.take_back(ring));
        heap.trim(100);
    }
}

#[test]
fn the_last_quarter_of_a_budget_is_for_rings_that_connections_begin_with() {
    let budget = Arc::new(Budget::new(1 << 20));
    let [one, other, third] = [0; 3].map(|_| {
        let quota = Arc::new(Quota::within(10, u64::MAX, Arc::clone(&budget), u64::MAX));
        SocketServer::within("test", sizes(), quota).expect("addresses are left")
    });
    assert!(one.heap().lend(18).is_some() && other.heap().lend(18).is_some());
    assert!(third.heap().lend(18).is_some() && !third.heap().has_room(18));
    assert!(third.heap().lend(18).is_none() && third.heap().lend(16).is_some());
    assert_eq!(budget.refused(), 1);
}

#[test]
fn the_programs_of_a_user_have_no_more_in_memory_than_the_users_part() {
    let budget = Arc::new(Budget::new(1 << 20));
    let quota = Arc::new(Quota::within(10, u64::MAX, Arc::clone(&budget), 128 << 10));
    let [one, other] = [0; 2].map(|_| {
        SocketServer::within("test", sizes(), Arc::clone(&quota)).expect("addresses are left")
    });
    assert!(one.heap().lend(16).is_some() && other.heap().lend(16).is_some());
    assert!(one.heap().lend(10).is_none() && !one.heap().has_room(10));
    assert_eq!((budget.bytes(), budget.refused()), (128 << 10, 1));
}

#[test]
fn a_slot_that_is_lent_again_is_as_new_and_has_another_generation() {
    let (server, _app) = pair();
    let slot = server.lend_slot().expect("none is in use");
    let words = server.memory().slot(slot).expect("it was lent");
    let generation = words.generation.load(Ordering::Relaxed);
    words.tx_tail.store(7, Ordering::Relaxed);
    words.asks.store(Asks::CLOSE, Ordering::Relaxed);
    words.set_option(SlotOption::NoDelay, 1);
    words.remote.set(Some("[2001:db8::1]:80".parse().expect("an address")));
    assert_eq!(words.remote.get(), Some("[2001:db8::1]:80".parse().expect("an address")));
    server.take_back_slot(slot);
    assert_eq!(server.lend_slot(), Some(slot));
    assert_ne!(words.generation.load(Ordering::Relaxed), generation);
    assert_eq!(words.tx_tail.load(Ordering::Relaxed), 0);
    assert_eq!((words.asks(), words.remote.get()), (Asks(0), None));
    assert_eq!((words.option(SlotOption::NoDelay), words.state().kind()), (0, Kind::Free));
}

#[test]
fn the_daemon_knows_a_sockets_generation_whatever_its_application_writes() {
    let (server, app) = pair();
    let slot = server.lend_slot().expect("none is in use");
    let generation = server.generation(slot);
    app.slot(slot).expect("the same").generation.store(generation.next().0, Ordering::Relaxed);
    assert_eq!(server.generation(slot), generation);
    server.take_back_slot(slot);
    assert_eq!(server.lend_slot(), Some(slot));
    assert_ne!(server.generation(slot), generation, "another socket");
    let shown = app.slot(slot).expect("the same").generation.load(Ordering::Relaxed);
    assert_eq!(shown, server.generation(slot).0);
    assert_eq!(server.generation(SlotId(u32::MAX)), Generation(0), "there is no such slot");
}

#[test]
fn a_backlog_gives_each_connection_once_whatever_its_application_writes() {
    let (server, app) = pair();
    let slot = server.lend_slot().expect("none is in use");
    let words = server.memory().slot(slot).expect("it was lent");
    let ring = server.heap().lend(10).expect("there is room");
    words.rx_ring.store(ring.desc().word(), Ordering::Release);
    let backlog = Backlog::new(ring, 3);
    let entry = |slot| Entry { region: RegionId(9), slot: SlotId(slot) };
    for at in 0..3 {
        assert!(backlog.push(server.memory(), words, entry(at)));
    }
    assert!(!backlog.push(server.memory(), words, entry(3)), "three may wait");
    let theirs = app.slot(slot).expect("the same");
    assert!(Backlog::has_any(&app, theirs));
    assert_eq!(Backlog::take(&app, theirs), Some(entry(0)));
    assert!(backlog.push(server.memory(), words, entry(3)));
    let rest: Vec<_> = std::iter::from_fn(|| Backlog::take(&app, theirs)).collect();
    assert_eq!(rest, [entry(1), entry(2), entry(3)]);
    assert!(!Backlog::has_any(&app, theirs));
    for violation in [0, 2, u64::MAX] {
        theirs.rx_head.store(violation, Ordering::Relaxed);
        let _ = backlog.push(server.memory(), words, entry(4));
        let _ = Backlog::take(&app, theirs);
    }
}

#[test]
fn a_lock_is_taken_from_the_dead_and_not_from_the_living() {
    let (_server, app) = pair();
    let lock = &app.slot(SlotId(0)).expect("there is one").rx_lock;
    let Locked::Ours(held) = SlotLock::acquire(lock, 7, |_| Holder::Lives) else {
        panic!("it was free")
    };
    assert!(matches!(SlotLock::acquire(lock, 7, |_| Holder::Lives), Locked::Reentered));
    // The holder's thread has ended without letting go.
    let Locked::Ours(stolen) = SlotLock::acquire(lock, 8, |_| Holder::IsDead) else {
        panic!("it was taken")
    };
    drop(held);
    assert_eq!(lock.load(Ordering::Relaxed), 8, "who was taken for dead frees nothing");
    drop(stolen);
    assert_eq!(lock.load(Ordering::Relaxed), 0);
}

proptest! {
    #[test]
    fn marks_are_taken_once_each_in_turns_and_none_is_forgotten(
        slots in proptest::collection::btree_set((0_u32..200).prop_map(SlotId), 0..60),
        limit in 1_usize..50,
        mut cursor in 0_u32..64,
    ) {
        let (server, app) = pair();
        let ready_bits = app.worker(1).expect("there are two");
        for &slot in &slots {
            prop_assert!(!ready_bits.set(slot), "nobody sleeps");
        }
        let _ = ready_bits.set(SlotId(5000));
        let theirs = server.memory().worker(1).expect("there are two");
        prop_assert_eq!(theirs.arm(), slots.is_empty());
        theirs.disarm();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..=slots.len() {
            theirs.take(&mut cursor, limit, |slot| assert!(seen.insert(slot), "once"));
        }
        prop_assert_eq!(seen, slots);
        prop_assert!(theirs.is_empty() && server.memory().worker(0).expect("it is there").is_empty());
    }
}
