//! What an application asks of a connection: how fast, how often, how soon.

use crate::support::connection::{closed, new_reno, plain};
use crate::support::script::Script;
use base::Nanos;
use tcp::{CloseReason, FlowOptions};

#[test]
fn a_highest_rate_spreads_segments_from_the_first_one_on() {
    // Segments of 1000 bytes, a tenth of a second each.
    let options = FlowOptions { rate_max: 10_000, ..new_reno() };
    let mut script = Script::accepted(plain(), options);
    script.write(10_000);
    // After a pause two leave at once: a receiver acknowledges every second one.
    script.expect(&[". 1:1001 ack 1 win 65535", ". 1001:2001 ack 1 win 65535"]);
    script.wait_ms(99);
    script.expect(&[]);
    script.wait_ms(2);
    script.expect(&[". 2001:3001 ack 1 win 65535"]);
    script.inject(". 1:1 ack 3001 win 65535");
    script.expect(&[]);
    script.wait_ms(100);
    script.expect(&[". 3001:4001 ack 1 win 65535"]);
}

#[test]
fn without_a_highest_rate_any_more_what_waited_leaves() {
    let options = FlowOptions { rate_max: 10_000, ..new_reno() };
    let mut script = Script::accepted(plain(), options);
    script.write(5_000);
    assert_eq!(script.take_packets().len(), 2);
    let flow = script.flow();
    script.host.engine.set_rate_max(flow, 0).expect("it stands");
    assert_eq!(script.take_packets().len(), 3);
}

#[test]
fn a_syn_is_sent_again_as_often_as_its_application_says() {
    let mut script = Script::new(plain(), FlowOptions { syn_retries: 2, ..new_reno() });
    script.connect();
    script.wait(Nanos::from_secs(60));
    assert_eq!(script.take_packets().len(), 3, "the first, and two more");
    assert_eq!(closed(&mut script), Some(CloseReason::TimedOut));
}
