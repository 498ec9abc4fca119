//! How segments find their flow, and how answers leave the way that segments came.

use crate::support::script::Script;
use base::FlowHash;
use tcp::{Config, FlowOptions, Incoming};
use wire::checksum::Sum;

fn plain() -> Config {
    Config { timestamps: false, window_scaling: false, ..Config::default() }
}

fn script() -> Script {
    Script::new(plain(), FlowOptions::default())
}

/// The routes of what was sent since.
fn routes(script: &mut Script) -> Vec<u32> {
    let packets = script.take_packets();
    // Printing one tells the script where our numbers begin.
    let routes = packets.iter().map(|packet| (script.print(packet), packet.route).1);
    routes.collect()
}

#[test]
fn answers_leave_by_the_route_of_the_last_segment_that_was_accepted() {
    let mut script = script();
    script.listen(8);
    script.route = 1;
    script.inject("S 0:0 win 65535 <mss 1000,sackOK>");
    assert_eq!(routes(&mut script), [1], "the answer to the SYN");
    script.route = 2;
    script.inject(". 1:1 ack 1 win 65535");
    script.write(100);
    assert_eq!(routes(&mut script), [2], "the flow has just come to stand");
    script.route = 3;
    script.inject("P. 1:1001 ack 101 win 65535");
    assert_eq!(routes(&mut script), [3], "by way of the slow path, since it is another route");
    script.inject("P. 1001:2001 ack 101 win 65535");
    assert_eq!(routes(&mut script), [3], "by way of the fast path");
    let counters = script.host.engine.counters();
    assert_eq!((counters.fast, counters.punt_route), (1, 1));
    script.route = 4;
    script.inject("P. 3001:4001 ack 101 win 65535");
    assert_eq!(routes(&mut script), [4], "before its turn");
    script.route = 5;
    script.inject("P. 900001:901001 ack 101 win 65535");
    assert_eq!(routes(&mut script), [4], "a segment outside the window changes nothing");
    script.host.engine.set_route(script.flow(), 6).unwrap();
    script.write(100);
    assert_eq!(routes(&mut script), [6], "by word of the caller");
}

#[test]
fn who_guesses_a_number_in_the_window_hears_neither_the_challenge_nor_what_is_sent() {
    // RFC 5961: a challenge names the numbers that only the peer is to know.
    let guesses = [
        "R 5000:5000 win 0",
        "S 5000:5000 win 65535",
        "P. 5000:5010 ack 900000 win 65535",
        "P 5000:5010 win 65535",
    ];
    for guess in guesses {
        let mut script = script();
        script.route = 1;
        script.listen(8);
        script.inject("S 0:0 win 65535 <mss 1000,sackOK>");
        assert_eq!(routes(&mut script), [1]);
        script.inject(". 1:1 ack 1 win 65535");
        script.route = 2;
        script.inject(guess);
        script.write(100);
        let routes = routes(&mut script);
        assert!(
            !routes.is_empty() && routes.iter().all(|route| *route == 1),
            "{guess}: {routes:?}"
        );
    }
}

#[test]
fn what_comes_by_a_route_that_does_not_lead_to_the_peer_is_of_no_connection() {
    let mut script = script();
    script.route = 1;
    script.host.sink.elsewhere = Some(2);
    script.listen(8);
    script.inject("S 0:0 win 65535 <mss 1000,sackOK>");
    assert_eq!(routes(&mut script), [1]);
    script.inject(". 1:1 ack 1 win 65535");
    script.route = 2;
    // All numbers are right.
    for segment in ["P. 1:11 ack 1 win 65535", "F. 1:1 ack 1 win 65535", "R 1:1 win 0"] {
        script.inject(segment);
    }
    let flow = script.flow();
    assert_eq!(script.host.engine.readable(flow).bytes, 0);
    assert_eq!(script.host.engine.counters().bad_source, 3);
    script.expect_state(tcp::State::Established);
    script.write(100);
    assert_eq!(routes(&mut script), [1]);
}

/// A connection that we have asked for by a route.
fn opened_by(route: u32) -> Script {
    let mut script = script();
    let (peer, local) = (script.key.source(), script.key.destination());
    let engine = &mut script.host.engine;
    let flow = engine.connect(script.now, local, peer, FlowOptions::default(), route);
    script.flow = Some(flow.unwrap());
    script.wait_ms(0);
    assert_eq!(routes(&mut script), [route]);
    script
}

#[test]
fn a_stranger_who_opens_in_the_peers_name_is_not_answered_by_the_way_he_came() {
    let mut script = opened_by(7);
    script.route = 8;
    script.inject("S 0:0 win 65535 <mss 1000>");
    assert_eq!(routes(&mut script), [7]);
    // By a way by which the peer cannot come not even its own answer is believed.
    script.host.sink.elsewhere = Some(8);
    script.inject(". 1:1 ack 1 win 65535");
    script.expect_state(tcp::State::SynReceived);
    script.route = 7;
    script.inject(". 1:1 ack 1 win 65535");
    script.expect_state(tcp::State::Established);
}

#[test]
fn a_connection_that_we_open_leaves_by_the_callers_route_until_the_peer_takes_another() {
    let mut script = opened_by(7);
    script.route = 8;
    script.inject("S. 0:0 ack 1 win 65535 <mss 1000>");
    assert_eq!(routes(&mut script), [8]);
}

#[test]
fn what_belongs_to_no_flow_is_answered_by_the_way_it_came() {
    let mut script = script();
    script.route = 3;
    script.inject("P. 1:11 ack 1 win 100");
    assert_eq!(routes(&mut script), [3], "a reset");
    script.listen(0);
    script.route = 4;
    script.inject("S 0:0 win 65535 <mss 1000>");
    assert_eq!(routes(&mut script), [4], "a cookie");
    assert_eq!(script.host.engine.counters().cookies_sent, 1);
    script.route = 5;
    script.inject("P. 1:11 ack 1 win 65535");
    assert_eq!(script.host.engine.counters().cookies_accepted, 1);
    assert_eq!(routes(&mut script), [5], "the connection that was made from the cookie");
}

#[test]
fn with_a_wrong_hash_there_is_no_such_flow() {
    let mut script = Script::accepted(plain(), FlowOptions::default());
    let packet = script.parse("P. 1:11 ack 1 win 65535", |byte| byte);
    let hash = script.host.engine.hash_of(&packet.key);
    let mut receive = |hash| {
        let incoming = Incoming {
            key: packet.key,
            hash,
            segment: &packet.bytes,
            ecn: 0,
            is_verified: false,
            route: 0,
        };
        let host = &mut script.host;
        host.engine.receive(script.now, &[incoming], &mut host.rings, &mut host.sink);
        host.engine.counters().no_flow
    };
    assert_eq!(receive(FlowHash(!hash.0)), 1);
    assert_eq!(receive(hash), 1);
    let flow = script.flow();
    assert_eq!(script.host.engine.readable(flow).bytes, 10);
}

#[test]
fn a_partial_checksum_becomes_the_whole_one_by_summing_the_segment() {
    let mut script = Script::accepted(plain(), FlowOptions::default());
    script.host.sink.is_partial = true;
    script.write(777);
    let mut partial = script.take_packets().remove(0).bytes;
    let sum = Sum::ZERO.bytes(&partial).checksum();
    partial[16..18].copy_from_slice(&sum.to_be_bytes());
    script.host.sink.is_partial = false;
    script.wait_ms(300);
    // The same bytes again.
    let whole = script.take_packets().remove(0).bytes;
    assert_eq!(partial, whole);
}
