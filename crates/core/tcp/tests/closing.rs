//! One script for each rule of closing a connection.

use crate::support::connection::{accepted, closed};
use crate::support::script::Script;
use tcp::{CloseReason, State};

#[test]
fn the_side_that_closes_first_waits_and_answers_a_repeated_fin() {
    // RFC 9293 section 3.6, figure 12.
    let mut script = accepted();
    script.write(100);
    let flow = script.flow();
    script.host.engine.shutdown(flow).unwrap();
    script.expect(&["FP. 1:101 ack 1 win 65535"]);
    script.inject(". 1:1 ack 102 win 65535");
    script.expect_state(State::FinWait2);
    script.inject("P. 1:51 ack 102 win 65535");
    script.inject("F. 51:51 ack 102 win 65535");
    script.expect(&[". 102:102 ack 52 win 65484"]);
    script.expect_state(State::TimeWait);
    script.read(1, 50);
    script.host.engine.close(flow, &mut script.host.sink).unwrap();
    assert_eq!(closed(&mut script), Some(CloseReason::Finished));
    script.wait_ms(30_000);
    script.inject("F. 51:51 ack 102 win 65535");
    let answer = script.take_packets();
    assert!(script.print(&answer[0]).starts_with(". 102:102 ack 52"));
    script.wait_ms(59_000);
    assert_eq!(script.host.engine.flows_in_use(), 1);
    script.wait_ms(1_100);
    assert_eq!(script.host.engine.flows_in_use(), 0);
}

#[test]
fn both_sides_may_close_at_once() {
    // RFC 9293 figure 13.
    let mut script = accepted();
    let flow = script.flow();
    script.host.engine.close(flow, &mut script.host.sink).unwrap();
    script.expect(&["F. 1:1 ack 1 win 65535"]);
    script.inject("F. 1:1 ack 1 win 65535");
    script.expect_state(State::Closing);
    script.expect(&[". 2:2 ack 2 win 65534"]);
    script.inject(". 2:2 ack 2 win 65535");
    script.expect(&[]);
    assert_eq!(closed(&mut script), Some(CloseReason::Finished));
    assert_eq!(script.host.engine.flows_in_use(), 1, "TIME-WAIT");
}

#[test]
fn the_peer_may_close_first() {
    let mut script = accepted();
    script.inject("FP. 1:11 ack 1 win 65535");
    script.expect(&[". 1:1 ack 12 win 65524"]);
    script.expect_state(State::CloseWait);
    let flow = script.flow();
    assert!(!script.host.engine.is_at_end(flow));
    script.read(1, 10);
    assert!(script.host.engine.is_at_end(flow));
    script.write(5);
    script.expect(&["P. 1:6 ack 12 win 65524"]);
    script.host.engine.close(flow, &mut script.host.sink).unwrap();
    script.expect(&["F. 6:6 ack 12 win 65524"]);
    script.inject(". 12:12 ack 7 win 65535");
    assert_eq!(closed(&mut script), Some(CloseReason::Finished));
    assert_eq!(script.host.engine.flows_in_use(), 0);
}

#[test]
fn closing_with_bytes_unread_resets() {
    // RFC 2525 section 2.17, RFC 9293 section 3.10.4.
    let mut script = accepted();
    script.inject("P. 1:11 ack 1 win 65535");
    script.take_packets();
    let flow = script.flow();
    script.host.engine.close(flow, &mut script.host.sink).unwrap();
    script.expect(&["R. 1:1 ack 11"]);
    assert_eq!(closed(&mut script), Some(CloseReason::Aborted));
}

#[test]
fn data_for_an_application_that_is_gone_is_reset() {
    let mut script = accepted();
    let flow = script.flow();
    script.host.engine.close(flow, &mut script.host.sink).unwrap();
    script.expect(&["F. 1:1 ack 1 win 65535"]);
    script.inject("P. 1:11 ack 2 win 65535");
    script.expect(&["R 2:2"]);
    assert_eq!(closed(&mut script), Some(CloseReason::DataAfterClose));
}

#[test]
fn a_new_syn_may_have_a_name_in_time_wait_and_an_old_one_may_not() {
    // RFC 9293 section 3.10.7.4, RFC 6191.
    let mut script = accepted();
    let flow = script.flow();
    script.host.engine.close(flow, &mut script.host.sink).unwrap();
    script.expect(&["F. 1:1 ack 1 win 65535"]);
    script.inject("F. 1:1 ack 2 win 65535");
    script.expect(&[". 2:2 ack 2 win 65534"]);
    // A reset that has not the next number does not end it, and is not answered.
    script.inject("R 1:1 win 0");
    script.inject("R 77:77 win 0");
    script.expect(&[]);
    script.inject("S 0:0 win 65535 <mss 1000>");
    script.expect(&[". 2:2 ack 2 win 65534"]);
    script.inject("S 1000000:1000000 win 65535 <mss 1000>");
    script.expect(&["S. 0:0 ack 1000001 win 65535 <mss 1460>"]);
    assert_eq!(script.host.engine.counters().time_wait_reused, 1);
}

/// A connection that we have closed first, in TIME-WAIT.
fn in_time_wait() -> Script {
    let mut script = accepted();
    let flow = script.flow();
    script.host.engine.close(flow, &mut script.host.sink).unwrap();
    script.expect(&["F. 1:1 ack 1 win 65535"]);
    script.inject("F. 1:1 ack 2 win 65535");
    script.expect(&[". 2:2 ack 2 win 65534"]);
    script
}

#[test]
fn a_syn_that_nobody_listens_for_does_not_end_time_wait() {
    let mut script = in_time_wait();
    let listener = script.listener.expect("somebody listens");
    script.host.engine.unlisten(listener);
    script.inject("S 1000000:1000000 win 65535 <mss 1000>");
    script.expect(&[". 2:2 ack 2 win 65534"]);
    assert_eq!(script.host.engine.flows_in_use(), 1, "the name is free before its time");
    assert_eq!(script.host.engine.counters().time_wait_reused, 0);
}

#[test]
fn a_syn_for_which_a_backlog_has_no_room_does_not_end_time_wait_and_comes_again() {
    let mut script = in_time_wait();
    script.host.sink.is_full = true;
    let syn = "S 1000000:1000000 win 65535 <mss 1000>";
    script.inject(syn);
    script.expect(&[]);
    assert_eq!(script.host.engine.flows_in_use(), 1, "the name is free before its time");
    script.host.sink.is_full = false;
    script.wait_ms(1000);
    script.inject(syn);
    script.expect(&["S. 0:0 ack 1000001 win 65535 <mss 1460>"]);
}

#[test]
fn an_abort_does_not_end_time_wait() {
    // RFC 1337, as in Linux: what is through cannot be aborted, and its name stays taken.
    let mut script = accepted();
    let flow = script.flow();
    script.host.engine.shutdown(flow).unwrap();
    script.expect(&["F. 1:1 ack 1 win 65535"]);
    script.inject("F. 1:1 ack 2 win 65535");
    script.expect(&[". 2:2 ack 2 win 65534"]);
    script.expect_state(State::TimeWait);
    script.host.engine.abort(flow).unwrap();
    script.expect(&[]);
    // Its program is through with it, and its number void.
    assert_eq!(closed(&mut script), Some(CloseReason::Finished));
    assert_eq!(script.host.engine.state(flow), None);
    script.wait_ms(58_000);
    assert_eq!(script.host.engine.flows_in_use(), 1);
    script.inject("F. 1:1 ack 2 win 65535");
    script.expect(&[". 2:2 ack 2 win 65534"]);
    script.wait_ms(61_000);
    assert_eq!(script.host.engine.flows_in_use(), 0);
}
