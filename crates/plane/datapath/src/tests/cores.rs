//! Cores on demand behind the real dispatcher: who gets one, who gives one back, and who must.

mod floor;
mod misconduct;
mod schedules;

use base::Nanos;

use crate::cores::CoreEvent;
use floor::{BOUND, Floor, INTERVAL, batch, terms};

const SHORT: Nanos = Nanos::from_micros(100);

/// A worker of the application that is asleep or gets there, as all others.
fn settled(cores: u16, apps: &[(usize, crate::cores::CoreTerms)]) -> Floor {
    let mut floor = Floor::new(cores);
    for &(workers, terms) in apps {
        floor.spawn(workers, terms);
    }
    floor.run(Nanos::from_millis(4));
    floor
}

#[test]
fn a_parked_worker_gets_a_core_for_its_first_packet_and_gives_it_back_after_it() {
    let mut floor = settled(1, &[(1, terms(0, 1))]);
    let before = floor.count(CoreEvent::Grants);
    floor.send(0, 1);
    floor.turn(INTERVAL);
    assert_eq!(floor.holder(1), Some(floor.troupes[0].players[0].slot));
    floor.run(SHORT);
    assert_eq!(floor.served(0), 1);
    assert_eq!(floor.count(CoreEvent::Grants), before + 1);
    assert_eq!(floor.holder(1), None, "nothing is left to do");
    floor.check_cores();
    assert!(floor.harness.is_clean());
}

#[test]
fn who_begins_to_wait_after_the_last_look_is_offered_the_idle_core_before_the_loop_sleeps() {
    // A batch job comes, and nobody calls: the loop may not sleep over it.
    let mut floor = Floor::new(1);
    floor.spawn(1, batch(1));
    assert!(floor.allocator.next_deadline(&floor.harness.dispatcher) <= floor.harness.now);
    floor.run(SHORT);
    assert!(floor.holder(1).is_some());
    // Its core is taken from a worker that has something queued, and nobody wants it.
    let mut floor = settled(1, &[(1, terms(0, 1))]);
    floor.send(0, 1);
    floor.turn(INTERVAL);
    let slot = floor.holder(1).expect("it was granted");
    floor.allocator.control().set_policy(policy::cores::by_name("static_set").expect("a policy"));
    // The worker does not listen until its core is taken.
    for _ in 0..60 {
        floor.turn(INTERVAL);
    }
    assert_eq!(floor.count(CoreEvent::Takes), 1);
    assert!(floor.fake_threads.evicted.contains(&slot));
    floor.allocator.control().set_policy(policy::cores::by_name("queue_delay").expect("a policy"));
    let grants = floor.count(CoreEvent::Grants);
    for _ in 0..4 {
        floor.turn(INTERVAL);
    }
    assert_eq!(floor.count(CoreEvent::Grants), grants + 1, "what is queued is waited for");
}

#[test]
fn a_core_goes_to_the_next_only_when_its_holder_has_parked() {
    let mut floor = settled(1, &[(1, terms(0, 1)), (1, terms(1, 1))]);
    floor.send(0, 1);
    floor.turn(INTERVAL);
    let (first, second) = (floor.troupes[0].players[0].slot, floor.troupes[1].players[0].slot);
    assert_eq!(floor.holder(1), Some(first));
    floor.send(1, 1);
    for _ in 0..8 {
        floor.turn(INTERVAL);
    }
    assert_eq!(floor.holder(1), Some(first), "it was told, and has not parked");
    assert_eq!(floor.count(CoreEvent::Revokes), 1);
    floor.run(SHORT);
    assert!(floor.served(1) == 1 && floor.served(0) == 1);
    assert!(floor.fake_threads.placed.contains(&(second, 1)));
    assert_eq!(floor.count(CoreEvent::Takes), 0);
    floor.check_cores();
}

#[test]
fn who_is_told_to_park_does_so_with_its_queue_full_and_goes_on_later() {
    let mut floor = settled(1, &[(1, terms(0, 1)), (1, terms(1, 1))]);
    for _ in 0..12 {
        floor.send(0, 1);
    }
    floor.turn(INTERVAL);
    floor.act(0, 0);
    floor.act(0, 0);
    floor.send(1, 1);
    floor.turn(INTERVAL);
    for _ in 0..3 {
        floor.act(0, 0);
    }
    floor.turn(INTERVAL);
    assert_eq!(floor.holder(1), Some(floor.troupes[1].players[0].slot));
    assert_eq!(floor.served(0), 4);
    assert_eq!((floor.count(CoreEvent::Parks), floor.count(CoreEvent::Nudges)), (1, 0));
    floor.run(SHORT);
    assert_eq!((floor.served(0), floor.served(1)), (12, 1));
    floor.check_cores();
}

#[test]
fn a_call_between_two_ticks_is_heard_at_once_and_hurries_no_judgement_of_queues() {
    let mut floor = settled(3, &[(2, terms(0, 2)), (1, terms(0, 1))]);
    let before = [0, 1].map(|app| floor.counts_of(app).get(CoreEvent::Grants));
    let granted =
        |floor: &Floor, app: usize| floor.counts_of(app).get(CoreEvent::Grants) - before[app];
    floor.send(0, 1);
    floor.turn(INTERVAL);
    floor.turn(INTERVAL);
    assert_eq!(granted(&floor, 0), 1);
    floor.send(1, 1);
    floor.turn(Nanos::from_micros(1));
    assert_eq!(granted(&floor, 1), 1);
    assert_eq!(granted(&floor, 0), 1, "its tick has not come");
    floor.turn(INTERVAL);
    assert_eq!(granted(&floor, 0), 2, "now it has stood for a tick");
}

#[test]
fn who_does_not_listen_is_interrupted_at_half_of_the_bound_and_moved_off_at_its_end() {
    let mut floor = settled(1, &[(1, terms(0, 1)), (1, terms(1, 1))]);
    floor.send(0, 1);
    floor.turn(INTERVAL);
    let (deaf, next) = (floor.troupes[0].players[0].slot, floor.troupes[1].players[0].slot);
    // It has nothing queued: only that it was told is a reason to look at it.
    floor.troupes[0].players[0].look();
    floor.troupes[0].players[0].serve(4);
    for _ in 0..4 {
        floor.turn(INTERVAL);
    }
    floor.send(1, 1);
    floor.turn(INTERVAL);
    assert_eq!(floor.count(CoreEvent::Revokes), 1);
    let told = floor.harness.now;
    while floor.harness.now.since(told) < Nanos(BOUND.0 / 2) {
        assert!(floor.fake_threads.nudged.is_empty());
        floor.turn(INTERVAL);
    }
    assert_eq!(floor.fake_threads.nudged, [deaf]);
    while floor.harness.now.since(told) < BOUND {
        assert!(floor.fake_threads.evicted.is_empty());
        floor.turn(INTERVAL);
    }
    assert_eq!(floor.fake_threads.evicted, [deaf]);
    assert_eq!(floor.fake_threads.nudged, [deaf], "once");
    assert_eq!(floor.holder(1), Some(next), "in the same step");
    floor.run(SHORT);
    floor.send(0, 1);
    floor.run(SHORT);
    assert_eq!((floor.served(0), floor.served(1)), (2, 1), "and both are served in the end");
    assert!(floor.fake_threads.evicted.is_empty(), "who parks and is granted a core again is back");
    floor.check_cores();
}

#[test]
fn a_batch_job_gives_way_at_once_and_gets_the_core_back() {
    let mut floor = settled(1, &[(1, batch(1)), (1, terms(0, 1))]);
    let (job, app) = (floor.troupes[0].players[0].slot, floor.troupes[1].players[0].slot);
    assert_eq!(floor.holder(1), Some(job));
    floor.send(1, 1);
    floor.turn(INTERVAL);
    assert_eq!(floor.holder(1), Some(app), "nobody waited for the job");
    floor.run(SHORT);
    assert_eq!(floor.served(1), 1);
    assert_eq!(floor.holder(1), Some(job));
    assert_eq!(floor.count(CoreEvent::Takes), 0);
    floor.check_cores();
}

/// Two workers on one core, one of which has something to do all the time until the other rests;
/// which of them that is.
fn one_of_two_rests() -> (Floor, usize) {
    let mut floor = settled(1, &[(2, terms(0, 1))]);
    for flow in 0..16 {
        floor.send(0, flow);
    }
    floor.run(Nanos(4 * SHORT.0));
    let busy = floor.troupes[0].players.iter().filter(|player| !player.served.is_empty()).count();
    assert_eq!(busy, 2, "both own groups");
    // One of them has something to do all the time, so that the other is without a core for long.
    let worker = usize::from(floor.troupes[0].players[1].served.len() > 8);
    let flows: Vec<u16> = floor.troupes[0].players[worker]
        .served
        .iter()
        .map(|payload| u16::from_be_bytes([payload[0], payload[1]]))
        .collect();
    let until = floor.harness.now + Nanos::from_millis(3);
    while floor.harness.now < until {
        floor.send(0, flows[0]);
        floor.run(Nanos::from_micros(3));
    }
    assert!(floor.count(CoreEvent::Rests) > 0);
    (floor, worker)
}

#[test]
fn a_resting_worker_does_its_part_of_a_hand_over_without_a_core_and_gets_its_groups_back() {
    let (mut floor, worker) = one_of_two_rests();
    assert!(floor.count(CoreEvent::Drains) > 0);
    let served = floor.troupes[0].players[1 - worker].served.len();
    for flow in 0..16 {
        floor.send(0, flow);
    }
    floor.run(SHORT);
    assert_eq!(floor.troupes[0].players[1 - worker].served.len(), served, "its groups are away");
    let total: u16 = floor.sent.values().sum();
    assert_eq!(floor.served(0), usize::from(total), "and nothing was lost");
    // It wants a core for something of its own, and gets one.
    floor.troupes[0].players[1 - worker].say(true);
    floor.ring();
    floor.run(Nanos::from_millis(10));
    for flow in 0..16 {
        floor.send(0, flow);
    }
    floor.run(SHORT);
    assert!(floor.troupes[0].players[1 - worker].served.len() > served, "they are back");
    floor.check_cores();
}

#[test]
fn when_the_one_that_runs_leaves_the_one_that_rests_owns_the_groups_again() {
    let (mut floor, busy) = one_of_two_rests();
    floor.run(SHORT);
    let (app, resting) = (floor.troupes[0].id, 1 - busy);
    let leaves = base::WorkerId(busy as u16);
    let steering = floor.harness.dispatcher.steering_of_mut(app).expect("it is there");
    assert!(steering.remove_worker(leaves));
    floor.ring();
    floor.run(Nanos::from_millis(4));
    let before = floor.troupes[0].players[resting].served.len();
    for flow in 0..16 {
        floor.send(0, flow);
    }
    floor.run(SHORT);
    assert_eq!(floor.troupes[0].players[resting].served.len(), before + 16);
    let drains = floor.count(CoreEvent::Drains);
    floor.send(0, 1);
    floor.run(SHORT);
    assert_eq!(floor.count(CoreEvent::Drains), drains, "with a core of its own");
}

#[test]
fn who_waits_in_vain_because_a_colleague_is_busy_gives_its_groups_to_it() {
    // Both parked for long, so nobody was there to take the groups then.
    let mut floor = settled(1, &[(2, terms(0, 1))]);
    for flow in 0..16 {
        floor.send(0, flow);
    }
    floor.run(Nanos::from_millis(20));
    let of_first = &floor.troupes[0].players[0].served;
    assert!(!of_first.is_empty() && of_first.len() < 16, "both own groups");
    let flow = |payload: &Vec<u8>| u16::from_be_bytes([payload[0], payload[1]]);
    let (busy, other) = (flow(&of_first[0]), flow(&floor.troupes[0].players[1].served[0]));
    floor.send(0, busy);
    floor.turn(INTERVAL);
    floor.send(0, other);
    let before = floor.served(0);
    // The first one never comes to an end.
    let until = floor.harness.now + Nanos::from_millis(4);
    let mut sent = 1;
    while floor.harness.now < until {
        floor.send(0, busy);
        sent += 1;
        floor.troupes[0].players[0].look();
        floor.troupes[0].players[0].serve(1);
        floor.act(0, 1);
        floor.turn(Nanos::from_micros(3));
    }
    let others = floor.troupes[0].players.iter().flat_map(|player| &player.served);
    let others = others.filter(|payload| flow(payload) == other).count();
    assert_eq!(others, 2, "{} of {sent} served", floor.served(0) - before);
}

#[test]
fn who_waits_for_a_core_is_not_stalled_and_has_all_its_time_when_it_has_one() {
    let mut floor = settled(1, &[(1, terms(1, 1)), (1, terms(0, 1))]);
    floor.send(1, 1);
    floor.run(SHORT);
    floor.send(0, 1);
    floor.turn(INTERVAL);
    assert_eq!((floor.served(1), floor.holder(1).is_some()), (1, true));
    floor.send(1, 1);
    // The holder goes on for longer than anybody may leave a packet alone.
    let until = floor.harness.now + Nanos(2 * crate::tests::attached_apps::STALL.0);
    while floor.harness.now < until {
        floor.send(0, 1);
        floor.troupes[0].players[0].look();
        floor.troupes[0].players[0].serve(2);
        floor.turn(Nanos::from_micros(60));
    }
    assert!(floor.faults.is_empty(), "{:?}", floor.faults);
    assert_eq!(floor.served(1), 1);
    // It gets its core, and its load is sampled before it has run.
    let player = &mut floor.troupes[0].players[0];
    player.serve(64);
    player.say(false);
    floor.ring();
    for _ in 0..40 {
        floor.turn(SHORT);
    }
    assert_eq!(floor.holder(1), Some(floor.troupes[1].players[0].slot));
    assert!(floor.faults.is_empty(), "it is not to blame: {:?}", floor.faults);
    // From then on it is.
    for _ in 0..1100 {
        floor.turn(SHORT);
    }
    assert_eq!(floor.faults, [(floor.troupes[1].id, crate::DetachReason::Stalled)]);
}

#[test]
fn cores_of_an_application_that_leaves_go_to_others_and_its_places_are_used_again() {
    let mut floor = settled(1, &[(1, terms(1, 1)), (1, terms(0, 1))]);
    floor.send(0, 1);
    floor.turn(INTERVAL);
    floor.send(1, 1);
    floor.turn(INTERVAL);
    let (first, second) = (floor.troupes[0].players[0].slot, floor.troupes[1].players[0].slot);
    assert_eq!(floor.holder(1), Some(first));
    floor.detach(floor.troupes[0].id, crate::DetachReason::Left);
    assert_eq!(floor.fake_threads.released, [first], "its thread is free again");
    assert_eq!(floor.holder(1), Some(second), "in the same call");
    let again = floor.spawn(1, terms(1, 1));
    assert_eq!(floor.troupes[again].players[0].slot, first);
    floor.run(SHORT);
    floor.send(again, 1);
    floor.run(SHORT);
    assert_eq!((floor.served(1), floor.served(again)), (1, 1));
    floor.check_cores();
}

#[test]
fn a_parked_application_costs_no_steps() {
    let mut floor = settled(2, &[(2, terms(0, 1)), (2, terms(0, 1))]);
    floor.run(Nanos::from_millis(4));
    let before = floor.steps;
    floor.run(Nanos::from_millis(1000));
    assert_eq!(floor.steps, before);
}
