//! One script for each rule of opening a connection.

use crate::support::connection::{closed, new_reno, plain};
use crate::support::script::Script;
use tcp::{CloseReason, Config, State};

#[test]
fn a_syn_is_answered_with_what_was_offered_and_no_more() {
    // RFC 7323 sections 2.2 and 3.2, RFC 2018 section 2.
    let mut script = Script::new(Config::default(), new_reno());
    script.listen(8);
    script.inject("S 0:0 win 65535 <mss 1460,sackOK,TS 7 0,nop,wscale 6>");
    script.expect(&["S. 0:0 ack 1 win 65535 <mss 1460,sackOK,TS 100 7,wscale 0>"]);
    let mut bare = Script::new(Config::default(), new_reno());
    bare.listen(8);
    bare.inject("S 0:0 win 65535");
    bare.expect(&["S. 0:0 ack 1 win 65535 <mss 1460>"]);
}

#[test]
fn a_syn_is_repeated_with_doubled_pauses_until_it_is_given_up() {
    // RFC 6298 section 5.5, RFC 9293 section 3.8.3.
    let config = Config { syn_retries: 2, ..plain() };
    let mut script = Script::new(config, new_reno());
    script.connect();
    let syn = "S 0:0 win 65535 <mss 1460,sackOK>";
    script.expect(&[syn]);
    for pause_ms in [1000, 2000] {
        script.wait_ms(pause_ms - 10);
        script.expect(&[]);
        script.wait_ms(11);
        script.expect(&[syn]);
    }
    script.wait_ms(4001);
    script.expect(&[]);
    assert_eq!(closed(&mut script), Some(CloseReason::TimedOut));
}

#[test]
fn a_reset_refuses_a_syn_only_if_it_acknowledges_it() {
    // RFC 9293 section 3.10.7.3.
    let mut script = Script::new(plain(), new_reno());
    script.connect();
    script.expect(&["S 0:0 win 65535 <mss 1460,sackOK>"]);
    script.inject("R 0:0 win 0");
    script.inject("R. 0:0 ack 77 win 0");
    script.expect(&[]);
    script.expect_state(State::SynSent);
    script.inject("R. 0:0 ack 1 win 0");
    assert_eq!(closed(&mut script), Some(CloseReason::Refused));
}

#[test]
fn both_sides_may_open_at_once() {
    // RFC 9293 figure 8.
    let mut script = Script::new(plain(), new_reno());
    script.connect();
    script.expect(&["S 0:0 win 65535 <mss 1460,sackOK>"]);
    script.inject("S 0:0 win 1000 <mss 1000>");
    script.expect(&["S. 0:0 ack 1 win 65535 <mss 1460>"]);
    script.expect_state(State::SynReceived);
    script.inject("S. 0:0 ack 1 win 1000 <mss 1000>");
    script.expect_state(State::Established);
    script.inject("P. 1:11 ack 1 win 1000");
    script.expect(&[". 1:1 ack 11 win 65525"]);
    script.read(1, 10);
}

#[test]
fn a_full_backlog_answers_with_cookies_that_make_a_connection_with_all_options() {
    // RFC 4987 section 3.6.
    let mut script = Script::new(Config::default(), new_reno());
    script.listen(0);
    script.inject("S 0:0 win 65535 <mss 1400,sackOK,TS 7 0,nop,wscale 6>");
    let packets = script.take_packets();
    assert_eq!(script.host.engine.flows_in_use(), 0, "nothing is kept");
    let answer = script.print(&packets[0]);
    assert!(answer.contains("mss 1460,sackOK,TS 100 7,wscale 0"), "{answer}");
    script.inject(". 1:1 ack 1 win 1000 <TS 8 100>");
    script.expect_state(State::Established);
    assert_eq!(script.host.engine.counters().cookies_accepted, 1);
    script.write(3000);
    let packets = script.take_packets();
    // 1380 is the size below 1400 that a cookie can say, less the timestamps.
    let first = script.print(&packets[0]);
    assert!(first.starts_with(". 1:1369 ack 1"), "{first}");
}

#[test]
fn an_acknowledgement_out_of_nowhere_is_reset_even_while_cookies_are_about() {
    let mut script = Script::new(plain(), new_reno());
    script.listen(0);
    script.inject("S 0:0 win 65535");
    script.take_packets();
    script.inject(". 1:1 ack 12345 win 1000");
    let packets = script.take_packets();
    assert_eq!(script.print(&packets[0]).split(' ').next(), Some("R"));
    assert_eq!(script.host.engine.counters().cookies_rejected, 1);
    assert_eq!(script.host.engine.flows_in_use(), 0);
}

#[test]
fn what_belongs_to_nobody_is_reset_and_a_reset_is_not_answered() {
    // RFC 9293 section 3.10.7.1.
    let mut script = Script::new(plain(), new_reno());
    script.inject("S 0:0 win 100");
    script.expect(&["R. 0:0 ack 1"]);
    script.inject("F. 5:10 ack 17 win 100");
    script.expect(&["R 17:17"]);
    script.inject("R 5:5 win 100");
    script.expect(&[]);
}

#[test]
fn a_cookie_of_another_engine_is_taken_where_its_name_has_moved_to() {
    // Nothing is kept of it that could move along.
    for is_expected in [true, false] {
        let mut home = Script::new(Config::default(), new_reno());
        home.listen(0);
        home.inject("S 0:0 win 65535 <mss 1400,sackOK,TS 7 0,nop,wscale 6>");
        let packets = home.take_packets();
        home.print(&packets[0]);
        let answer = home.parse(". 1:1 ack 1 win 1000 <TS 8 100>", |byte| byte);
        // It has the same secret.
        let mut there = Script::new(Config::default(), new_reno());
        there.listen(8);
        if is_expected {
            there.host.engine.expect_cookies(there.now);
        }
        there.host.receive(there.now, &answer);
        let stands = there.host.engine.flows_in_use() == 1;
        assert_eq!(stands, is_expected);
        assert_eq!(there.host.engine.counters().cookies_accepted, u64::from(is_expected));
    }
}
