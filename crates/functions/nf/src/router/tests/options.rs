//! What becomes of options: each case is what Linux (6.18) does with the same bytes.

use super::*;

/// The byte of the header that the sender is told of, and what is counted.
fn refused(options: &[u8]) -> Option<(u8, &'static str)> {
    let packet = ipv4(17, options, &[0; 8]);
    let mut router = router();
    let (verdict, bytes) = run(&mut router, &packet);
    let mut counted = counted(&router);
    if verdict == Verdict::Out(OUT) {
        assert_eq!(bytes, forwarded(&packet, BOB_MAC), "{options:?}");
        return None;
    }
    assert_eq!(verdict, Verdict::Out(IN), "{options:?}");
    assert_eq!(bytes[34..36], [12, 0], "a parameter problem");
    assert_eq!(bytes[39..42], [0; 3], "unused");
    assert!(packet[14..].starts_with(&bytes[42..]), "as it came");
    assert_eq!(wire::checksum::of(&bytes[34..]), 0);
    assert_eq!(counted.remove("icmp_sent"), Some(1));
    let (name, count) = counted.pop_first().expect("a reason");
    assert_eq!((count, counted.len()), (1, 0), "one reason");
    Some((bytes[38], name))
}

#[test]
fn the_sender_is_told_which_byte_of_an_option_makes_no_sense() {
    let malformed = |at| Some((at, "ipv4_option"));
    let bad = |at| Some((at, "bad_option"));
    let cases: [(&[u8], _); 30] = [
        (&[1, 1, 1, 1], None),
        (&[0, 222, 0, 9], None),
        (&[222, 4, 0, 0], None),
        (&[222, 0, 0, 0], malformed(20)),
        (&[222, 1, 0, 0], malformed(20)),
        (&[222, 9, 0, 0], malformed(20)),
        (&[1, 1, 1, 222], malformed(23)),
        (&[7, 7, 4, 0, 0, 0, 0, 0], None),
        (&[7, 7, 8, 1, 2, 3, 4, 0], None),
        (&[7, 2, 4, 0], bad(21)),
        (&[7, 7, 3, 0, 0, 0, 0, 0], bad(22)),
        (&[7, 7, 6, 0, 0, 0, 0, 0], bad(22)),
        (&[7, 3, 4, 7, 3, 4, 0, 0], bad(23)),
        (&[68, 8, 5, 0, 0, 0, 0, 0], None),
        (&[68, 8, 9, 0, 0, 0, 0, 0], None),
        (&[68, 8, 5, 2, 0, 0, 0, 0], None),
        (&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0], None),
        (&[68, 12, 5, 3, 9, 9, 9, 9, 0, 0, 0, 0], None),
        (&[68, 3, 5, 0], bad(21)),
        (&[68, 8, 4, 0, 0, 0, 0, 0], bad(22)),
        (&[68, 8, 7, 0, 0, 0, 0, 0], bad(22)),
        (&[68, 8, 5, 1, 0, 0, 0, 0], bad(22)),
        (&[68, 8, 9, 0xf0, 0, 0, 0, 0], bad(23)),
        (&[68, 4, 5, 0, 68, 4, 5, 0], bad(24)),
        (&[148, 4, 0, 1], None),
        (&[148, 3, 0, 0], bad(21)),
        (&[131, 2, 4, 0], bad(21)),
        (&[137, 7, 3, 10, 0, 0, 9, 0], bad(22)),
        (&[131, 3, 4, 131, 3, 4, 0, 0], bad(23)),
        (&[131, 3, 4, 222, 0, 0, 0, 0], malformed(23)),
    ];
    for (options, expected) in cases {
        assert_eq!(refused(options), expected, "{options:?}");
    }
}

#[test]
fn nobody_is_told_of_the_options_of_a_damaged_header_or_of_an_error_message() {
    let mut damaged = ipv4(17, &[222, 0, 0, 0], &[0; 8]);
    damaged[24] ^= 1;
    let error = ipv4(1, &[222, 0, 0, 0], &[3, 0, 0, 0, 0, 0, 0, 0]);
    for (packet, counters) in [
        (damaged, BTreeMap::from([("bad_checksum", 1)])),
        (error, BTreeMap::from([("ipv4_option", 1), ("icmp_withheld", 1)])),
    ] {
        let mut router = router();
        assert_eq!(run(&mut router, &packet), (Verdict::Drop, packet));
        assert_eq!(counted(&router), counters);
    }
}
