//! What `wire::tcp` promises, case by case.

use super::*;

fn read(bytes: &[u8]) -> Vec<TcpOption<'_>> {
    // More items than bytes would be a walk that stands still.
    Options::new(bytes).take(bytes.len() + 1).collect()
}

#[test]
fn options_of_a_syn_are_all_read() {
    let bytes = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 7];
    assert_eq!(
        read(&bytes),
        [
            TcpOption::MaximumSegment(1460),
            TcpOption::SackPermitted,
            TcpOption::Timestamps { value: 1, echo: 2 },
            TcpOption::WindowScale(7),
        ]
    );
}

#[test]
fn option_of_length_zero_or_one_ends_the_walk() {
    for length in [0, 1] {
        assert_eq!(read(&[1, 77, length, 4, 2]), [TcpOption::Broken], "{length}");
    }
}

#[test]
fn option_beyond_the_header_is_broken_and_the_last() {
    assert_eq!(read(&[4, 2, 8, 10, 0, 0]), [TcpOption::SackPermitted, TcpOption::Broken]);
    assert_eq!(read(&[4]), [TcpOption::Broken]);
}

#[test]
fn nothing_is_read_behind_the_end_of_options() {
    assert_eq!(read(&[1, 0, 4, 2]), []);
}

#[test]
fn known_kind_of_the_wrong_length_is_ignorable() {
    let expected =
        [TcpOption::Other { kind: 2, data: &[9] }, TcpOption::Other { kind: 5, data: &[] }];
    assert_eq!(read(&[2, 3, 9, 5, 2]), expected);
}

#[test]
fn selective_acknowledgement_keeps_its_ranges() {
    let bytes = [&[5, 10][..], &[7; 8]].concat();
    assert_eq!(read(&bytes), [TcpOption::Sack(&[7; 8])]);
}

#[test]
fn data_offset_must_cover_the_header_and_end_within_the_packet() {
    for (words, expected) in
        [(0, None), (4, None), (5, Some(20)), (6, Some(24)), (7, None), (15, None)]
    {
        let mut segment = [0; 24];
        segment[12] = words << 4;
        let expected = expected.ok_or(Malformed::TcpDataOffset);
        assert_eq!(Header::parse(&segment).map(|h| h.header_bytes), expected, "{words}");
    }
    assert_eq!(Header::parse(&[0; 19]), Err(Malformed::TcpTruncated));
}

#[test]
fn fields_and_options_are_read_from_their_places() {
    let mut segment = [0; 26];
    for (at, byte) in segment.iter_mut().enumerate() {
        *byte = at as u8;
    }
    segment[12] = 6 << 4;
    segment[20..24].copy_from_slice(&[4, 2, 1, 0]);
    let header = Header::parse(&segment).expect("24 bytes of header are there");
    assert_eq!((header.source_port, header.destination_port), (0x0001, 0x0203));
    assert_eq!((header.sequence, header.acknowledgement), (0x0405_0607, 0x0809_0a0b));
    assert_eq!((header.flags, header.window), (13, 0x0e0f));
    assert_eq!((header.checksum, header.urgent), (0x1011, 0x1213));
    assert_eq!(header.options(&segment).collect::<Vec<_>>(), [TcpOption::SackPermitted]);
}
