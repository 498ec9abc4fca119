//! Where a number too far by one, or counted from the wrong place, would show: the edges of windows
//! and rings, and what waits when nothing does.

use crate::support::script::Script;
use base::Nanos;
use tcp::{Algorithm, Config, FlowOptions};
use wire::tcp::Header;

fn plain() -> Config {
    Config { timestamps: false, window_scaling: false, ..Config::default() }
}

fn new_reno() -> FlowOptions {
    FlowOptions { congestion: Algorithm::NewReno, ..FlowOptions::default() }
}

/// Everything is acknowledged up to 3001, and what the peer's window takes is on its way.
fn at_the_edge() -> Script {
    let mut script = Script::accepted(plain(), new_reno());
    script.write(10_000);
    assert_eq!(script.take_packets().len(), 10);
    script.inject(". 1:1 ack 10001 win 1000");
    script.write(5000);
    script.expect(&[". 10001:11001 ack 1 win 65535"]);
    script
}

#[test]
fn the_window_of_an_old_acknowledgement_that_reports_ranges_is_not_counted_from_a_newer_one() {
    // RFC 9293 section 3.10.7.4: only what acknowledges as much may update the window.
    let mut script = at_the_edge();
    // It says that the peer takes up to 9001 + 2000.
    script.inject(". 11:11 ack 9001 win 2000 <nop,nop,sack 9501:10001>");
    script.expect(&[]);
    // The same without an old number: up to 10001 + 2000.
    script.inject(". 11:11 ack 10001 win 2000");
    script.expect(&[". 11001:12001 ack 1 win 65535"]);
}

#[test]
fn a_repeated_segment_that_acknowledges_more_brings_its_window_along() {
    let mut script = Script::accepted(plain(), new_reno());
    script.write(2000);
    assert_eq!(script.take_packets().len(), 2);
    script.inject("P. 1:11 ack 1 win 4000");
    script.inject("P. 11:21 ack 1 win 4000");
    // Its number is older than that of the segment before, what it acknowledges is not.
    script.inject("P. 1:11 ack 2001 win 1000");
    script.write(5000);
    // Up to 2001 + 1000; beside the report of what came twice there is room for 12 bytes less.
    script.expect(&[". 2001:2989 ack 21 win 65515 <sack 1:11>"]);
    let info = script.host.engine.info(script.flow()).expect("it stands");
    assert_eq!(info.snd_wnd, 1000);
}

#[test]
fn a_window_that_came_before_its_turn_is_not_taken_back_by_an_older_one() {
    // RFC 9293 section 3.10.7.4: SND.WL1. The first segment was overtaken by news of a window that
    // has opened.
    let mut script = Script::accepted(plain(), new_reno());
    script.inject(". 11:11 ack 1 win 5000");
    script.inject("P. 1:11 ack 1 win 0");
    script.write(1000);
    script.expect(&["P. 1:1001 ack 11 win 65525"]);
    let info = script.host.engine.info(script.flow()).expect("it stands");
    assert_eq!(info.snd_wnd, 5000);
}

#[test]
fn of_two_acknowledgements_of_the_same_the_one_with_less_window_was_overtaken() {
    // As in Linux. Only a window of zero says that its owner takes it back.
    let mut script = Script::accepted(plain(), new_reno());
    let window = |script: &Script| script.host.engine.info(script.flow()).map(|info| info.snd_wnd);
    script.inject(". 1:1 ack 1 win 4000");
    script.inject(". 1:1 ack 1 win 5000");
    assert_eq!(window(&script), Some(65_535));
    script.write(1000);
    script.expect(&["P. 1:1001 ack 1 win 65535"]);
    script.inject(". 1:1 ack 1001 win 1000");
    script.inject(". 1:1 ack 1001 win 3000");
    script.inject(". 1:1 ack 1001 win 2000");
    assert_eq!(window(&script), Some(3000));
    script.write(4000);
    script.expect(&[
        ". 1001:2001 ack 1 win 65535",
        ". 2001:3001 ack 1 win 65535",
        ". 3001:4001 ack 1 win 65535",
    ]);
    script.inject(". 1:1 ack 1001 win 0");
    assert_eq!(window(&script), Some(0));
    // What is sent later says more, whatever it says.
    script.inject("P. 1:11 ack 1001 win 2500");
    assert_eq!(window(&script), Some(2500));
}

/// A listener whose ring of 4096 bytes is filled to the last byte, with a FIN behind that.
fn filled_and_finished() -> Script {
    let options = FlowOptions { receive_ring_log2: 12, receive_limit_log2: 14, ..new_reno() };
    let mut script = Script::new(plain(), options);
    script.listen(8);
    script.inject("S 0:0 win 65535 <mss 1000>");
    script.expect(&["S. 0:0 ack 1 win 4096 <mss 1460>"]);
    script.inject(". 1:1 ack 1 win 65535");
    script.inject(". 1:2049 ack 1 win 65535");
    script.inject("F. 2049:4097 ack 1 win 65535");
    script
}

#[test]
fn a_full_ring_with_a_fin_behind_it_grows_and_keeps_every_byte() {
    let mut script = filled_and_finished();
    script.expect(&[". 1:1 ack 4098 win 0"]);
    let flow = script.flow();
    let regrow = script.host.engine.grow_receive_ring(flow, 14).expect("it may");
    let mut ring = vec![0; 1 << 14];
    assert!(
        regrow.copy((&script.host.rings.receive[&flow]).into(), (&mut ring).into()),
        "a FIN has no byte"
    );
    script.host.rings.receive.insert(flow, ring);
    script.read(1, 4096);
    assert!(script.host.engine.is_at_end(flow));
}

#[test]
fn behind_a_fin_at_the_edge_nothing_may_be_sent() {
    let mut script = filled_and_finished();
    let window = |script: &Script| script.host.engine.info(script.flow()).map(|info| info.rcv_wnd);
    assert_eq!(window(&script), Some(0), "before it is acknowledged");
    script.expect(&[". 1:1 ack 4098 win 0"]);
    assert_eq!(window(&script), Some(0));
    // A repetition is answered with the same.
    script.wait_ms(1000);
    script.inject("F. 2049:4097 ack 1 win 65535");
    script.expect(&[". 1:1 ack 4098 win 0"]);
    script.read(1, 4096);
    script.expect(&[]);
    assert_eq!(window(&script), Some(0));
}

#[test]
fn bytes_behind_a_fin_that_came_before_it_are_dropped_and_the_end_is_told() {
    // A peer that contradicts itself: its end counts, as in Linux. The bytes came out of order,
    // and the hole before them is filled last.
    let mut script = Script::accepted(plain(), new_reno());
    script.inject(". 101:111 ack 1 win 5000");
    script.inject("F. 101:101 ack 1 win 5000");
    script.take_packets();
    script.inject(". 1:101 ack 1 win 5000");
    script.expect(&[". 1:1 ack 102 win 65434"]);
    let flow = script.flow();
    let record = script.host.engine.repair(flow, script.now).expect("it stands");
    assert_eq!((record.unread.bytes, record.has_peer_closed), (100, true));
    script.read(1, 100);
    assert!(script.host.engine.is_at_end(flow), "the program would wait for ever");
}

#[test]
fn no_segment_that_probes_the_path_carries_a_report_of_ranges() {
    // RFC 4821 section 7: of what is lost because it was too long the length must be known.
    let config = Config { mtu_probing: true, mtu_floor: 1040, path_mtu: 1040, ..plain() };
    let mut script = Script::new(config, new_reno());
    script.listen(8);
    script.inject("S 0:0 win 65535 <mss 1460,sackOK>");
    script.expect(&["S. 0:0 ack 1 win 65535 <mss 1000,sackOK>"]);
    script.inject(". 1:1 ack 1 win 65535");
    // What is acknowledged makes the window large enough for a probe.
    script.write(10_000);
    assert_eq!(script.take_packets().len(), 10);
    script.inject(". 1:1 ack 10001 win 65535");
    script.inject(". 1001:2001 ack 10001 win 65535");
    script.write(20_000);
    let lengths = |script: &mut Script| -> Vec<usize> {
        let packets = script.take_packets();
        packets.iter().map(|packet| packet.bytes.len()).collect()
    };
    let beside_a_report = lengths(&mut script);
    assert!(beside_a_report.len() >= 10, "{beside_a_report:?}");
    assert!(beside_a_report.iter().all(|bytes| *bytes <= 1020), "{beside_a_report:?}");
    // The hole is filled, so there is nothing to report.
    script.inject(". 1:1001 ack 22001 win 65535");
    script.write(20_000);
    assert!(lengths(&mut script).contains(&1250), "half way to 1480");
}

#[test]
fn a_paced_flow_with_nothing_to_send_waits_for_nothing() {
    let options = FlowOptions { pacing: true, ..new_reno() };
    let mut script = Script::accepted(plain(), options);
    script.write(5000);
    assert_eq!(script.take_packets().len(), 5);
    script.wait_ms(10);
    script.inject(". 1:1 ack 5001 win 65535");
    script.write(6000);
    script.wait_ms(9);
    let packets = script.take_packets();
    assert!(packets.len() > 1, "spread over the round trip");
    let last = Header::parse(&packets[packets.len() - 1].bytes).expect("we send headers");
    assert_ne!(last.flags & wire::tcp::PSH, 0, "all has left");
    script.inject(". 1:1 ack 11001 win 65535");
    script.wait_ms(1000);
    script.expect(&[]);
    assert_eq!(script.host.engine.next_deadline(), None);
}

#[test]
fn before_the_syn_has_left_what_was_written_is_unsent_and_no_more() {
    let mut script = Script::new(plain(), new_reno());
    script.connect();
    let flow = script.flow();
    let data = [7; 100];
    assert_eq!(script.host.write(flow, &data), 100);
    let info = script.host.engine.info(flow).expect("it was begun");
    assert_eq!((info.unsent_bytes, info.queued_bytes), (100, 100));
    script.wait(Nanos::ZERO);
    let info = script.host.engine.info(flow).expect("it was begun");
    assert_eq!((info.unsent_bytes, info.queued_bytes), (100, 100));
}

#[test]
fn listeners_that_come_and_go_take_no_memory_and_their_numbers_are_never_anothers() {
    let mut engine = tcp::Engine::new(tcp::Config::default(), [1; 16], Nanos::ZERO);
    let address = |port| std::net::SocketAddr::from(([10, 0, 0, 2], port));
    let first = engine.listen(address(80), 8, FlowOptions::default()).expect("it is free");
    let second = engine.listen(address(81), 8, FlowOptions::default()).expect("it is free");
    engine.unlisten(first);
    for port in 1000..2000 {
        let later = engine.listen(address(port), 8, FlowOptions::default()).expect("it is free");
        // A connection may still wait that came to the first one.
        assert!(later != first && later != second);
        engine.unlisten(later);
        engine.unlisten(later);
    }
    assert_eq!(engine.listeners_known(), 1);
    assert!(engine.listen(address(80), 8, FlowOptions::default()).is_ok(), "nobody is there");
}
