//! What `wire::ipv4` promises, case by case.

use super::*;
use crate::samples;

fn parse(options: &[u8]) -> Result<Header, Reject> {
    Header::parse(&samples::ipv4(UDP, options, &[0; 8])[14..])
}

#[test]
fn options_are_skipped_and_counted_as_header() {
    for options in [vec![], vec![1; 4], vec![0, 9, 9, 9], vec![7, 7, 4, 0, 0, 0, 0, 0], vec![1; 40]]
    {
        let header = parse(&options).expect("valid options");
        assert_eq!(usize::from(header.header_bytes), 20 + options.len());
        assert_eq!(usize::from(header.total_bytes), 28 + options.len());
    }
}

#[test]
fn option_that_stands_still_or_leaves_the_header_is_malformed() {
    for options in [[7, 0, 0, 0], [7, 1, 0, 0], [7, 5, 0, 0], [1, 1, 1, 7]] {
        assert_eq!(parse(&options), Err(Malformed::Ipv4Option.into()), "{options:?}");
    }
}

#[test]
fn source_route_is_not_followed() {
    for kind in [OPTION_LOOSE_SOURCE_ROUTE, OPTION_STRICT_SOURCE_ROUTE] {
        assert_eq!(parse(&[kind, 3, 4, 0]), Err(NotOurs::SourceRoute.into()));
    }
}

#[test]
fn lengths_that_contradict_each_other_name_the_wrong_one() {
    let whole = samples::ipv4(UDP, &[1; 4], &[0; 8])[14..].to_vec();
    let parse = |change: fn(&mut Vec<u8>)| {
        let mut packet = whole.clone();
        change(&mut packet);
        Header::parse(&packet).map(|h| h.total_bytes)
    };
    assert_eq!(parse(|_| ()), Ok(32));
    assert_eq!(parse(|p| p[0] = 0x44), Err(Malformed::Ipv4HeaderLength.into()));
    assert_eq!(parse(|p| p[0] = 0x56), Err(Malformed::Ipv4Version.into()));
    assert_eq!(parse(|p| p[3] = 23), Err(Malformed::Ipv4TotalLength.into()));
    assert_eq!(parse(|p| p[3] = 33), Err(Malformed::Ipv4BeyondFrame.into()));
    assert_eq!(parse(|p| p.truncate(19)), Err(Malformed::Ipv4Truncated.into()));
    assert_eq!(parse(|p| p.truncate(22)), Err(Malformed::Ipv4Truncated.into()));
    assert_eq!(parse(|p| p.truncate(31)), Err(Malformed::Ipv4BeyondFrame.into()));
    assert_eq!(parse(|p| p.extend([0; 14])), Ok(32));
}

#[test]
fn first_middle_and_last_fragment_are_fragments_and_the_other_flags_are_not() {
    for (flags, is_fragment) in [
        ([0x20, 0], true),
        ([0x20, 1], true),
        ([0, 1], true),
        ([0x1f, 0], true),
        ([0xc0, 0], false),
    ] {
        let mut packet = samples::ipv4(UDP, &[], &[0; 8])[14..].to_vec();
        packet[6..8].copy_from_slice(&flags);
        assert_eq!(Header::parse(&packet).map(|h| h.is_fragment), Ok(is_fragment), "{flags:02x?}");
    }
}

#[test]
fn fragment_that_ends_beyond_the_longest_packet_is_malformed() {
    let parse = |offset: u16, payload: usize| {
        let mut packet = samples::ipv4(UDP, &[], &vec![0; payload])[14..].to_vec();
        packet[6..8].copy_from_slice(&offset.to_be_bytes());
        Header::parse(&packet).map(|header| header.is_fragment)
    };
    let wrong = Err(Malformed::Ipv4FragmentEnd.into());
    // 20 bytes of header, 8 for each unit of the offset, and 1475 of payload make 65,535.
    for (offset, payload, expected) in [
        (8005, 1475, Ok(true)),
        (8005, 1476, wrong),
        (8008, 1480, wrong),
        (8189, 3, Ok(true)),
        (8189, 4, wrong),
        (8191, 0, wrong),
        (0x2000 | 8189, 8, wrong),
    ] {
        assert_eq!(parse(offset, payload), expected, "{offset} {payload}");
    }
}

#[test]
fn addresses_that_no_host_has_are_told_from_groups() {
    let header = parse(&[]).expect("valid");
    for (destination, expected) in [
        ([10, 0, 0, 2], Ok(())),
        ([224, 0, 0, 1], Err(NotOurs::Multicast.into())),
        ([239, 255, 255, 255], Err(NotOurs::Multicast.into())),
        ([255; 4], Err(NotOurs::Broadcast.into())),
        ([0; 4], Err(Malformed::Ipv4Destination.into())),
        ([127, 0, 0, 1], Err(Malformed::Ipv4Destination.into())),
    ] {
        assert_eq!(Header { destination, ..header }.check_addresses(), expected, "{destination:?}");
    }
    for source in [[0, 0, 0, 1], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4]] {
        let expected = Err(Malformed::Ipv4Source.into());
        assert_eq!(Header { source, ..header }.check_addresses(), expected, "{source:?}");
    }
}
