//! Callers whom nobody takes: they wait and try again, as before a Linux with a full backlog.

use crate::support::connection::{new_reno, plain};
use crate::support::script::Script;
use tcp::{FlowOptions, State};

fn listening() -> Script {
    let mut script = Script::new(plain(), new_reno());
    script.listen(8);
    script
}

const SYN_ACK: &str = "S. 0:0 ack 1 win 65535 <mss 1460>";

#[test]
fn a_caller_before_a_full_backlog_is_taken_when_it_says_again_that_it_is_there() {
    let mut script = listening();
    script.inject("S 0:0 win 65535 <mss 1000>");
    script.expect(&[SYN_ACK]);
    script.host.sink.is_full = true;
    script.inject(". 1:1 ack 1 win 65535");
    // What it sends, believing that it is connected, is for later as well.
    script.inject("P. 1:11 ack 1 win 65535");
    script.expect(&[]);
    assert_eq!(script.flow, None);
    assert_eq!(script.host.engine.counters().backlog_full, 2);
    // Our answer is sent again, so that it says so again.
    script.wait_ms(1001);
    script.expect(&[SYN_ACK]);
    script.host.sink.is_full = false;
    script.inject(". 1:1 ack 1 win 65535");
    script.expect(&[]);
    script.expect_state(State::Established);
    script.inject("P. 1:11 ack 1 win 65535");
    script.expect(&[". 1:1 ack 11 win 65525"]);
    script.read(1, 10);
}

#[test]
fn a_caller_that_nobody_ever_takes_is_forgotten_in_silence() {
    let mut script = listening();
    script.inject("S 0:0 win 65535 <mss 1000>");
    script.expect(&[SYN_ACK]);
    script.host.sink.is_full = true;
    script.inject(". 1:1 ack 1 win 65535");
    script.wait_ms(120_000);
    script.expect(&[SYN_ACK; 5]);
    assert_eq!(script.host.engine.flows_in_use(), 0);
    assert!(script.events().is_empty());
}

#[test]
fn a_syn_before_a_full_backlog_is_not_answered() {
    let mut script = listening();
    script.host.sink.is_full = true;
    script.inject("S 0:0 win 65535 <mss 1000>");
    script.expect(&[]);
    assert_eq!(script.host.engine.counters().backlog_full, 1);
    assert_eq!(script.host.engine.flows_in_use(), 0);
    script.host.sink.is_full = false;
    script.inject("S 0:0 win 65535 <mss 1000>");
    script.expect(&[SYN_ACK]);
}

#[test]
fn an_answered_cookie_before_a_full_backlog_may_be_answered_again() {
    let mut script = Script::new(plain(), new_reno());
    script.listen(0);
    script.inject("S 0:0 win 65535 <mss 1000>");
    script.expect(&[SYN_ACK]);
    assert_eq!(script.host.engine.counters().cookies_sent, 1);
    script.host.sink.is_full = true;
    script.inject(". 1:1 ack 1 win 65535");
    script.expect(&[]);
    assert_eq!(script.host.engine.flows_in_use(), 0);
    script.host.sink.is_full = false;
    script.inject("P. 1:11 ack 1 win 65535");
    script.expect_state(State::Established);
}

#[test]
fn who_opened_the_connection_itself_needs_nobody_to_take_it() {
    let mut script = Script::new(plain(), new_reno());
    script.host.sink.is_full = true;
    script.connect();
    script.expect(&["S 0:0 win 65535 <mss 1460,sackOK>"]);
    script.inject("S 0:0 win 65535 <mss 1000>");
    script.expect(&[SYN_ACK]);
    script.inject(". 1:1 ack 1 win 65535");
    script.expect_state(State::Established);
}

#[test]
fn seconds_are_timeouts_that_double() {
    let counts = [0, 1, 2, 3, 4, 7, 8, 100_000].map(FlowOptions::timeouts_in);
    assert_eq!(counts, [0, 1, 2, 2, 3, 3, 4, u8::MAX]);
}

#[test]
fn callers_that_a_closed_listener_would_have_waited_for_are_forgotten_at_the_next_timeout() {
    let options = FlowOptions { defer_accept: u8::MAX, ..new_reno() };
    let mut script = Script::new(plain(), options);
    let local = script.key.destination();
    let listener = script.host.engine.listen(local, 8, options).expect("nobody else listens");
    script.inject("S 0:0 win 65535 <mss 1000>");
    script.expect(&[SYN_ACK]);
    script.inject(". 1:1 ack 1 win 65535");
    script.wait_ms(10_000);
    assert_eq!(script.host.engine.flows_in_use(), 1, "data may still come");
    script.take_packets();
    script.host.engine.unlisten(listener);
    script.wait_ms(20_000);
    assert_eq!(script.host.engine.flows_in_use(), 0);
}
