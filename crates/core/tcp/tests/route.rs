//! How segments find their flow, and how answers leave the way that segments came.

mod support;

use base::FlowHash;
use support::script::Script;
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
    assert_eq!(routes(&mut script), [3], "by way of the fast path");
    assert_eq!(script.host.engine.counters().fast, 1);
    script.route = 4;
    script.inject("P. 2001:3001 ack 101 win 65535");
    assert_eq!(routes(&mut script), [4], "by way of the slow path");
    script.route = 5;
    script.inject("P. 900001:901001 ack 101 win 65535");
    assert_eq!(routes(&mut script), [4], "a segment outside the window changes nothing");
    script.host.engine.set_route(script.flow(), 6).unwrap();
    script.write(100);
    assert_eq!(routes(&mut script), [6], "by word of the caller");
}

#[test]
fn a_connection_that_we_open_leaves_by_the_callers_route_until_the_peer_takes_another() {
    let mut script = script();
    let (peer, local) = (script.key.source(), script.key.destination());
    let engine = &mut script.host.engine;
    let flow = engine.connect(script.now, local, peer, FlowOptions::default(), 7);
    script.flow = Some(flow.unwrap());
    script.wait_ms(0);
    assert_eq!(routes(&mut script), [7]);
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
