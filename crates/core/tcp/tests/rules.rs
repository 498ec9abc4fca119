//! One script for each rule of a connection that stands: what the peer sends, what must come back.

use std::num::{NonZeroU8, NonZeroU32};

use crate::support::connection::{accepted, closed, new_reno, plain, with_timestamps};
use crate::support::script::Script;
use base::{FlowGroup, Nanos};
use tcp::{AttachError, CloseReason, Config, Detached, Engine, FlowOptions, KeepAlive, State};

// Receiving.

#[test]
fn the_second_full_segment_is_acknowledged_at_once_and_a_single_one_later() {
    // RFC 9293 section 3.8.6.3. The first flights are acknowledged at once, as in Linux, until an
    // acknowledgement has ridden on an answer.
    let mut script = accepted();
    script.inject("P. 1:1001 ack 1 win 65535");
    script.write(10);
    script.expect(&["P. 1:11 ack 1001 win 64535"]);
    script.inject(". 1001:2001 ack 11 win 65535");
    script.expect(&[]);
    script.inject(". 2001:3001 ack 11 win 65535");
    script.expect(&[". 11:11 ack 3001 win 62535"]);
    script.inject("P. 3001:4001 ack 11 win 65535");
    script.wait_ms(38);
    script.expect(&[]);
    script.wait_ms(3);
    script.expect(&[". 11:11 ack 4001 win 61535"]);
    script.read(1, 4000);
}

#[test]
fn an_acknowledgement_rides_on_the_answer() {
    let mut script = accepted();
    for round in 0..20 {
        let start = 1 + 100 * round;
        script.inject(&format!("P. {start}:{} ack {start} win 65535", start + 100));
        script.read(start, 100);
        script.write(100);
        let sent = script.take_packets();
        assert_eq!(sent.len(), 1, "one packet out for one packet in");
        let answer = script.print(&sent[0]);
        let expected = format!("P. {start}:{} ack {} ", start + 100, start + 100);
        assert!(answer.starts_with(&expected), "{answer}");
    }
    assert_eq!(script.host.engine.counters().fast, 20, "all on the fast path");
}

#[test]
fn what_comes_out_of_order_is_reported_and_kept() {
    // RFC 2018 sections 3 and 4, RFC 5681 section 4.2.
    let mut script = accepted();
    script.inject(". 1001:2001 ack 1 win 65535");
    script.expect(&[". 1:1 ack 1 win 65535 <sack 1001:2001>"]);
    script.inject(". 3001:4001 ack 1 win 65535");
    script.expect(&[". 1:1 ack 1 win 65535 <sack 3001:4001 1001:2001>"]);
    script.inject(". 1:1001 ack 1 win 65535");
    script.expect(&[". 1:1 ack 2001 win 63535 <sack 3001:4001>"]);
    script.inject(". 2001:3001 ack 1 win 65535");
    script.expect(&[". 1:1 ack 4001 win 61535"]);
    script.read(1, 4000);
}

#[test]
fn what_comes_twice_is_reported_as_such() {
    // RFC 2883 section 4.
    let mut script = accepted();
    script.inject(". 1:1001 ack 1 win 65535");
    script.expect(&[". 1:1 ack 1001 win 64535"]);
    script.inject(". 1:1001 ack 1 win 65535");
    script.expect(&[". 1:1 ack 1001 win 64535 <sack 1:1001>"]);
    script.inject(". 501:1501 ack 1 win 65535");
    script.expect(&[". 1:1 ack 1501 win 64035 <sack 501:1001>"]);
    script.read(1, 1500);
}

#[test]
fn a_window_that_was_closed_is_announced_when_it_opens() {
    // RFC 9293 section 3.8.6.2.2: not before it is worth it.
    let options = FlowOptions { receive_ring_log2: 12, ..new_reno() };
    let mut script = Script::new(plain(), options);
    script.listen(8);
    script.inject("S 0:0 win 65535 <mss 1000>");
    script.expect(&["S. 0:0 ack 1 win 4096 <mss 1460>"]);
    script.inject(". 1:1 ack 1 win 65535");
    script.inject(". 1:2049 ack 1 win 65535");
    script.inject(". 2049:4097 ack 1 win 65535");
    script.expect(&[". 1:1 ack 4097 win 0"]);
    script.read(1, 100);
    script.expect(&[]);
    script.read(101, 3996);
    script.expect(&[". 1:1 ack 4097 win 4096"]);
    // A question in between is answered.
    script.wait_ms(1000);
    script.inject(". 4096:4096 ack 1 win 65535");
    script.expect(&[". 1:1 ack 4097 win 4096"]);
}

// Hostile or late.

#[test]
fn a_reset_counts_only_at_the_very_edge_of_the_window() {
    // RFC 5961 section 3.2.
    let mut script = accepted();
    script.inject("R 2:2 win 0");
    script.expect(&[". 1:1 ack 1 win 65535"]);
    script.inject("R 70000:70000 win 0");
    script.expect(&[]);
    script.expect_state(State::Established);
    script.inject("R 1:1 win 0");
    assert_eq!(closed(&mut script), Some(CloseReason::Reset));
    assert_eq!(script.host.engine.flows_in_use(), 0);
}

#[test]
fn a_syn_on_a_standing_connection_is_challenged_and_challenges_are_limited() {
    // RFC 5961 sections 4.2 and 7.
    let mut script = accepted();
    script.inject("S 5:5 win 100");
    script.expect(&[". 1:1 ack 1 win 65535"]);
    script.inject("S 6:6 win 100");
    script.expect(&[]);
    assert_eq!(script.host.engine.counters().challenges_limited, 1);
    script.wait_ms(501);
    script.inject("S 7:7 win 100");
    script.expect(&[". 1:1 ack 1 win 65535"]);
    script.expect_state(State::Established);
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_is_challenged_and_its_data_dropped() {
    // RFC 5961 section 5.2.
    let mut script = accepted();
    script.inject("P. 1:101 ack 2 win 65535");
    script.expect(&[". 1:1 ack 1 win 65535"]);
    assert_eq!(script.host.engine.readable(script.flow()).bytes, 0);
    script.inject("P. 1:101 ack 1 win 65535");
    script.read(1, 100);
}

#[test]
fn an_old_timestamp_is_acknowledged_and_dropped() {
    // RFC 7323 section 5.3.
    let mut script = with_timestamps();
    script.inject("P. 1:101 ack 1 win 65535 <TS 50 100>");
    script.expect(&[". 1:1 ack 101 win 65435 <TS 100 50>"]);
    script.inject("P. 101:201 ack 1 win 65535 <TS 49 100>");
    script.expect(&[". 1:1 ack 101 win 65435 <TS 100 50>"]);
    assert_eq!(script.host.engine.counters().old_timestamp, 1);
    script.inject("P. 101:201 ack 1 win 65535 <TS 50 100>");
    script.read(1, 200);
}

#[test]
fn after_24_days_of_silence_any_timestamp_is_new() {
    // RFC 7323 section 5.5.
    let mut script = with_timestamps();
    script.inject("P. 1:101 ack 1 win 65535 <TS 50 100>");
    script.take_packets();
    script.wait(Nanos::from_secs(25 * 86_400));
    script.inject("P. 101:201 ack 1 win 65535 <TS 40 100>");
    script.inject("P. 201:301 ack 1 win 65535 <TS 41 100>");
    script.read(1, 300);
}

#[test]
fn what_the_caller_has_no_room_for_is_offered_again() {
    let mut script = accepted();
    script.host.sink.room = 1;
    script.write(3000);
    for start in [1, 1001, 2001] {
        let sent = script.take_packets();
        assert_eq!(sent.len(), 1);
        assert!(script.print(&sent[0]).contains(&format!(" {start}:{} ", start + 1000)));
    }
    script.expect(&[]);
    assert_eq!(script.host.engine.counters().retransmitted, 0);
}

// Sending.

#[test]
fn the_first_flight_is_ten_segments_and_each_acknowledged_one_brings_two() {
    // RFC 6928, RFC 5681 section 3.1.
    let mut script = accepted();
    script.write(20_000);
    let sent = script.take_packets();
    assert_eq!(sent.len(), 10);
    script.wait_ms(10);
    script.inject(". 1:1 ack 2001 win 65535");
    script.expect(&[
        ". 10001:11001 ack 1 win 65535",
        ". 11001:12001 ack 1 win 65535",
        ". 12001:13001 ack 1 win 65535",
        ". 13001:14001 ack 1 win 65535",
    ]);
}

#[test]
fn a_second_small_segment_waits_for_the_acknowledgement_of_the_first() {
    // RFC 9293 section 3.7.4.
    let mut script = accepted();
    script.write(10);
    script.expect(&["P. 1:11 ack 1 win 65535"]);
    script.write(20);
    script.expect(&[]);
    script.inject(". 1:1 ack 11 win 65535");
    script.expect(&["P. 11:31 ack 1 win 65535"]);
    let flow = script.flow();
    script.host.engine.set_no_delay(flow, true).unwrap();
    script.write(5);
    script.expect(&["P. 31:36 ack 1 win 65535"]);
}

#[test]
fn a_corked_segment_leaves_when_it_is_full_or_uncorked_or_has_waited() {
    let mut script = accepted();
    let flow = script.flow();
    script.host.engine.set_cork(flow, true).unwrap();
    script.write(600);
    script.expect(&[]);
    script.write(600);
    script.expect(&[". 1:1001 ack 1 win 65535"]);
    script.host.engine.set_cork(flow, false).unwrap();
    script.expect(&["P. 1001:1201 ack 1 win 65535"]);
    script.inject(". 1:1 ack 1201 win 65535");
    script.host.engine.set_cork(flow, true).unwrap();
    script.write(7);
    script.expect(&[]);
    script.wait_ms(300);
    script.expect(&["P. 1201:1208 ack 1 win 65535"]);
}

#[test]
fn three_reports_of_later_segments_bring_the_lost_one_again() {
    // RFC 8985 section 6.2, RFC 6937.
    let mut script = accepted();
    script.write(10_000);
    assert_eq!(script.take_packets().len(), 10);
    script.wait_ms(10);
    script.inject(". 1:1 ack 1 win 65535 <nop,nop,sack 1001:2001>");
    script.expect(&[]);
    script.inject(". 1:1 ack 1 win 65535 <nop,nop,sack 1001:3001>");
    script.expect(&[]);
    script.inject(". 1:1 ack 1 win 65535 <nop,nop,sack 1001:4001>");
    script.expect(&[". 1:1001 ack 1 win 65535"]);
    script.wait_ms(10);
    script.inject(". 1:1 ack 10001 win 65535");
    script.expect(&[]);
    // Half of ten.
    script.write(20_000);
    assert_eq!(script.take_packets().len(), 5);
    assert_eq!(script.host.engine.counters().recoveries, 1);
}

#[test]
fn without_sack_three_duplicates_bring_it_again_and_a_partial_acknowledgement_the_next() {
    // RFC 6582 section 3.2.
    let config = Config { sack: false, ..plain() };
    let mut script = Script::new(config, new_reno());
    script.listen(8);
    script.inject("S 0:0 win 65535 <mss 1000>");
    script.expect(&["S. 0:0 ack 1 win 65535 <mss 1460>"]);
    script.wait_ms(10);
    script.inject(". 1:1 ack 1 win 65535");
    script.write(10_000);
    assert_eq!(script.take_packets().len(), 10);
    script.wait_ms(10);
    for _ in 0..2 {
        script.inject(". 1:1 ack 1 win 65535");
        script.expect(&[]);
    }
    script.inject(". 1:1 ack 1 win 65535");
    script.expect(&[". 1:1001 ack 1 win 65535"]);
    script.wait_ms(10);
    script.inject(". 1:1 ack 5001 win 65535");
    script.expect(&[". 5001:6001 ack 1 win 65535"]);
}

#[test]
fn a_lost_tail_is_probed_before_the_timeout() {
    // RFC 8985 section 7.
    let mut script = accepted();
    script.write(3000);
    assert_eq!(script.take_packets().len(), 3);
    script.wait_ms(19);
    script.expect(&[]);
    // Twice the round trip of 10 ms, and a little.
    script.wait_ms(4);
    script.expect(&["P. 2001:3001 ack 1 win 65535"]);
    script.inject(". 1:1 ack 3001 win 65535 <nop,nop,sack 2001:3001>");
    script.expect(&[]);
    assert_eq!(script.host.engine.counters().timeouts, 0);
    assert_eq!(script.host.engine.counters().recoveries, 0, "it came twice: nothing was lost");
}

#[test]
fn timeouts_double_and_end_the_connection() {
    // RFC 6298 section 5, RFC 9293 section 3.8.3.
    let config = Config { sack: false, retries: 3, ..plain() };
    let mut script = Script::new(config, new_reno());
    script.listen(8);
    script.inject("S 0:0 win 65535 <mss 1000>");
    script.expect(&["S. 0:0 ack 1 win 65535 <mss 1460>"]);
    script.wait_ms(10);
    script.inject(". 1:1 ack 1 win 65535");
    script.write(500);
    script.expect(&["P. 1:501 ack 1 win 65535"]);
    // A round trip of 10 ms, and at least 200 ms for its deviation.
    for pause_ms in [210, 420, 840] {
        script.wait_ms(pause_ms - 5);
        script.expect(&[]);
        script.wait_ms(6);
        script.expect(&["P. 1:501 ack 1 win 65535"]);
    }
    script.wait_ms(1700);
    script.expect(&["R. 501:501 ack 1"]);
    assert_eq!(closed(&mut script), Some(CloseReason::TimedOut));
}

#[test]
fn a_spurious_timeout_is_taken_back() {
    // RFC 3522: the acknowledgement echoes a timestamp from before anything was sent again.
    let mut script = with_timestamps();
    script.write(9000);
    assert_eq!(script.take_packets().len(), 10);
    script.wait_ms(300);
    assert_eq!(script.take_packets().len(), 1, "the timeout");
    script.inject(". 1:1 ack 989 win 65535 <TS 3 100>");
    script.expect(&[]);
    assert_eq!(script.host.engine.counters().undone, 1);
    script.write(20_000);
    assert!(script.take_packets().len() > 1, "the window is back");
}

#[test]
fn a_closed_window_is_asked_about_with_doubled_pauses_for_as_long_as_it_is_answered() {
    // RFC 9293 section 3.8.6.1.
    let config = Config { retries: 3, ..plain() };
    let mut script = Script::accepted(config, new_reno());
    script.inject(". 1:1 ack 1 win 0");
    script.write(100);
    script.expect(&[]);
    for round in 0..8_u32 {
        script.wait_ms((210 << round) - 20);
        script.expect(&[]);
        script.wait_ms(21);
        script.expect(&[". 0:0 ack 1 win 65535"]);
        script.inject(". 1:1 ack 1 win 0");
    }
    script.inject(". 1:1 ack 1 win 1000");
    script.expect(&["P. 1:101 ack 1 win 65535"]);
}

#[test]
fn a_connection_that_nobody_has_any_more_does_not_ask_about_a_closed_window_for_ever() {
    let mut script = Script::accepted(plain(), new_reno());
    script.inject(". 1:1 ack 1 win 0");
    script.write(100);
    let flow = script.flow();
    script.host.engine.close(flow, &mut script.host.sink).unwrap();
    for _ in 0..8 {
        script.wait_ms(60_000);
        if script.take_packets().is_empty() {
            break;
        }
        script.inject(". 1:1 ack 1 win 0");
    }
    script.wait_ms(120_000);
    assert_eq!(closed(&mut script), Some(CloseReason::TimedOut));
}

#[test]
fn a_silent_peer_is_asked_and_then_given_up() {
    // RFC 9293 section 3.8.4.
    let two = NonZeroU8::new(2).expect("it is two");
    let keep_alive = Some(KeepAlive { idle_s: 10, interval_s: 2, probes: two });
    let options = FlowOptions { keep_alive, ..new_reno() };
    let mut script = Script::accepted(plain(), options);
    script.wait_ms(10_001);
    script.expect(&[". 0:0 ack 1 win 65535"]);
    script.inject(". 1:1 ack 1 win 65535");
    script.wait_ms(9_900);
    script.expect(&[]);
    script.wait_ms(200);
    script.expect(&[". 0:0 ack 1 win 65535"]);
    script.wait_ms(2_001);
    script.expect(&[". 0:0 ack 1 win 65535"]);
    script.wait_ms(2_001);
    script.expect(&["R. 1:1 ack 1"]);
    assert_eq!(closed(&mut script), Some(CloseReason::TimedOut));
}

#[test]
fn the_user_timeout_ends_a_connection_that_makes_no_progress() {
    // RFC 5482.
    let user_timeout_ms = NonZeroU32::new(2000);
    let options = FlowOptions { user_timeout_ms, ..new_reno() };
    let mut script = Script::accepted(plain(), options);
    script.write(100);
    script.wait_ms(1_990);
    script.take_packets();
    assert_eq!(closed(&mut script), None);
    script.wait_ms(20);
    assert_eq!(closed(&mut script), Some(CloseReason::TimedOut));
}

// Congestion marks.

#[test]
fn a_mark_is_echoed_until_the_peer_says_that_it_has_slowed_down() {
    // RFC 3168 section 6.1.
    let mut script = Script::new(plain(), new_reno());
    script.listen(8);
    script.inject("SEW 0:0 win 65535 <mss 1000>");
    script.expect(&["S.E 0:0 ack 1 win 65535 <mss 1460>"]);
    script.inject(". 1:1 ack 1 win 65535");
    script.inject(". 1:1001 ack 1 win 65535 ce");
    script.expect(&[".E 1:1 ack 1001 win 64535"]);
    script.inject(". 1001:2001 ack 1 win 65535");
    script.expect(&[".E 1:1 ack 2001 win 63535"]);
    script.inject(".W 2001:3001 ack 1 win 65535");
    script.expect(&[". 1:1 ack 3001 win 62535"]);
    // And the other way: one fall a round trip, told once.
    script.write(1000);
    script.expect(&["P. 1:1001 ack 3001 win 62535 ect"]);
    script.inject(".E 3001:3001 ack 1001 win 65535");
    script.write(1000);
    script.expect(&["P.W 1001:2001 ack 3001 win 62535 ect"]);
    assert_eq!(script.host.engine.counters().marks_heeded, 1);
}

// Rings.

#[test]
fn rings_grow_under_a_flow_that_has_bytes_in_them() {
    let options = FlowOptions {
        receive_ring_log2: 12,
        receive_limit_log2: 14,
        send_ring_log2: 12,
        ..new_reno()
    };
    let mut script = Script::new(plain(), options);
    script.listen(8);
    script.inject("S 0:0 win 65535 <mss 1000,sackOK>");
    script.expect(&["S. 0:0 ack 1 win 4096 <mss 1460,sackOK>"]);
    script.inject(". 1:1 ack 1 win 65535");
    script.inject(". 1:1001 ack 1 win 65535");
    script.inject(". 2001:3001 ack 1 win 65535");
    script.take_packets();
    let flow = script.flow();
    let engine = &mut script.host.engine;
    assert_eq!(engine.grow_receive_ring(flow, 15), None, "the SYN has said how large it may be");
    let regrow = engine.grow_receive_ring(flow, 14).expect("it may");
    let mut ring = vec![0; 1 << 14];
    assert!(regrow.copy((&script.host.rings.receive[&flow]).into(), (&mut ring).into()));
    script.host.rings.receive.insert(flow, ring);
    script.expect(&[". 1:1 ack 1001 win 15384 <sack 2001:3001>"]);
    script.inject(". 1001:2001 ack 1 win 65535");
    script.read(1, 3000);

    script.write(4000);
    assert_eq!(script.take_packets().len(), 4);
    let regrow = script.host.engine.grow_send_ring(flow, 13).expect("it may");
    let mut ring = vec![0; 1 << 13];
    assert!(regrow.copy((&script.host.rings.send[&flow]).into(), (&mut ring).into()));
    script.host.rings.send.insert(flow, ring);
    script.host.rings.send_bytes = 1 << 13;
    script.inject(". 3001:3001 ack 1001 win 65535 <nop,nop,sack 2001:4001>");
    script.write(5000);
    script.wait_ms(10);
    // What is sent again comes from the new ring; the script checks each byte.
    let packets = script.take_packets();
    let sent: Vec<String> = packets.iter().map(|packet| script.print(packet)).collect();
    assert!(sent.iter().any(|text| text.starts_with(". 1001:2001 ")), "{sent:?}");
    assert!(sent.iter().any(|text| text.starts_with(". 4001:5001 ")), "{sent:?}");
}

// Moving between engines.

#[test]
fn flows_that_an_engine_has_no_room_for_can_go_back_to_where_they_came_from() {
    let mut script = accepted();
    script.write(3000);
    script.expect(&[
        ". 1:1001 ack 1 win 65535",
        ". 1001:2001 ack 1 win 65535",
        "P. 2001:3001 ack 1 win 65535",
    ]);
    let mut small = Engine::new(Config { flows_max: 0, ..plain() }, [7; 16], script.now);
    let mut detached = Detached::default();
    let (key, engine) = (script.key, &mut script.host.engine);
    let group = FlowGroup(engine.hash_of(&key).0 & 7);
    engine.detach_group(group, 8, |other| *other != key, &mut detached);
    assert!(detached.is_empty(), "a flow that is not wanted stays");
    engine.detach_group(group, 8, |other| *other == key, &mut detached);
    assert_eq!(script.host.engine.records_in_use(), (0, 0));
    let refused = small.attach_group(script.now, &mut detached, |_, _| panic!("none is taken"));
    assert_eq!(refused, Err(AttachError::Full));
    let mut names = Vec::new();
    let engine = &mut script.host.engine;
    engine.attach_group(script.now, &mut detached, |old, new| names.push((old, new))).unwrap();
    assert_eq!((detached.len(), engine.records_in_use()), (0, (3, 0)));
    let again = engine.attach_group(script.now, &mut detached, |_, _| panic!("there is none"));
    assert_eq!(again, Ok(()));
    let (old, new) = names[0];
    assert_ne!(old, new, "the old number is void");
    let ring = script.host.rings.send.remove(&old).expect("it was written to");
    script.host.rings.send.insert(new, ring);
    script.flow = Some(new);
    // Its timers have come along: the tail is probed after two round trips.
    script.wait_ms(30);
    script.expect(&["P. 2001:3001 ack 1 win 65535"]);
}

#[test]
fn a_flow_that_waits_for_its_applications_close_moves_with_its_group() {
    let mut script = accepted();
    let flow = script.flow();
    script.inject("P. 1:11 ack 1 win 65535");
    script.inject("F. 11:11 ack 1 win 65535");
    script.host.engine.shutdown(flow).unwrap();
    script.take_packets();
    script.inject(". 12:12 ack 2 win 65535");
    script.expect_state(State::Closed);
    let mut other = Engine::new(plain(), [7; 16], script.now);
    let mut detached = Detached::default();
    for group in 0..8 {
        script.host.engine.detach_group(FlowGroup(group), 8, |_| true, &mut detached);
    }
    assert_eq!(script.host.engine.flows_in_use(), 0);
    let mut name = None;
    other.attach_group(script.now, &mut detached, |_, new| name = Some(new)).unwrap();
    let flow = name.expect("it moved");
    assert_eq!((other.state(flow), other.readable(flow).bytes), (Some(State::Closed), 10));
    other.close(flow, &mut script.host.sink).unwrap();
    assert_eq!(other.flows_in_use(), 0);
}
