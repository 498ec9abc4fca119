//! What `wire::ipv6` promises, case by case.

use super::*;
use crate::samples;

const UDP: u8 = 17;

/// Follows `headers`: each a number and its bytes, of which the first is set to the next number.
fn follow(headers: &[(u8, &[u8])], last: u8) -> Result<Transport, Reject> {
    let mut payload = Vec::new();
    for (position, (_, bytes)) in headers.iter().enumerate() {
        let next = headers.get(position + 1).map_or(last, |(number, _)| *number);
        payload.push(next);
        payload.extend(&bytes[1..]);
    }
    payload.extend([0; 8]);
    walk(&payload, headers.first().map_or(last, |(number, _)| *number))
}

const PADDED: &[u8] = &[0, 0, 1, 4, 0, 0, 0, 0];
const AH: &[u8] = &[0, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

#[test]
fn transport_is_found_behind_every_kind_of_extension() {
    let routing: &[u8] = &[0, 0, 4, 0, 0, 0, 0, 0];
    let whole: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 9];
    let chain: [(u8, &[u8]); 6] = [
        (HOP_BY_HOP, PADDED),
        (DESTINATION_OPTIONS, &[0, 1, 0, 1, 0, 0, 0x1e, 0, 1, 6, 0, 0, 0, 0, 0, 0]),
        (ROUTING, routing),
        (FRAGMENT, whole),
        (AUTHENTICATION, AH),
        (DESTINATION_OPTIONS, PADDED),
    ];
    assert_eq!(
        follow(&chain, UDP),
        Ok(Transport { protocol: UDP, extension_bytes: 72, is_signed: true })
    );
    assert_eq!(
        follow(&chain[..4], UDP),
        Ok(Transport { protocol: UDP, extension_bytes: 40, is_signed: false })
    );
    assert_eq!(follow(&[], UDP).map(|t| t.extension_bytes), Ok(0));
}

#[test]
fn fragment_with_an_offset_or_more_to_come_is_a_fragment() {
    for (word, is_fragment) in
        [([0, 1], true), ([0, 8], true), ([0xff, 0xf8], true), ([0, 6], false)]
    {
        let header = [0, 0, word[0], word[1], 0, 0, 0, 9];
        let found = follow(&[(FRAGMENT, &header)], UDP);
        assert_eq!(found == Err(NotOurs::Fragment.into()), is_fragment, "{word:02x?}");
    }
}

#[test]
fn segments_left_mean_that_the_packet_is_on_its_way() {
    let found = follow(&[(ROUTING, &[0, 0, 4, 1, 0, 0, 0, 0])], UDP);
    assert_eq!(found, Err(NotOurs::SourceRoute.into()));
}

#[test]
fn hop_by_hop_header_comes_first_or_not_at_all() {
    let found = follow(&[(DESTINATION_OPTIONS, PADDED), (HOP_BY_HOP, PADDED)], UDP);
    assert_eq!(found, Err(Malformed::Ipv6HopByHopOrder.into()));
}

#[test]
fn chain_is_followed_for_eight_headers_and_512_bytes() {
    let short = [(DESTINATION_OPTIONS, PADDED); 9];
    assert_eq!(follow(&short[..8], UDP).map(|t| t.extension_bytes), Ok(64));
    assert_eq!(follow(&short, UDP), Err(Malformed::Ipv6ChainTooLong.into()));
    let mut long = [0; 512];
    long[1] = 63;
    assert_eq!(follow(&[(DESTINATION_OPTIONS, &long)], UDP).map(|t| t.extension_bytes), Ok(512));
    let longer = [(DESTINATION_OPTIONS, &long[..]), (DESTINATION_OPTIONS, PADDED)];
    assert_eq!(follow(&longer, UDP), Err(Malformed::Ipv6ChainTooLong.into()));
}

#[test]
fn nothing_behind_the_chain_is_told_from_too_little() {
    assert_eq!(follow(&[], NO_NEXT_HEADER), Err(NotOurs::NoNextHeader.into()));
    let found = follow(&[(HOP_BY_HOP, PADDED)], NO_NEXT_HEADER);
    assert_eq!(found, Err(NotOurs::NoNextHeader.into()));
    for kind in [HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION_OPTIONS] {
        assert_eq!(walk(&[17; 7], kind), Err(Malformed::Ipv6ExtensionTruncated.into()), "{kind}");
    }
    let says_sixteen = [17, 1, 1, 4, 0, 0, 0, 0, 1, 0];
    assert_eq!(walk(&says_sixteen, HOP_BY_HOP), Err(Malformed::Ipv6ExtensionTruncated.into()));
}

#[test]
fn authentication_header_covers_its_fixed_fields() {
    let found = follow(&[(AUTHENTICATION, &[0; 8])], UDP);
    assert_eq!(found, Err(Malformed::Ipv6ExtensionLength.into()));
}

#[test]
fn option_is_skipped_unless_it_forbids_that_or_leaves_its_header() {
    let not_ours = Err(NotOurs::Ipv6Option.into());
    for (options, expected) in [
        ([0, 0, 0, 0, 0, 0], Ok(8)),
        ([5, 2, 0, 0, 1, 0], Ok(8)),
        ([0x1e, 4, 0, 0, 0, 0], Ok(8)),
        ([0x1e, 0, 0x1e, 0, 1, 0], Ok(8)),
        ([0xc2, 4, 0, 1, 0, 0], not_ours),
        ([0xc9, 4, 0, 0, 0, 0], not_ours),
        ([0x40, 4, 0, 0, 0, 0], not_ours),
        ([1, 5, 0, 0, 0, 0], Err(Malformed::Ipv6Option.into())),
        ([0, 0, 0, 0, 0, 1], Err(Malformed::Ipv6Option.into())),
    ] {
        let [a, b, c, d, e, f] = options;
        let found = follow(&[(HOP_BY_HOP, &[0, 0, a, b, c, d, e, f])], UDP);
        assert_eq!(found.map(|t| t.extension_bytes), expected, "{options:02x?}");
    }
}

#[test]
fn header_agrees_with_its_bytes_or_says_what_does_not() {
    let packet = &samples::ipv6(UDP, &[0; 8])[14..];
    let header = Header::parse(packet).expect("valid");
    assert_eq!((header.payload_bytes, header.total_bytes()), (8, 48));
    assert_eq!(Header::parse(&packet[..39]), Err(Malformed::Ipv6Truncated));
    assert_eq!(Header::parse(&packet[..47]), Err(Malformed::Ipv6BeyondFrame));
    let mut other_version = packet.to_vec();
    other_version[0] = 0x40;
    assert_eq!(Header::parse(&other_version), Err(Malformed::Ipv6Version));
}

#[test]
fn addresses_that_no_host_has_are_told_from_groups() {
    let header = Header::parse(&samples::ipv6(UDP, &[0; 8])[14..]).expect("valid");
    let address = |text: &str| text.parse::<std::net::Ipv6Addr>().expect("an address").octets();
    assert_eq!(header.check_addresses(), Ok(()));
    for text in ["::", "::1", "::ffff:10.0.0.1"] {
        let here = Header { destination: address(text), ..header };
        assert_eq!(here.check_addresses(), Err(Malformed::Ipv6Destination.into()), "{text}");
        let here = Header { source: address(text), ..header };
        assert_eq!(here.check_addresses(), Err(Malformed::Ipv6Source.into()), "{text}");
    }
    let to_group = Header { destination: address("ff02::1"), ..header };
    assert_eq!(to_group.check_addresses(), Err(NotOurs::Multicast.into()));
    let from_group = Header { source: address("ff02::1"), ..header };
    assert_eq!(from_group.check_addresses(), Err(Malformed::Ipv6Source.into()));
}
