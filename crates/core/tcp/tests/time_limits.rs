//! How long a peer that does not move is put up with, and what that depends on.

use std::num::{NonZeroU8, NonZeroU32};

use crate::support::connection::{accepted, closed, new_reno, plain};
use crate::support::script::Script;
use base::Nanos;
use tcp::{CloseReason, Config, FlowOptions, KeepAlive, State};

const SHUT: &str = ". 1:1 ack 1 win 0";

/// Lets seconds pass, in which the peer answers everything by saying that its window is shut.
fn keep_shut(script: &mut Script, seconds: u32) {
    for _ in 0..seconds {
        script.wait_ms(1000);
        if !script.take_packets().is_empty() {
            script.inject(SHUT);
        }
    }
}

#[test]
fn a_peer_that_shuts_its_window_upon_what_is_on_its_way_is_not_given_up_while_it_answers() {
    // RFC 9293 section 3.8.6.1. What is sent again asks whether it has opened.
    let config = Config { retries: 3, ..plain() };
    let mut script = Script::accepted(config, new_reno());
    script.write(1000);
    script.expect(&["P. 1:1001 ack 1 win 65535"]);
    script.inject(SHUT);
    keep_shut(&mut script, 1200);
    assert_eq!(closed(&mut script), None);
    // And when it opens, what was sent is taken, and the rest follows.
    script.inject(". 1:1 ack 1001 win 1000");
    script.write(100);
    script.expect(&["P. 1001:1101 ack 1 win 65535"]);
}

#[test]
fn a_peer_that_shuts_its_window_and_falls_silent_is_given_up() {
    let config = Config { retries: 3, ..plain() };
    let mut script = Script::accepted(config, new_reno());
    script.write(1000);
    script.take_packets();
    script.inject(SHUT);
    keep_shut(&mut script, 300);
    assert_eq!(closed(&mut script), None);
    // Twice the longest timeout, and the timeout in which that ends.
    script.wait(Nanos::from_secs(3 * 120 + 1));
    assert_eq!(closed(&mut script), Some(CloseReason::TimedOut));
}

#[test]
fn the_user_timeout_holds_for_a_shut_window_whatever_the_peer_answers() {
    // As in Linux (tcp(7), TCP_USER_TIMEOUT): from the first question on.
    let user_timeout_ms = NonZeroU32::new(20_000);
    for is_under_way in [true, false] {
        let options = FlowOptions { user_timeout_ms, ..new_reno() };
        let mut script = Script::accepted(plain(), options);
        // However long nothing was to be said before.
        script.wait(Nanos::from_secs(3600));
        if !is_under_way {
            script.inject(SHUT);
        }
        script.write(1000);
        script.take_packets();
        script.inject(SHUT);
        keep_shut(&mut script, 18);
        assert_eq!(closed(&mut script), None);
        keep_shut(&mut script, 4);
        assert_eq!(closed(&mut script), Some(CloseReason::TimedOut), "{is_under_way}");
    }
}

#[test]
fn the_user_timeout_does_not_make_a_syn_be_sent_more_often() {
    // As in Linux: it is one limit more while a connection is opened.
    for (user_timeout_s, given_up_s) in [(600, 7), (5, 5)] {
        let config = Config { syn_retries: 2, ..plain() };
        let user_timeout_ms = NonZeroU32::new(user_timeout_s * 1000);
        let mut script = Script::new(config, FlowOptions { user_timeout_ms, ..new_reno() });
        script.connect();
        script.wait_ms(given_up_s * 1000 - 100);
        script.take_packets();
        assert_eq!(closed(&mut script), None);
        script.wait_ms(200);
        assert_eq!(closed(&mut script), Some(CloseReason::TimedOut), "{user_timeout_s} s");
    }
}

#[test]
fn what_a_router_said_explains_no_silence_that_begins_after_the_peer_was_heard() {
    // RFC 5461: as in Linux, whose soft error the next acknowledgement clears.
    const EHOSTUNREACH: u16 = 113;
    for is_heard in [true, false] {
        let mut script = Script::accepted(Config { retries: 2, ..plain() }, new_reno());
        script.write(100);
        script.take_packets();
        let una = script.host.engine.repair(script.flow(), script.now).expect("it stands");
        let (key, engine) = (script.key, &mut script.host.engine);
        engine.unreachable(&key, una.send_first, EHOSTUNREACH, &mut script.host.sink);
        if is_heard {
            script.inject(". 1:1 ack 101 win 65535");
            script.write(100);
            script.inject("P. 1:11 ack 101 win 65535");
        }
        script.wait_ms(10_000);
        script.take_packets();
        let expected = match is_heard {
            true => CloseReason::TimedOut,
            false => CloseReason::Unreachable(EHOSTUNREACH),
        };
        assert_eq!(closed(&mut script), Some(expected));
    }
}

/// A peer that is silent for a second is asked, twice.
fn asking() -> FlowOptions {
    let two = NonZeroU8::new(2).expect("it is two");
    let keep_alive = Some(KeepAlive { idle_s: 1, interval_s: 1, probes: two });
    FlowOptions { keep_alive, ..new_reno() }
}

#[test]
fn what_may_still_be_read_of_a_finished_connection_is_not_ended_for_the_silence_of_its_peer() {
    let mut script = Script::accepted(plain(), asking());
    let flow = script.flow();
    script.inject("FP. 1:11 ack 1 win 65535");
    script.host.engine.shutdown(flow).expect("it is open");
    script.take_packets();
    script.inject(". 12:12 ack 2 win 65535");
    script.expect_state(State::Closed);
    script.wait_ms(60_000);
    script.expect(&[]);
    assert_eq!(closed(&mut script), None, "its program would hear of a timeout");
    assert_eq!(script.host.engine.next_deadline(), None, "nothing is left to be done");
    // Nor does anybody begin to ask.
    let keep_alive = asking().keep_alive;
    script.host.engine.set_keep_alive(script.now, flow, keep_alive).expect("it is there");
    script.wait_ms(60_000);
    script.expect(&[]);
    script.read(1, 10);
    script.host.engine.close(flow, &mut script.host.sink).expect("it is there");
    assert_eq!(closed(&mut script), Some(CloseReason::Finished));
    assert_eq!(script.host.engine.flows_in_use(), 0);
}

#[test]
fn who_waits_for_the_peers_fin_waits_as_long_whether_or_not_a_silent_peer_is_asked() {
    for options in [asking(), new_reno()] {
        let mut script = Script::accepted(plain(), options);
        let flow = script.flow();
        script.host.engine.shutdown(flow).expect("it is open");
        script.expect(&["F. 1:1 ack 1 win 65535"]);
        script.inject(". 1:1 ack 2 win 65535");
        script.expect_state(State::FinWait2);
        for _ in 0..10 {
            script.wait_ms(1_000);
            // It answers, if it is asked.
            script.take_packets();
            script.inject(". 1:1 ack 2 win 65535");
        }
        script.wait_ms(500);
        script.host.engine.close(flow, &mut script.host.sink).expect("it is open");
        // From the close on.
        script.wait_ms(59_000);
        script.expect(&[]);
        assert_eq!(script.host.engine.flows_in_use(), 1);
        script.wait_ms(2_000);
        assert_eq!(script.host.engine.flows_in_use(), 0);
        assert_eq!(closed(&mut script), Some(CloseReason::TimedOut));
    }
}

#[test]
fn to_ask_a_silent_peer_does_not_shorten_time_wait() {
    let mut script = accepted();
    let flow = script.flow();
    script.host.engine.shutdown(flow).expect("it is open");
    script.take_packets();
    script.inject("F. 1:1 ack 2 win 65535");
    script.expect_state(State::TimeWait);
    script.host.engine.set_keep_alive(script.now, flow, asking().keep_alive).expect("it is there");
    script.wait_ms(59_000);
    script.expect_state(State::TimeWait);
}

#[test]
fn a_fin_at_the_edge_of_a_window_waits_until_that_opens_and_its_peer_is_asked() {
    let mut script = accepted();
    script.inject("P. 1:2 ack 1 win 100");
    script.inject("P. 2:3 ack 1 win 100");
    script.take_packets();
    script.write(100);
    let flow = script.flow();
    script.host.engine.shutdown(flow).expect("it is open");
    script.expect(&["P. 1:101 ack 3 win 65533"]);
    script.inject(". 3:3 ack 101 win 0");
    script.expect(&[]);
    script.wait_ms(250);
    script.expect(&[". 100:100 ack 3 win 65533"]);
    script.inject(". 3:3 ack 101 win 1");
    script.expect(&["F. 101:101 ack 3 win 65533"]);
}
