//! When what has come is acknowledged: with an answer, when it was read, or late.

use crate::support::connection::{accepted, new_reno, plain};
use crate::support::script::Script;
use tcp::{Config, FlowOptions};

/// A connection whose first segments, which are acknowledged at once, have come and gone. Returns
/// the next number of the peer.
fn settled(config: Config, options: FlowOptions) -> (Script, u32) {
    let mut script = Script::accepted(config, options);
    let mut next = 1;
    for _ in 0..16 {
        script.inject(&format!("P. {next}:{} ack 1 win 65535", next + 10));
        next += 10;
        assert_eq!(script.take_packets().len(), 1, "the first are acknowledged at once");
        script.read(next - 10, 10);
        assert!(sent(&mut script).is_empty());
    }
    (script, next)
}

/// What the engine sends now, without windows: these tests are about when.
fn sent(script: &mut Script) -> Vec<String> {
    let packets = script.take_packets();
    let texts = packets.iter().map(|packet| script.print(packet));
    texts.map(|text| text.split(" win").next().unwrap_or_default().to_string()).collect()
}

fn one_way() -> (Script, u32) {
    settled(plain(), new_reno())
}

#[test]
fn a_message_that_nobody_answers_is_acknowledged_when_it_was_read() {
    let (mut script, next) = one_way();
    script.inject(&format!("P. {next}:{} ack 1 win 65535", next + 10));
    assert!(sent(&mut script).is_empty());
    script.wait_ms(5);
    script.read(next, 4);
    // Not before all of it was.
    assert!(sent(&mut script).is_empty());
    script.read(next + 4, 6);
    assert_eq!(sent(&mut script), [format!(". 1:1 ack {}", next + 10)]);
    script.wait_ms(100);
    assert!(sent(&mut script).is_empty());
}

#[test]
fn a_message_that_is_not_read_is_acknowledged_when_the_delay_is_over() {
    let (mut script, next) = one_way();
    script.inject(&format!("P. {next}:{} ack 1 win 65535", next + 10));
    script.wait_ms(39);
    assert!(sent(&mut script).is_empty());
    script.wait_ms(2);
    assert_eq!(script.take_packets().len(), 1);
}

#[test]
fn where_answers_are_given_a_read_alone_sends_nothing_but_after_a_second_message() {
    let (mut script, next) = one_way();
    script.inject(&format!("P. {next}:{} ack 1 win 65535", next + 10));
    script.read(next, 10);
    script.write(10);
    assert_eq!(sent(&mut script), [format!("P. 1:11 ack {}", next + 10)]);
    let next = next + 10;
    script.inject(&format!("P. {next}:{} ack 11 win 65535", next + 10));
    script.read(next, 10);
    assert!(sent(&mut script).is_empty());
    let next = next + 10;
    script.inject(&format!("P. {next}:{} ack 11 win 65535", next + 10));
    script.read(next, 10);
    assert_eq!(sent(&mut script), [format!(". 11:11 ack {}", next + 10)]);
}

#[test]
fn an_answer_that_follows_its_acknowledgement_makes_the_next_one_wait() {
    let (mut script, next) = one_way();
    script.inject(&format!("P. {next}:{} ack 1 win 65535", next + 10));
    script.read(next, 10);
    assert_eq!(sent(&mut script), [format!(". 1:1 ack {}", next + 10)]);
    script.wait_ms(1);
    script.write(10);
    assert_eq!(sent(&mut script), [format!("P. 1:11 ack {}", next + 10)]);
    let next = next + 10;
    script.inject(&format!("P. {next}:{} ack 11 win 65535", next + 10));
    script.read(next, 10);
    assert!(sent(&mut script).is_empty());
}

#[test]
fn an_answer_that_does_not_come_ends_the_waiting_for_answers() {
    let (mut script, next) = one_way();
    script.inject(&format!("P. {next}:{} ack 1 win 65535", next + 10));
    script.read(next, 10);
    script.write(10);
    assert_eq!(sent(&mut script), [format!("P. 1:11 ack {}", next + 10)]);
    let next = next + 10;
    script.inject(&format!("P. {next}:{} ack 11 win 65535", next + 10));
    script.read(next, 10);
    script.wait_ms(42);
    assert_eq!(script.take_packets().len(), 1, "late");
    let next = next + 10;
    script.inject(&format!("P. {next}:{} ack 11 win 65535", next + 10));
    script.read(next, 10);
    assert_eq!(script.take_packets().len(), 1, "on the read");
}

#[test]
fn after_a_pause_messages_are_acknowledged_at_once_again() {
    let (mut script, next) = one_way();
    script.wait_ms(500);
    script.inject(&format!("P. {next}:{} ack 1 win 65535", next + 10));
    assert_eq!(sent(&mut script), [format!(". 1:1 ack {}", next + 10)]);
}

#[test]
fn quick_acknowledgements_end_with_an_answer_and_come_back_when_asked_for() {
    let (mut script, mut next) = one_way();
    let flow = script.flow();
    let engine = &mut script.host.engine;
    assert_eq!(engine.quick_ack(flow), Some(true));
    engine.set_quick_ack(flow, false).expect("it stands");
    assert_eq!(engine.quick_ack(flow), Some(false));
    script.inject(&format!("P. {next}:{} ack 1 win 65535", next + 10));
    script.read(next, 10);
    assert!(sent(&mut script).is_empty());
    next += 10;
    script.host.engine.set_quick_ack(flow, true).expect("it stands");
    assert_eq!(sent(&mut script), [format!(". 1:1 ack {next}")]);
    // With something unread it is too soon.
    script.host.engine.set_quick_ack(flow, false).expect("it stands");
    script.inject(&format!("P. {next}:{} ack 1 win 65535", next + 10));
    assert!(sent(&mut script).is_empty());
    script.host.engine.set_quick_ack(flow, true).expect("it stands");
    assert!(sent(&mut script).is_empty());
    script.read(next, 10);
    assert_eq!(sent(&mut script), [format!(". 1:1 ack {}", next + 10)]);
}

#[test]
fn who_only_sends_does_not_wait_for_answers() {
    let mut script = accepted();
    script.write(10);
    assert_eq!(sent(&mut script), ["P. 1:11 ack 1"]);
    script.inject(". 1:1 ack 11 win 65535");
    script.wait_ms(10);
    script.inject("P. 1:11 ack 11 win 65535");
    assert_eq!(sent(&mut script), [". 11:11 ack 11"]);
}
