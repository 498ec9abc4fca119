//! Tests of what is read of a packet, and what is not.

use super::*;
use crate::samples::{ipv4, ipv6, tcp, udp};

const FOUR: [&str; 2] = ["10.0.0.1:5000", "10.0.1.2:80"];
const SIX: [&str; 2] = ["[fd00::1]:5000", "[fd01::2]:80"];

/// Protocol and ports of a packet, or why there are none.
fn read(frame: &[u8]) -> Result<(u8, Option<(u16, u16)>), Unread> {
    Headers::read(frame).map(|headers| (headers.protocol, headers.ports))
}

/// The packet behind `tags` VLAN tags.
fn tagged(frame: &[u8], tags: usize) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0, 5].repeat(tags), &frame[12..]].concat()
}

#[test]
fn ports_are_found_behind_tags_options_and_extension_headers() {
    let ports = Some((5000, 80));
    let transport = &udp(FOUR, b"hello")[34..];
    let chain = [
        0, 0, 60, 0, 1, 4, 0, 0, 0, 0, 51, 0, 1, 4, 0, 0, 0, 0, 44, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let behind = |rest: &[u8]| [&chain[2..], rest].concat();
    let whole = [17, 0, 0, 0, 0, 0, 0, 9];
    for (frame, protocol) in [
        (udp(FOUR, b""), 17),
        (tcp(FOUR, b""), 6),
        (tcp(SIX, b""), 6),
        (tagged(&udp(FOUR, b""), 1), 17),
        (tagged(&udp(SIX, b""), 2), 17),
        (ipv4(17, &[148, 4, 0, 0], transport), 17),
        (ipv4(132, &[], transport), 132),
        (ipv6(0, &behind(&[&whole, transport].concat())), 17),
        // A source route that is not yet at its end: the ports are there all the same.
        (ipv6(43, &[&[17, 0, 4, 1, 0, 0, 0, 0], transport].concat()), 17),
    ] {
        assert_eq!(read(&frame), Ok((protocol, ports)), "{frame:02x?}");
    }
    assert_eq!(read(&ipv4(1, &[], &[8, 0])), Ok((1, None)));
    assert_eq!(read(&ipv6(58, &[])), Ok((58, None)));
    let ends = Headers::read(&udp(SIX, b"")).expect("a packet");
    assert_eq!([ends.source.to_string(), ends.destination.to_string()], ["fd00::1", "fd01::2"]);
}

#[test]
fn a_first_fragment_with_extension_headers_behind_is_not_read_as_a_later_one_could_be_the_ports() {
    let transport = &udp(FOUR, b"hello")[34..];
    let options = [17, 0, 1, 4, 0, 0, 0, 0];
    for more in [0, 1] {
        let head = [60, 0, 0, more, 0, 0, 0, 9];
        let read = read(&ipv6(44, &[&head[..], &options, transport].concat()));
        let whole = Ok((17, Some((5000, 80))));
        assert_eq!(read, if more == 0 { whole } else { Err(Unread::Unreadable) });
    }
}

#[test]
fn a_later_fragment_has_no_ports_and_one_cut_to_deceive_is_not_read() {
    let cut = |protocol, offset: u16, more: u16, payload: &[u8]| {
        let mut four = ipv4(protocol, &[], payload);
        four[20..22].copy_from_slice(&(offset | more << 13).to_be_bytes());
        let [high, low] = (offset << 3 | more).to_be_bytes();
        let six = ipv6(44, &[&[protocol, 0, high, low, 0, 0, 0, 9], payload].concat());
        [four, six]
    };
    let segment = [0x13, 0x88, 0, 80, 1, 2, 3, 4];
    for (frames, expected) in [
        (cut(17, 0, 1, &segment), Ok((17, Some((5000, 80))))),
        (cut(17, 0, 1, &segment[..3]), Err(Unread::TinyFragment)),
        (cut(17, 1, 0, &segment), Ok((17, None))),
        (cut(6, 1, 0, &segment), Err(Unread::TinyFragment)),
        (cut(6, 2, 1, &segment), Ok((6, None))),
        (cut(1, 1, 0, &segment), Ok((1, None))),
    ] {
        for frame in frames {
            assert_eq!(read(&frame), expected, "{frame:02x?}");
        }
    }
}

#[test]
fn headers_that_can_be_read_in_two_ways_are_not_read() {
    let four = udp(FOUR, b"hello");
    let mut bad_length = four.clone();
    bad_length[16] = 9;
    for frame in [
        four[..13].to_vec(),
        four[..40].to_vec(),
        bad_length,
        tagged(&four, 3),
        ipv4(17, &[131, 7, 4, 10, 0, 0, 9, 0], &[0; 8]),
        ipv4(17, &[], &[1, 2, 3]),
        ipv6(6, &[1, 2, 3]),
        ipv6(60, &[17]),
        ipv6(60, &[17, 1, 0, 0, 0, 0, 0, 0]),
        ipv6(44, &[17, 0, 0]),
        ipv6(60, &[60, 0, 1, 4, 0, 0, 0, 0].repeat(9)),
    ] {
        assert_eq!(read(&frame), Err(Unread::Unreadable), "{frame:02x?}");
    }
    let mut arp = four;
    arp[12..14].copy_from_slice(&[8, 6]);
    assert_eq!(read(&arp), Err(Unread::NotIp));
}
