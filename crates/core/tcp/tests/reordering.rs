//! Paths that carry segments out of order: how long the sender waits for late ones, and how its
//! window grows meanwhile.

use crate::support::connection::{new_reno, plain};
use crate::support::script::Script;
use tcp::{Config, FlowInfo};

fn info(script: &Script) -> FlowInfo {
    script.host.engine.info(script.flow()).expect("it stands")
}

/// A connection with a window of 19 of which nine were late: the network reorders.
fn on_a_path_that_reorders(config: Config) -> Script {
    let mut script = Script::accepted(config, new_reno());
    script.write(60_000);
    assert_eq!(script.take_packets().len(), 10);
    script.wait_ms(10);
    script.inject(". 1:1 ack 1 win 65535 <nop,nop,sack 9001:10001>");
    script.inject(". 1:1 ack 10001 win 65535");
    assert_eq!(info(&script).reordering, 10);
    script.take_packets();
    script
}

#[test]
fn where_segments_come_out_of_order_the_window_grows_with_what_is_reported() {
    let mut script = on_a_path_that_reorders(plain());
    let before = info(&script).window;
    script.wait_ms(10);
    script.inject(". 1:1 ack 10001 win 65535 <nop,nop,sack 11001:15001>");
    assert_eq!(info(&script).window, before + 4);
    assert_eq!(info(&script).lost, 0);
    // What was reported before it was acknowledged does not count twice.
    script.inject(". 1:1 ack 15001 win 65535");
    assert_eq!(info(&script).window, before + 5);
}

#[test]
fn where_they_come_in_order_it_does_not() {
    let mut script = Script::accepted(plain(), new_reno());
    script.write(60_000);
    script.take_packets();
    script.wait_ms(10);
    let before = info(&script).window;
    script.inject(". 1:1 ack 1 win 65535 <nop,nop,sack 2001:4001>");
    assert_eq!(info(&script).window, before);
}

#[test]
fn late_segments_get_a_quarter_of_a_round_trip_more_once_a_round_trip() {
    let mut script = on_a_path_that_reorders(Config { tail_probe: false, ..plain() });
    // Said twice, and in the same round trip.
    for _ in 0..2 {
        script.inject(". 1:1 ack 10001 win 65535 <nop,nop,sack 1:1001>");
        script.take_packets();
    }
    script.wait_ms(10);
    script.inject(". 1:1 ack 10001 win 65535 <nop,nop,sack 11001:12001>");
    script.take_packets();
    // A quarter of ten milliseconds, and one more.
    script.wait_ms(4);
    assert_eq!(info(&script).lost, 0);
    script.wait_ms(2);
    assert_eq!(info(&script).lost, 1);
}
