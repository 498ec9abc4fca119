//! Workers that do not keep to the protocol hurt themselves alone.

use super::*;
use crate::DetachReason;

#[test]
fn a_stray_thread_is_reported_once_and_its_application_goes() {
    let mut floor = settled(1, &[(2, terms(0, 1)), (1, terms(0, 1))]);
    let liar = floor.troupes[0].players[0].slot;
    floor.fake_threads.strange =
        (0..2).map(|at| 1000 + floor.troupes[0].players[at].slot.index() as u32).collect();
    assert_eq!(liar.index(), 0);
    floor.send(0, 1);
    floor.turn(INTERVAL);
    assert_eq!(floor.faults, [(floor.troupes[0].id, DetachReason::StrayThread)]);
    assert_eq!(floor.count(CoreEvent::StrayThreads), 1);
    assert_eq!(floor.holder(1), None);
    floor.send(1, 1);
    floor.run(SHORT);
    assert_eq!(floor.served(1), 1);
}

#[test]
fn a_worker_that_runs_without_a_core_is_moved_away_and_a_dead_one_is_reported() {
    let mut floor = settled(1, &[(1, terms(0, 1)), (1, terms(0, 1))]);
    let mut cursor = 0;
    let suspects: Vec<_> =
        (0..2).filter_map(|_| floor.allocator.next_suspect(&mut cursor)).collect();
    assert!(suspects.iter().all(|suspect| suspect.parked_since.is_some()));
    let [first, second] = [0, 1].map(|at: usize| floor.troupes[at].players[0].slot);
    floor.allocator.report_running(first, &mut floor.fake_threads);
    assert_eq!(floor.fake_threads.evicted, [first]);
    assert_eq!(floor.count(CoreEvent::RanWhileParked), 1);
    floor.allocator.report_dead(second);
    floor.allocator.report_dead(second);
    assert_eq!(floor.allocator.next_stray(), Some(floor.troupes[1].id));
    assert_eq!(floor.allocator.next_stray(), None, "once");
    assert_eq!(floor.count(CoreEvent::StrayThreads), 1, "however often it is found");
    floor.send(0, 1);
    floor.turn(INTERVAL);
    assert!(floor.fake_threads.evicted.is_empty(), "with a core it may run there again");
}

#[test]
fn a_resting_worker_that_says_it_is_parked_is_looked_at_too() {
    let (floor, _) = one_of_two_rests();
    let mut cursor = 0;
    let looked: std::collections::BTreeSet<_> = (0..2)
        .filter_map(|_| floor.allocator.next_suspect(&mut cursor))
        .map(|of| of.slot)
        .collect();
    assert_eq!(looked.len(), 2);
}

#[test]
fn forged_bits_cost_a_bounded_number_of_looks_and_the_loop_sleeps_between_them() {
    let mut floor = settled(1, &[(2, terms(0, 1)), (1, terms(0, 1))]);
    let before = floor.steps;
    // 100 ms of nothing but bits.
    for _ in 0..100_000 {
        if floor.troupes[0].players[0].end.core_grant_spoke() {
            floor.ring();
        }
        floor.turn(Nanos::from_micros(1));
    }
    let looks = floor.steps - before;
    // A burst of 64, and a thousand a second.
    assert!((100..=170).contains(&looks), "{looks}");
    floor.send(1, 1);
    floor.run(SHORT);
    assert_eq!(floor.served(1), 1, "others are heard as before");
    // An honest word is heard late, not never.
    floor.troupes[0].players[0].say(true);
    floor.ring();
    floor.run(Nanos::from_millis(2));
    assert_eq!(floor.holder(1), None);
    assert!(floor.counts_of(0).get(CoreEvent::Grants) > 0);
}

#[test]
fn who_parks_whenever_it_is_granted_a_core_and_wants_another_keeps_nobody_from_it() {
    let mut floor = settled(1, &[(1, terms(0, 1)), (1, terms(0, 1))]);
    // It answers every word at once, without ever having a core in its own eyes.
    for turn in 0..4000 {
        if turn % 64 == 0 {
            floor.send(0, 1);
        }
        let player = &mut floor.troupes[0].players[0];
        player.look();
        player.say(true);
        floor.act(1, 0);
        floor.turn(Nanos::from_micros(2));
        if turn % 100 == 0 {
            floor.send(1, 1);
        }
    }
    floor.check_cores();
    floor.run(SHORT);
    let sent = *floor.sent.get(&101).unwrap_or(&0);
    assert_eq!(floor.served(1), usize::from(sent), "the other one has all that it needs");
}
