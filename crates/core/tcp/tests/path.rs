//! What a path carries: what was said of it long ago is not true for ever.

use crate::support::connection::{accepted, new_reno, plain};
use crate::support::script::Script;
use base::Nanos;
use tcp::Config;

/// Payload bytes of each segment that the engine sends now.
fn sent(script: &mut Script) -> Vec<usize> {
    script.take_packets().iter().map(|packet| packet.bytes.len() - 20).collect()
}

/// A router says that it carries so much, of a segment that is on its way.
fn narrow(script: &mut Script, mtu: u32) {
    let first = script.host.engine.repair(script.flow(), script.now).expect("it stands").send_first;
    script.host.engine.too_big(&script.key, first, mtu);
}

/// Writes three full segments, and more time passes than a window that is not used outlives.
fn write_later(script: &mut Script, number: &mut u32, time: Nanos) -> Vec<usize> {
    script.wait(time);
    script.write(3000);
    let sent = sent(script);
    *number += 3000;
    script.inject(&format!(". 1:1 ack {number} win 65535"));
    script.take_packets();
    sent
}

#[test]
fn segments_are_long_again_ten_minutes_after_a_router_has_said_that_its_path_carries_less() {
    // RFC 1191 section 6.3, as in Linux.
    let mut script = accepted();
    script.write(3000);
    assert_eq!(sent(&mut script), [1000; 3]);
    narrow(&mut script, 600);
    assert_eq!(sent(&mut script)[0], 560, "cut anew");
    let mut number = 3001;
    script.inject(&format!(". 1:1 ack {number} win 65535"));
    let minutes = |count: u64| Nanos::from_secs(60 * count);
    let first = write_later(&mut script, &mut number, minutes(1));
    assert_eq!(first[..5], [560; 5]);
    let ninth = write_later(&mut script, &mut number, minutes(8));
    assert_eq!(ninth[..5], [560; 5]);
    let later = write_later(&mut script, &mut number, minutes(3));
    assert_eq!(later, [1000; 3]);
    // And again, if it still carries less.
    script.write(3000);
    assert_eq!(sent(&mut script), [1000; 3]);
    narrow(&mut script, 600);
    assert_eq!(sent(&mut script)[0], 560);
    assert_eq!(script.host.engine.counters().paths_narrowed, 2);
}

#[test]
fn who_searches_for_what_a_path_carries_begins_again_ten_minutes_later() {
    // RFC 4821 section 7.3.
    let config = Config { mtu_probing: true, mtu_floor: 1040, path_mtu: 1040, ..plain() };
    let mut script = Script::new(config, new_reno());
    script.listen(8);
    script.inject("S 0:0 win 65535 <mss 1460,sackOK>");
    script.expect(&["S. 0:0 ack 1 win 65535 <mss 1000,sackOK>"]);
    script.inject(". 1:1 ack 1 win 65535");
    script.write(500);
    assert_eq!(sent(&mut script), [500]);
    narrow(&mut script, 1039);
    script.inject(". 1:1 ack 501 win 65535");
    script.take_packets();
    let mut number = 501;
    assert!(!is_probed(&mut script, &mut number), "a router has said that nothing longer arrives");
    script.wait(Nanos::from_secs(12 * 60));
    assert!(is_probed(&mut script, &mut number));
}

/// Writes 30,000 bytes, of which all that leaves is acknowledged, so that the window becomes large
/// enough for a probe. Whether a longer segment than at first was among them.
fn is_probed(script: &mut Script, number: &mut u32) -> bool {
    let mut longest = 0;
    script.write(30_000);
    for _ in 0..4 {
        let sent = sent(script);
        longest = longest.max(sent.iter().copied().max().unwrap_or(0));
        *number += sent.iter().sum::<usize>() as u32;
        script.inject(&format!(". 1:1 ack {number} win 65535"));
    }
    longest > 1000
}
