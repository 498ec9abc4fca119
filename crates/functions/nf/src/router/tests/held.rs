//! Tests of packets that wait for their neighbour.

use super::*;
use crate::router::held::{HELD_FOR, PACKETS, PACKETS_EACH};

const LATE: [(&str, &str); 2] = [("10.0.1.9", "10.0.1.9:9"), ("fd01::9", "[fd01::9]:9")];

/// Different packets to one neighbour.
fn packets(to: &str, count: usize) -> Vec<Vec<u8>> {
    let from = if to.starts_with('[') { SIX[0] } else { FOUR[0] };
    (0..count).map(|n| udp([from, to], &[n as u8; 30])).collect()
}

fn learn(router: &mut Router, text: &str, neighbour: Neighbour) {
    let neighbour = Some(neighbour);
    router.apply(&FibChange::Neighbour { port: OUT, address: address(text), neighbour });
}

/// Lets go what may go, and what becomes of it.
fn released(router: &mut Router, now: Nanos) -> Vec<(Verdict, Vec<u8>)> {
    let mut frames = Frames::new();
    let mut results = Vec::new();
    while router.is_due(now) {
        let (mut batch, mut verdicts) = (Batch::new(), Verdicts::new());
        router.release(&mut batch, now, &mut || Some(frames.frame(&[])));
        router.process(&mut batch, &mut verdicts, now);
        let result = batch.iter().enumerate().map(|(n, frame)| (verdicts[n], frame.bytes().into()));
        results.extend(result);
        frames.give(batch);
    }
    results
}

#[test]
fn the_first_packets_to_a_neighbour_wait_and_leave_in_order_once_it_answers() {
    for (neighbour, to) in LATE {
        let mut router = router().holding_packets();
        let sent = packets(to, 3);
        for packet in &sent {
            assert_eq!(run(&mut router, packet).0, Verdict::Drop, "its frame goes home");
        }
        assert_eq!(counted(&router), BTreeMap::from([("held", 3)]));
        assert!(released(&mut router, Nanos::ZERO).is_empty(), "nothing has changed");
        learn(&mut router, "10.0.1.10", Neighbour::At(BOB_MAC));
        assert!(released(&mut router, Nanos::ZERO).is_empty(), "that was somebody else");
        learn(&mut router, neighbour, Neighbour::At(BOB_MAC));
        let left = |packet: &Vec<u8>| (Verdict::Out(OUT), forwarded(packet, BOB_MAC));
        let left: Vec<_> = sent.iter().map(left).collect();
        assert_eq!(released(&mut router, Nanos::ZERO), left);
        assert_eq!(counted(&router), BTreeMap::from([("held", 3), ("forwarded", 3)]));
    }
}

#[test]
fn senders_of_packets_that_wait_are_told_when_the_neighbour_does_not_answer() {
    for (neighbour, to) in LATE {
        let mut router = router().holding_packets();
        run(&mut router, &packets(to, 1)[0]);
        learn(&mut router, neighbour, Neighbour::Failed);
        let results = released(&mut router, Nanos::ZERO);
        assert_eq!(
            results.iter().map(|(verdict, _)| *verdict).collect::<Vec<_>>(),
            [Verdict::Out(IN)]
        );
        assert_eq!(router.counts().neighbour_failed, 1);
        assert_eq!(router.counts().icmp_sent, 1);
    }
}

#[test]
fn of_many_packets_to_one_neighbour_the_latest_wait() {
    let mut router = router().holding_packets();
    let sent = packets(LATE[0].1, PACKETS_EACH + 3);
    sent.iter().for_each(|packet| drop(run(&mut router, packet)));
    assert_eq!(router.counts().neighbour_unknown, 3);
    learn(&mut router, LATE[0].0, Neighbour::At(BOB_MAC));
    let left: Vec<_> =
        released(&mut router, Nanos::ZERO).into_iter().map(|(_, bytes)| bytes).collect();
    let latest: Vec<_> = sent[3..].iter().map(|packet| forwarded(packet, BOB_MAC)).collect();
    assert_eq!(left, latest);
}

#[test]
fn a_scan_of_a_link_leaves_a_bounded_number_of_packets_which_are_dropped_after_a_time() {
    let mut router = router().holding_packets();
    for round in 1..=3u64 {
        let now = Nanos(HELD_FOR.0 * round);
        assert!(released(&mut router, now).is_empty());
        for n in 0..250 {
            let packet = udp([FOUR[0], &format!("10.0.1.{}:9", 3 + n % 60)], &[n; 30]);
            run_at(&mut router, IN, &packet, now);
            let packet = udp([SIX[0], &format!("[fd01::a:{n:x}]:9")], &[n; 30]);
            run_at(&mut router, IN, &packet, now);
        }
        let counts = *router.counts();
        let waiting = counts.held + counts.neighbour_unknown + counts.held_too_long;
        assert!(waiting >= 500 * round, "{counts:?}");
        assert_eq!(counts.held_too_long, PACKETS as u64 * (round - 1));
        assert!(!router.is_due(now));
    }
}

#[test]
fn packets_stay_while_there_is_no_frame_for_them() {
    let mut router = router().holding_packets();
    run(&mut router, &packets(LATE[0].1, 1)[0]);
    learn(&mut router, LATE[0].0, Neighbour::At(BOB_MAC));
    let mut batch = Batch::new();
    router.release(&mut batch, Nanos::ZERO, &mut || None);
    assert!(batch.is_empty() && router.is_due(Nanos::ZERO));
    assert_eq!(released(&mut router, Nanos::ZERO).len(), 1);
}
