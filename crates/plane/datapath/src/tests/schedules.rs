//! Random schedules of workers that come, go, stop and die while groups move under load.
//!
//! Each schedule is a seed. A failure prints it; `SCHEDULE_SEED=n` runs that one alone.

use base::{FlowGroup, FlowHash, Nanos};
use policy::{Entry, steer};

use super::harness::{FLOWS, Harness, policy};
use crate::counters::DispatchEvent;
use crate::testing::Lots;

const SCHEDULES: u64 = 10_000;

fn run(seed: u64) -> Harness {
    let mut lots = Lots::new(seed);
    // `shared` promises no order; all others must keep it.
    let names: Vec<&str> =
        steer::NAMES.iter().map(|(name, _)| *name).filter(|name| *name != "shared").collect();
    let name = names[lots.below(names.len() as u32) as usize];
    let workers = 1 + lots.below(4) as usize;
    let hold = [8, 64, 512][lots.below(3) as usize];
    let mut harness = Harness::new(name, workers, hold);
    let turns = 60 + lots.below(240);
    for _ in 0..turns {
        match lots.below(100) {
            0..40 => {
                for _ in 0..=lots.below(24) {
                    harness.packet(lots.below(FLOWS as u32) as usize);
                }
                harness.publish();
            }
            40..66 => harness.step(lots.below(8) as usize),
            66..76 => harness.drain(1 + lots.below(64) as usize),
            76..87 => harness.tick(Nanos::from_micros(u64::from(lots.below(400)))),
            87..89 => harness.tick(Nanos::from_millis(u64::from(lots.below(40)))),
            89..91 => {
                harness.add_worker(lots.below(3));
            }
            91..93 => {
                let active = harness.active();
                if active.len() > 1 {
                    harness
                        .steering
                        .remove_worker(active[lots.below(active.len() as u32) as usize]);
                }
            }
            93 => {
                let active = harness.active();
                // One must live, or there is nobody to do the work.
                if active.len() > 1 {
                    let victim = active[lots.below(active.len() as u32) as usize];
                    harness.kill(victim.index(), lots.below(40));
                    harness.step(victim.index());
                    // If it had too few packets to die of, it lives.
                    harness.spare();
                }
            }
            94..96 => {
                if let Some(hosted) = &mut harness.hosted[lots.below(8) as usize] {
                    hosted.stopped_for = lots.below(60);
                }
            }
            96 => {
                let (control, live) = harness.steering.control_mut();
                let len = live.len();
                control.set_policy(policy(names[lots.below(names.len() as u32) as usize], len));
            }
            97 => {
                let active = harness.active();
                let to = active[lots.below(active.len() as u32) as usize];
                let (control, live) = harness.steering.control_mut();
                let _ = control.pin(FlowGroup(lots.below(128)), to, live);
            }
            98 => {
                let active = harness.active();
                let to = active[lots.below(active.len() as u32) as usize];
                let flow = lots.below(FLOWS as u32);
                let hash = FlowHash(flow.wrapping_mul(0x9e37_79b1));
                if lots.below(2) == 0 {
                    let _ = harness.steering.pin_flow(u64::from(flow), hash, to);
                } else {
                    harness.steering.unpin_flow(u64::from(flow), hash);
                }
            }
            _ => {
                let active = harness.active();
                let owners: Vec<Entry> = (0..128)
                    .map(|_| Entry::owned_by(active[lots.below(active.len() as u32) as usize]))
                    .collect();
                let (control, live) = harness.steering.control_mut();
                control.load(owners, live).expect("it fits, and the workers are active");
            }
        }
    }
    harness.settle();
    harness
}

fn check(harness: &Harness) {
    let overflow = harness.lost(DispatchEvent::HoldOverflow);
    let processed = harness.tracker.borrow().processed;
    assert_eq!(processed + overflow, harness.sent_all, "a packet is neither done nor counted");
    for event in [DispatchEvent::RingFull, DispatchEvent::NoWorker] {
        assert_eq!(harness.lost(event), 0, "{}", event.name());
    }
    for group in (0..harness.steering.table().len() as u32).map(FlowGroup) {
        let owner = harness.owner(group);
        assert!(
            owner.is_none_or(|owner| harness.active().contains(&owner)),
            "group {group}: {owner:?}"
        );
    }
}

#[test]
fn no_schedule_reorders_a_flow_shows_it_to_two_workers_or_loses_a_packet_uncounted() {
    if let Ok(seed) = std::env::var("SCHEDULE_SEED") {
        let seed = seed.parse().expect("SCHEDULE_SEED is a number");
        return check(&run(seed));
    }
    let (mut epochs, mut moves, mut aborts, mut deaths, mut overflows) = (0, 0, 0, 0, 0);
    for seed in 0..SCHEDULES {
        let outcome = std::panic::catch_unwind(|| {
            let harness = run(seed);
            check(&harness);
            [
                DispatchEvent::EpochsFinished,
                DispatchEvent::MovesReleased,
                DispatchEvent::BarriersAborted,
                DispatchEvent::MovesAborted,
                DispatchEvent::WorkersDied,
                DispatchEvent::HoldOverflow,
            ]
            .map(|event| harness.lost(event))
        });
        let Ok([epoch, single, barrier, abort, death, overflow]) = outcome else {
            panic!("schedule {seed} fails: SCHEDULE_SEED={seed} runs it alone");
        };
        epochs += epoch;
        moves += single;
        aborts += barrier + abort;
        deaths += death;
        overflows += overflow;
    }
    println!(
        "{epochs} epochs, {moves} moves, {aborts} aborts, {deaths} deaths, {overflows} overflows"
    );
    // The schedules must have met what they are for.
    assert!(
        epochs > 10_000 && moves > 1_000 && aborts > 1_000 && deaths > 1_000 && overflows > 1_000
    );
}

#[test]
fn a_full_hold_queue_drops_and_counts_and_keeps_the_order_of_the_rest() {
    let mut harness = Harness::new("sticky", 1, 16);
    harness.packet_each();
    // Worker 0 stops: its barrier is not passed, so packets of leaving groups are held.
    assert!(harness.add_worker(0));
    for _ in 0..20 {
        harness.tick(Nanos::from_micros(60));
    }
    for _ in 0..3 {
        harness.packet_each();
    }
    assert_eq!(harness.steering.held(), 16, "the queue is full");
    let dropped = harness.lost(DispatchEvent::HoldOverflow);
    assert!(dropped > 50, "{dropped}");
    harness.settle();
    check(&harness);
}

#[test]
fn a_stopped_owner_keeps_its_groups_until_it_can_give_them_up() {
    let mut harness = Harness::new("sticky", 1, 256);
    harness.packet_each();
    assert!(harness.add_worker(0));
    for _ in 0..20 {
        harness.tick(Nanos::from_micros(60));
    }
    harness.packet_each();
    assert!(harness.steering.held() > 20, "packets wait for worker 0");
    harness.step(1);
    harness.drain(64);
    harness.tick(Nanos::from_millis(25));
    assert_eq!(harness.lost(DispatchEvent::BarriersAborted), 1);
    assert_eq!(harness.steering.held(), 0, "they went to worker 0, whose groups they still are");
    harness.settle();
    assert!(harness.lost(DispatchEvent::EpochsFinished) >= 2, "it was tried again");
    let owned = harness.steering.control().owned(base::WorkerId(1));
    assert!(owned > 30, "in the end worker 1 got its share: {owned}");
    check(&harness);
}

#[test]
fn what_a_dead_worker_left_undone_is_done_by_another_before_anything_newer() {
    let mut harness = Harness::new("calisto", 2, 512);
    for _ in 0..3 {
        harness.packet_each();
    }
    harness.publish();
    harness.kill(0, 10);
    harness.step(0);
    assert_eq!(harness.lost(DispatchEvent::WorkersDied), 1);
    assert!(harness.lost(DispatchEvent::Redispatched) > 100);
    harness.settle();
    check(&harness);
    assert_eq!(harness.tracker.borrow().processed, 3 * FLOWS as u64, "nothing is lost");
}

#[test]
fn a_worker_that_leaves_ends_only_when_its_last_packet_is_done() {
    let mut harness = Harness::new("sticky", 2, 256);
    harness.packet_each();
    assert!(harness.steering.remove_worker(base::WorkerId(1)));
    assert!(!harness.steering.remove_worker(base::WorkerId(1)), "it is leaving already");
    harness.settle();
    for _ in 0..10 {
        harness.tick(Nanos::from_micros(60));
        harness.step(1);
        harness.drain(64);
    }
    assert!(harness.hosted[1].is_none(), "its thread has ended");
    assert_eq!(harness.steering.take_retired(), [base::WorkerId(1)]);
    check(&harness);
}

#[test]
fn leaving_shared_waits_for_every_ring_because_no_table_says_where_a_flow_is() {
    let mut harness = Harness::new("shared", 3, 512);
    harness.packet_each();
    let (control, live) = harness.steering.control_mut();
    let sticky = policy("sticky", live.len());
    control.set_policy(sticky);
    for _ in 0..10 {
        harness.tick(Nanos::from_micros(60));
    }
    harness.packet_each();
    assert_eq!(harness.steering.held(), FLOWS, "no worker has passed yet");
    // The last one to pass lets them go; the others would have overtaken its packets.
    for worker in [0, 1] {
        for _ in 0..3 {
            harness.step(worker);
        }
        harness.drain(512);
        harness.tick(Nanos::from_micros(60));
    }
    assert_eq!(harness.steering.held(), FLOWS);
    harness.settle();
    check(&harness);
}
