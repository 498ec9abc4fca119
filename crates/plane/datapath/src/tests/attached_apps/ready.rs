//! Marks in an application's memory: hints, whatever it makes of them.

use super::*;

/// Takes every mark of the application away, as if it had made none.
fn silence(app: &Tenant) -> u32 {
    app.memory.ready_to_daemon().claim(&mut 0, 64, drop)
}

#[test]
fn a_worker_that_has_not_marked_its_worker_queue_waits_for_the_slow_look_and_nobody_waits_with_it()
{
    let mut harness = Harness::new();
    let mut mute = harness.attach(&["udp:10.0.0.2:7"], 2);
    let mut honest = harness.attach(&["udp:10.0.0.2:9"], 2);
    harness.send(1, "10.0.0.2:7", b"mute");
    harness.send(1, "10.0.0.2:9", b"honest");
    harness.turn();
    assert_eq!((mute.serve_all(), honest.serve_all()), (1, 1));
    assert_eq!(silence(&mute), 1);
    harness.turn();
    assert_eq!(harness.replies(), [b"honest"]);
    harness.dispatcher.arm_apps();
    assert!(!harness.dispatcher.has_work(), "the host may sleep");
    let begun = harness.now;
    let mut heard = Vec::new();
    while heard.is_empty() && harness.now.since(begun) < Nanos::from_millis(50) {
        harness.turn();
        heard = harness.replies();
    }
    assert_eq!(heard, [b"mute"], "its packets are not held for ever");
    assert!(harness.is_clean());
}

#[test]
fn marks_without_a_message_are_looked_at_so_often_a_second_and_others_are_heard_at_once() {
    let mut harness = Harness::new();
    let mut liar = harness.attach(&["udp:10.0.0.2:7"], 1);
    let mut honest = harness.attach(&["udp:10.0.0.2:9"], 1);
    harness.send(1, "10.0.0.2:7", b"liar");
    harness.turn();
    harness.dispatcher.arm_apps();
    let forge = |liar: &Tenant| liar.memory.ready_to_daemon().set_ready(0);
    let mut kept_awake = 0;
    for _ in 0..500 {
        forge(&liar);
        kept_awake += u32::from(harness.dispatcher.has_work());
        harness.turn();
        harness.dispatcher.arm_apps();
    }
    assert!((100..150).contains(&kept_awake), "a burst, then a thousand a second: {kept_awake}");
    harness.send(1, "10.0.0.2:9", b"honest");
    harness.turn();
    assert_eq!((liar.serve_all(), honest.serve_all()), (1, 1));
    let begun = harness.now;
    harness.turn();
    let mut heard = harness.replies();
    assert!(heard.contains(&b"honest".to_vec()), "others are heard at once");
    while heard.len() < 2 && harness.now.since(begun) < Nanos::from_millis(50) {
        harness.turn();
        heard.append(&mut harness.replies());
    }
    assert_eq!(heard.len(), 2, "and it is heard in its time");
    assert!(harness.is_clean());
}

#[test]
fn a_worker_that_answers_all_the_time_and_one_that_seldom_does_are_both_heard_in_the_next_turn() {
    let mut harness = Harness::new();
    let mut busy = harness.attach(&["udp:10.0.0.2:7"], 1);
    let mut seldom = harness.attach(&["udp:10.0.0.2:9"], 1);
    for round in 0..300 {
        harness.send(1, "10.0.0.2:7", b"b");
        if round % 50 == 0 {
            harness.send(1, "10.0.0.2:9", b"s");
        }
        harness.turn();
        busy.serve_all();
        seldom.serve_all();
        // As a host does between packets.
        if round % 7 == 0 {
            harness.dispatcher.arm_apps();
        }
        assert!(harness.dispatcher.has_work());
        harness.turn();
        assert_eq!(harness.replies().len(), if round % 50 == 0 { 2 } else { 1 });
        assert!(harness.is_clean());
    }
}
