//! How long a flow waits, and for what.

mod support;

use base::Nanos;
use support::script::Script;
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
