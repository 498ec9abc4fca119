//! How long a flow waits, and for what.

use crate::support::script::Script;
use base::Nanos;
use tcp::{Config, FlowOptions};

#[test]
fn questions_to_a_closed_window_do_not_delay_what_is_sent_again_once_it_is_open() {
    for slow_start_after_idle in [true, false] {
        let config = Config { slow_start_after_idle, ..Config::default() };
        let mut script = Script::accepted(config, FlowOptions::default());
        script.write(1000);
        script.take_packets();
        script.inject(". 1:1 ack 1001 win 0");
        script.write(1000);
        script.wait_ms(7000);
        assert_eq!(script.host.engine.counters().window_probes, 5);
        script.take_packets();
        script.inject(". 1:1 ack 1001 win 65535");
        script.expect(&["P. 1001:2001 ack 1 win 65535"]);
        let info = script.host.engine.info(script.flow()).expect("it stands");
        assert!(info.timeout < Nanos::from_millis(400), "{}", info.timeout);
    }
}

#[test]
fn windows_of_one_byte_are_not_filled_one_by_one() {
    let config = Config { timestamps: false, window_scaling: false, ..Config::default() };
    let mut script = Script::new(config, FlowOptions::default());
    script.listen(8);
    script.inject("S 0:0 win 1 <mss 1000>");
    script.expect(&["S. 0:0 ack 1 win 65535 <mss 1460>"]);
    script.inject(". 1:1 ack 1 win 1");
    script.write(10_000);
    // The peer acknowledges what comes at once, and never takes more than a byte.
    let (mut segments, mut acked) = (0, 1);
    for _ in 0..10_000 {
        for packet in script.take_packets() {
            let text = script.print(&packet);
            segments += 1;
            let end = text.split([' ', ':']).nth(2).expect("it has numbers");
            acked = acked.max(end.parse().expect("it is a number"));
        }
        script.inject(&format!(". 1:1 ack {acked} win 1"));
        script.wait_ms(1);
    }
    assert!(segments < 100, "{segments} segments in ten seconds");
    // Nor does it wait for ever.
    assert!(acked > 10, "{acked} bytes in ten seconds");
}
