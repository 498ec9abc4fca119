//! Options that no honest peer sends: of length zero or one, cut off, of a wrong length, repeated.
//! What comes before the first that is none counts, of what comes twice the last (as in Linux).

use crate::support::script::Script;
use tcp::{Algorithm, Config, FlowOptions};

fn new_reno() -> FlowOptions {
    FlowOptions { congestion: Algorithm::NewReno, ..FlowOptions::default() }
}

#[test]
fn whatever_a_syns_options_are_it_is_answered_with_those_that_can_be_read() {
    // Options, those of the answer, payload of a full segment, whether they count as broken.
    let table = [
        ("none", "", "mss 1460", 536, false),
        ("nothing but padding", "1 1 1 1 1 1 1 1", "mss 1460", 536, false),
        ("a length of zero", "2 0 3 232 4 2 1 1", "mss 1460", 536, true),
        ("a length of one", "2 1 3 232 4 2 1 1", "mss 1460", 536, true),
        ("a length of zero behind an MSS", "2 4 3 232 4 0 4 2", "mss 1460", 1000, true),
        ("cut off behind its length", "4 2 2 4", "mss 1460,sackOK", 536, true),
        ("cut off before its length", "4 2 1 2", "mss 1460,sackOK", 536, true),
        ("cut off timestamps", "2 4 3 232 8 10 0 0", "mss 1460", 1000, true),
        ("a length of 255", "2 4 3 232 3 255 7 1", "mss 1460", 1000, true),
        ("an MSS of three bytes", "2 3 5 4 2 1 1 1", "mss 1460,sackOK", 536, false),
        ("a scale of four bytes", "3 4 7 7 4 2 1 1", "mss 1460,sackOK", 536, false),
        ("SACK permitted with a word in it", "4 4 1 1 3 3 7 1", "mss 1460,wscale 0", 536, false),
        ("behind the end", "4 2 0 2 4 3 232 1", "mss 1460,sackOK", 536, false),
        ("an MSS twice", "2 4 1 0 2 4 3 232", "mss 1460", 1000, false),
        ("an MSS and then one of zero", "2 4 3 232 2 4 0 0", "mss 1460", 536, false),
        ("everything twice", "4 2 4 2 3 3 7 3 3 8 1 1", "mss 1460,sackOK,wscale 0", 536, false),
        ("unknown ones", "77 2 99 6 1 2 3 4 254 4 0 0", "mss 1460", 536, false),
        (
            "timestamps twice",
            "8 10 0 0 0 5 0 0 0 0 8 10 0 0 0 9 0 0 0 0",
            "mss 1460,TS 100 9",
            524,
            false,
        ),
        (
            "forty bytes of the same",
            "4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2",
            "mss 1460,sackOK",
            536,
            false,
        ),
    ];
    for (name, bytes, answer, mss, is_broken) in table {
        let mut script = Script::new(Config::default(), new_reno());
        script.listen(8);
        script.inject(&format!("S 0:0 win 65535 <bytes {bytes}>"));
        let packets = script.take_packets();
        assert_eq!(packets.len(), 1, "{name}");
        let text = script.print(&packets[0]);
        // No option of ours needs padding that would be printed, so that all are named here.
        assert_eq!(text, format!("S. 0:0 ack 1 win 65535 <{answer}>"), "{name}");
        let broken = script.host.engine.counters().bad_options;
        assert_eq!(broken, u64::from(is_broken), "{name}");
        script.inject(". 1:1 ack 1 win 65535");
        script.write(2000);
        let info = script.host.engine.info(script.flow()).expect("it stands");
        assert_eq!(info.snd_mss, mss, "{name}");
    }
}

/// A connection with timestamps (the peer's last was 2) and selective acknowledgements.
fn accepted() -> Script {
    let config = Config { window_scaling: false, ..Config::default() };
    let mut script = Script::new(config, new_reno());
    script.listen(8);
    script.inject("S 0:0 win 65535 <mss 1012,sackOK,TS 1 0>");
    script.expect(&["S. 0:0 ack 1 win 65535 <mss 1460,sackOK,TS 100 1>"]);
    script.inject(". 1:1 ack 1 win 65535 <TS 2 100>");
    script.expect(&[]);
    script
}

#[test]
fn whatever_the_options_of_data_are_its_bytes_arrive_and_readable_timestamps_count() {
    // Options, the timestamp that is echoed afterwards, whether they count as broken.
    let table = [
        ("none", "", 2, false),
        ("nothing but padding", "1 1 1 1", 2, false),
        ("a length of zero", "8 0 0 0 0 7 0 0 0 0 1 1", 2, true),
        ("a length of one", "8 1 0 0 0 7 0 0 0 0 1 1", 2, true),
        ("a length of zero behind timestamps", "8 10 0 0 0 7 0 0 0 0 5 0", 7, true),
        ("cut off timestamps", "1 1 8 10 0 0 0 7", 2, true),
        ("cut off before its length", "8 10 0 0 0 7 0 0 0 0 1 8", 7, true),
        ("timestamps of nine bytes", "8 9 0 0 0 7 0 0 0 1 1 1", 2, false),
        ("timestamps behind the end", "0 1 8 10 0 0 0 7 0 0 0 0", 2, false),
        ("timestamps twice", "8 10 0 0 0 5 0 0 0 0 8 10 0 0 0 7 0 0 0 0", 7, false),
        ("a SACK of nine bytes", "5 9 0 0 0 7 0 0 0 1 1 1", 2, false),
        ("a SACK of no ranges", "5 2 8 10 0 0 0 7 0 0 0 0", 7, false),
        ("a SYN's options", "2 4 0 100 4 2 3 3 14 1 1 1", 2, false),
    ];
    for (name, bytes, echo, is_broken) in table {
        let mut script = accepted();
        script.inject(&format!("P. 1:101 ack 1 win 65535 <bytes {bytes}>"));
        let packets = script.take_packets();
        assert_eq!(packets.len(), 1, "{name}");
        let text = script.print(&packets[0]);
        assert_eq!(text, format!(". 1:1 ack 101 win 65435 <TS 100 {echo}>"), "{name}");
        let broken = script.host.engine.counters().bad_options;
        assert_eq!(broken, u64::from(is_broken), "{name}");
        script.read(1, 100);
        let info = script.host.engine.info(script.flow()).expect("it stands");
        assert_eq!((info.snd_mss, info.snd_wnd), (1000, 65535), "{name}");
    }
}

#[test]
fn of_two_reports_of_ranges_in_one_segment_the_last_counts() {
    let mut script = accepted();
    script.write(5000);
    assert_eq!(script.take_packets().len(), 5);
    script.inject(". 1:1 ack 1 win 65535 <sack 1001:2001 2001:3001,sack 4001:5001,TS 3 100>");
    script.expect(&[]);
    let info = script.host.engine.info(script.flow()).expect("it stands");
    assert_eq!(info.sacked, 1);
}

#[test]
fn a_header_that_says_that_it_is_longer_than_the_segment_or_shorter_than_any_is_malformed() {
    for (number, words) in [(1, 15), (2, 6), (3, 4), (4, 0)] {
        let mut script = accepted();
        let mut packet = script.parse(". 1:1 ack 1 win 65535", |byte| byte);
        packet.bytes[12] = words << 4;
        let incoming = tcp::Incoming {
            key: packet.key,
            hash: script.host.engine.hash_of(&packet.key),
            segment: &packet.bytes,
            ecn: 0,
            is_verified: true,
            route: 0,
        };
        let host = &mut script.host;
        host.engine.receive(script.now, &[incoming], &mut host.rings, &mut host.sink);
        assert_eq!(script.host.engine.counters().malformed, 1, "case {number}");
        script.expect(&[]);
    }
}
