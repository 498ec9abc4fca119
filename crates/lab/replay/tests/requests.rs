//! The requests of a capture: who asks, how often, and how long a reply takes.

use crate::common::{FORMATS, Record, file, udp};
use base::Nanos;
use replay::requests;

#[test]
fn who_sent_the_first_packet_asks_and_the_next_the_other_way_is_the_reply() {
    let (client, server) = ("10.0.0.1:5000", "10.0.0.2:7");
    let (other, request) = ("10.0.0.3:5000", b"request");
    let at = |micros: u64, bytes: Vec<u8>| Record::whole(1_000_000_000 + micros * 1000, bytes);
    let records = vec![
        at(0, udp(client, server, request)),
        at(10, udp(other, server, request)),
        at(30, udp(server, client, request)),
        // Two at a time: nobody knows which of them is answered.
        at(100, udp(client, server, request)),
        at(110, udp(client, server, request)),
        at(150, udp(server, client, request)),
        // One of the two is still to be answered, by what comes now.
        at(160, udp(client, server, request)),
        at(170, udp(server, client, request)),
        // No data, no request.
        at(200, udp(client, server, b"")),
    ];
    for format in FORMATS {
        let found =
            requests(&file(format, crate::common::ETHERNET, &records)[..]).expect("it is sound");
        let shown: Vec<_> =
            found.iter().map(|one| (one.at.0 / 1000, one.flow, one.reply_after)).collect();
        let reply = Some(Nanos::from_micros(30));
        assert_eq!(
            shown,
            [(0, 0, reply), (10, 1, None), (100, 0, None), (110, 0, None), (160, 0, None)],
            "{format:?}"
        );
    }
}

#[test]
fn what_is_no_capture_or_has_no_request_is_refused_with_a_reason() {
    assert!(requests(&b"nonsense and more of it than a header has"[..]).is_err());
    let empty = file(FORMATS[0], crate::common::ETHERNET, &[]);
    let refused = requests(&empty[..]).expect_err("nothing is in it").to_string();
    assert!(refused.contains("no TCP or UDP packet with data"), "{refused}");
}
