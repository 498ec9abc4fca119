//! What is concluded from losses, and from what comes again.

use crate::support::connection::{accepted, new_reno, plain};
use crate::support::script::Script;
use base::Nanos;
use tcp::{Config, FlowInfo};

fn info(script: &Script) -> FlowInfo {
    script.host.engine.info(script.flow()).expect("it stands")
}

#[test]
fn a_round_trip_within_one_tick_of_the_timestamps_counts_as_one() {
    // As in Linux: which copy is acknowledged only the timestamps tell, and these count
    // milliseconds.
    let config = Config { window_scaling: false, sack: false, ..Config::default() };
    let mut script = Script::new(config, new_reno());
    script.listen(8);
    script.inject("S 0:0 win 65535 <mss 1000,TS 1 0>");
    script.expect(&["S. 0:0 ack 1 win 65535 <mss 1460,TS 100 1>"]);
    script.wait_ms(10);
    script.inject(". 1:1 ack 1 win 65535 <TS 2 100>");
    script.write(500);
    script.take_packets();
    let mut copies = Vec::new();
    for _ in 0..20_000 {
        script.wait(Nanos::from_micros(100));
        copies = script.take_packets();
        if !copies.is_empty() {
            break;
        }
    }
    let copy = script.print(&copies[0]);
    let (_, stamps) = copy.split_once("<TS ").expect("timestamps were agreed on");
    let (stamp, _) = stamps.split_once(' ').expect("there are two");
    // It is answered in the millisecond in which it leaves.
    script.inject(&format!(". 1:1 ack 501 win 65535 <TS 3 {stamp}>"));
    assert_eq!(info(&script).queued_bytes, 0);
    let shortest = info(&script).shortest_round_trip.expect("one was measured");
    assert_eq!(shortest, Nanos::from_millis(1));
}

#[test]
fn what_is_lost_anew_behind_progress_after_a_timeout_lowers_the_threshold_again() {
    // RFC 5681 equation 4, as in Linux: not what the timer has sent again already, but what it has
    // not.
    let config = Config { tail_probe: false, ..plain() };
    let mut script = Script::accepted(config, new_reno());
    script.write(10_000);
    assert_eq!(script.take_packets().len(), 10);
    script.wait_ms(300);
    assert_eq!(script.take_packets().len(), 1, "the first timeout");
    assert_eq!(info(&script).threshold, 5);
    script.wait_ms(450);
    assert_eq!(script.take_packets().len(), 1, "the same once more");
    assert_eq!(info(&script).threshold, 5, "it was counted");
    // The copy has arrived.
    script.inject(". 1:1 ack 1001 win 65535");
    assert!(!script.take_packets().is_empty());
    let window = info(&script).window;
    script.wait_ms(300);
    assert_eq!(script.take_packets().len(), 1, "a timeout of what came behind");
    assert_eq!(info(&script).threshold, (window / 2).max(2));
    script.wait_ms(450);
    assert_eq!(script.take_packets().len(), 1);
    assert_eq!(info(&script).threshold, (window / 2).max(2), "that was counted, too");
}

#[test]
fn a_tail_probe_that_finds_nothing_on_its_way_is_none() {
    // RFC 8985 section 7. The timer runs out, and before anything leaves all is acknowledged.
    let mut script = accepted();
    script.write(3000);
    assert_eq!(script.take_packets().len(), 3);
    let due = info(&script).timer.expect("the end is to be probed").1;
    script.now = due + Nanos::from_millis(1);
    let host = &mut script.host;
    host.engine.expire(script.now, &mut host.sink);
    script.inject(". 1:1 ack 3001 win 65535");
    script.expect(&[]);
    assert_eq!(script.host.engine.counters().tail_probes, 0);
    // Nothing was lost, so nothing makes the window fall.
    let window = info(&script).window;
    script.write(3000);
    assert_eq!(script.take_packets().len(), 3);
    script.wait_ms(5);
    script.inject(". 1:1 ack 4001 win 65535");
    script.inject(". 1:1 ack 6001 win 65535");
    script.expect(&[]);
    assert!(info(&script).window >= window, "{} of {window}", info(&script).window);
}
