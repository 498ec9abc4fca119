//! Queries as resolvers send them, and as attackers do.

use proptest::prelude::*;

use super::*;

const TTL: u32 = 60;

fn zone() -> Zone {
    let long = format!("big.example.org TXT {}", "x".repeat(600));
    let records = [
        "www.example.org A 192.0.2.1",
        "www.example.org. a 192.0.2.2",
        "www.example.org AAAA 2001:db8::1",
        "www.example.org A 192.0.2.1",
        "example.org TXT \"hello world\"",
        &long,
    ];
    records.iter().map(|text| text.parse::<Record>().expect(text)).collect()
}

/// A query for `name` as it is written, with `more` behind the question.
fn query_with(name: &str, kind: u16, class: u16, more: &[u8], counts: [u8; 3]) -> Vec<u8> {
    let [answers, authorities, additional] = counts;
    let mut query = vec![0xab, 0xcd, 1, 0, 0, 1, 0, answers, 0, authorities, 0, additional];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        query.push(label.len() as u8);
        query.extend(label.as_bytes());
    }
    query.push(0);
    query.extend([kind.to_be_bytes(), class.to_be_bytes()].concat());
    query.extend(more);
    query
}

fn query(name: &str, kind: u16) -> Vec<u8> {
    query_with(name, kind, 1, &[], [0; 3])
}

fn edns(bytes: u16, version: u8, flags: u8) -> Vec<u8> {
    let [s0, s1] = bytes.to_be_bytes();
    vec![0, 0, 41, s0, s1, 0, version, flags, 0, 0, 0]
}

/// A response, read by other code than the one that wrote it.
#[derive(Debug, PartialEq, Eq)]
struct Reading {
    code: u8,
    is_authoritative: bool,
    is_cut: bool,
    /// Type and data.
    answers: Vec<(u16, Vec<u8>)>,
    opt: Option<Vec<u8>>,
}

fn respond(query: &[u8]) -> Result<Reading, Ignored> {
    let mut out = [0xee; 2000];
    let len = answer(query, &zone(), TTL, &mut out)?;
    assert!(out[RESPONSE_BYTES_MAX..].iter().all(|&byte| byte == 0xee), "nothing beyond the limit");
    let response = &out[..len];
    let word = |at: usize| u16::from_be_bytes([response[at], response[at + 1]]);
    assert_eq!(response[..2], query[..2], "the id");
    assert_eq!(response[2] & 0x80, 0x80, "a response");
    assert_eq!(response[2] & 0x79, query[2] & 0x79, "operation and RD are repeated");
    assert_eq!(response[3] & 0xf0, 0, "no recursion here");
    let mut at = 12;
    if word(4) == 1 {
        while response[at] != 0 {
            at += 1 + usize::from(response[at]);
        }
        at += 5;
        assert_eq!(response[12..at], query[12..at], "the question as it was asked");
    }
    let mut answers = Vec::new();
    for _ in 0..word(6) {
        assert_eq!(word(at), 0xc00c, "the question's name");
        assert_eq!(word(at + 4), 1, "class IN");
        assert_eq!((word(at + 6), word(at + 8)), (0, TTL as u16));
        let end = at + 12 + usize::from(word(at + 10));
        answers.push((word(at + 2), response[at + 12..end].to_vec()));
        at = end;
    }
    assert_eq!(word(8), 0);
    let opt = (word(10) == 1).then(|| response[at..at + 11].to_vec());
    at += opt.as_ref().map_or(0, Vec::len);
    assert_eq!(at, len, "nothing else");
    Ok(Reading {
        code: response[3] & 0xf,
        is_authoritative: response[2] & 4 != 0,
        is_cut: response[2] & 2 != 0,
        answers,
        opt,
    })
}

fn plain(code: u8, answers: Vec<(u16, Vec<u8>)>) -> Reading {
    Reading { code, is_authoritative: matches!(code, 0 | 3), is_cut: false, answers, opt: None }
}

#[test]
fn what_is_known_is_answered_whatever_the_case() {
    let both = vec![(1, vec![192, 0, 2, 1]), (1, vec![192, 0, 2, 2])];
    assert_eq!(respond(&query("www.example.org", 1)), Ok(plain(0, both.clone())));
    assert_eq!(respond(&query("wWw.eXAMPLE.oRG", 1)), Ok(plain(0, both.clone())));
    let address = "2001:db8::1".parse::<std::net::Ipv6Addr>().expect("one").octets().to_vec();
    assert_eq!(respond(&query("www.example.org", 28)), Ok(plain(0, vec![(28, address)])));
    let text = b"\x0bhello world".to_vec();
    assert_eq!(respond(&query("example.org", 16)), Ok(plain(0, vec![(16, text)])));
    assert_eq!(respond(&query("www.example.org", 255)), Ok(plain(0, both)), "any: the first type");
}

#[test]
fn a_name_without_the_type_is_empty_and_an_unknown_name_does_not_exist() {
    assert_eq!(respond(&query("www.example.org", 16)), Ok(plain(0, vec![])));
    assert_eq!(respond(&query("org", 1)), Ok(plain(0, vec![])), "www.example.org is below it");
    assert_eq!(respond(&query("", 1)), Ok(plain(0, vec![])));
    assert_eq!(respond(&query("ww.example.org", 1)), Ok(plain(3, vec![])));
    assert_eq!(respond(&query("www.example.org.org", 1)), Ok(plain(3, vec![])));
    assert_eq!(respond(&query("a.www.example.org", 1)), Ok(plain(3, vec![])));
}

#[test]
fn what_is_not_done_is_refused_by_its_code() {
    let other = |change: fn(&mut Vec<u8>)| {
        let mut query = query("www.example.org", 1);
        change(&mut query);
        respond(&query)
    };
    assert_eq!(other(|query| query[2] = 0x28), Ok(plain(4, vec![])), "an update");
    assert_eq!(other(|query| query[5] = 2), Ok(plain(1, vec![])), "two questions");
    assert_eq!(other(|query| query[5] = 0), Ok(plain(1, vec![])), "none");
    assert_eq!(respond(&query("www.example.org", 252)), Ok(plain(5, vec![])), "the whole zone");
    let chaos = query_with("version.bind", 16, 3, &[], [0; 3]);
    assert_eq!(respond(&chaos), Ok(plain(5, vec![])));
}

#[test]
fn what_is_no_query_is_not_answered() {
    assert_eq!(respond(&query("a", 1)[..11]), Err(Ignored::Short));
    let mut response = query("www.example.org", 1);
    response[2] |= 0x80;
    assert_eq!(respond(&response), Err(Ignored::Response));
    let whole = query("www.example.org", 1);
    for len in 12..whole.len() {
        assert_eq!(respond(&whole[..len]), Err(Ignored::Malformed), "cut to {len} bytes");
    }
    let promised = query_with("www.example.org", 1, 1, &[], [0, 0, 1]);
    assert_eq!(respond(&promised), Err(Ignored::Malformed), "a record that is not there");
    let mut long = edns(1232, 0, 0);
    long[10] = 1;
    let long = query_with("www.example.org", 1, 1, &long, [0, 0, 1]);
    assert_eq!(respond(&long), Err(Ignored::Malformed), "a record that ends beyond");
}

#[test]
fn pointers_are_followed_backwards_only() {
    // The name of the question has nothing before it to point to.
    for pointer in [[0xc0, 0], [0xc0, 12], [0xc0, 13], [0xff, 0xff], [0x80, 1], [0x40, 0]] {
        let query = [&[0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &pointer, &[0, 1, 0, 1]].concat();
        assert_eq!(respond(&query), Err(Ignored::Malformed), "{pointer:x?}");
    }
    let message = [&[0; 12][..], b"\x07Example\x03org\x00\x03www\xc0\x0c\xc0\x19\xc0\x1f"].concat();
    let name = |text| Name::from_text(text).expect(text);
    assert_eq!(Name::read(&message, 12), Some((name("example.org"), 25)));
    assert_eq!(Name::read(&message, 25), Some((name("www.example.org"), 31)));
    assert_eq!(Name::read(&message, 31), Some((name("www.example.org"), 33)));
    assert_eq!(Name::read(&message, 33), Some((name("www.example.org"), 35)));
    for at in [12, 25, 31] {
        assert!(Name::skip(&message, at) == Name::read(&message, at).map(|(_, end)| end));
    }
    let labels = [&[0; 12][..], &b"\x3f".repeat(64 * 5)].concat();
    assert_eq!(Name::read(&labels, 12), None, "longer than 255 bytes");
}

#[test]
fn records_before_the_edns_record_are_skipped() {
    let record =
        [&b"\x01a\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x00\x00\x04"[..], &[1, 2, 3, 4]].concat();
    let more = [&record[..], &record, &record, &edns(1232, 0, 0)].concat();
    let query = query_with("www.example.org", 28, 1, &more, [1, 1, 2]);
    assert!(respond(&query).expect("it is a query").opt.is_some());
}

#[test]
fn edns_makes_room_and_is_answered() {
    let cut = respond(&query("big.example.org", 16)).expect("it is a query");
    assert_eq!((cut.is_cut, cut.answers.len(), cut.code), (true, 0, 0));
    let ask = |bytes, version, flags| {
        let edns = edns(bytes, version, flags);
        respond(&query_with("big.example.org", 16, 1, &edns, [0, 0, 1])).expect("it is a query")
    };
    let whole = ask(1232, 0, 0x80);
    assert_eq!((whole.is_cut, whole.answers.len()), (false, 1));
    let text = &whole.answers[0].1;
    assert_eq!((text.len(), text[0], text[256], text[512]), (603, 255, 255, 90));
    let opt = whole.opt.expect("it was asked for");
    assert_eq!(opt, [0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0], "our size, and the DO bit again");
    // Room for the answer without the OPT record is no room: 12 + 21 + 12 + 603 + 11 = 659.
    assert!(ask(658, 0, 0).is_cut);
    assert!(!ask(659, 0, 0).is_cut);
    assert!(ask(0, 0, 0).is_cut, "less than 512 means 512");

    let newer = ask(1232, 1, 0);
    assert_eq!((newer.code, newer.answers.len()), (0, 0));
    assert_eq!(newer.opt.expect("it was asked for")[5], 1, "BADVERS is 16");
    let twice = [edns(1232, 0, 0), edns(1232, 0, 0)].concat();
    let twice = respond(&query_with("www.example.org", 1, 1, &twice, [0, 0, 2]));
    assert_eq!(twice.expect("it is a query").code, 1);
}

#[test]
fn a_record_is_read_as_in_a_zone_file_or_refused_with_an_example() {
    for text in [
        "",
        "a",
        "a A",
        "a A 1.2.3",
        "a A ::1",
        "a AAAA 1.2.3.4",
        "a MX 10 b",
        "a TXT \"\"",
        "a..b A 1.2.3.4",
        "*.a A 1.2.3.4",
        "a\\.b A 1.2.3.4",
    ] {
        let error = text.parse::<Record>().expect_err(text).to_string();
        assert!(error.contains("is no record") || error.contains("is no name"), "{error}");
    }
    let long = format!("a TXT {}", "x".repeat(1001));
    assert!(long.parse::<Record>().is_err());
    let name = format!("{0}.{0}.{0}.{1} A 1.2.3.4", "x".repeat(63), "y".repeat(62));
    assert!(name.parse::<Record>().expect_err("256 bytes").to_string().contains("255"));
    assert!(
        format!("{0}.{0}.{0}.{1} A 1.2.3.4", "x".repeat(63), "y".repeat(61))
            .parse::<Record>()
            .is_ok()
    );
    assert!(format!("{} A 1.2.3.4", "x".repeat(64)).parse::<Record>().is_err());
    assert!(". TXT root".parse::<Record>().is_ok());
}

proptest! {
    #[test]
    fn any_bytes_are_answered_within_the_limits_or_not_at_all(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..600), room in 0..2000_usize,
        is_like_a_query in any::<bool>(),
    ) {
        if is_like_a_query && bytes.len() >= 12 {
            bytes[2] &= 7;
            let records = bytes[11] % 3;
            bytes[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, records]);
        }
        let mut out = vec![0; room];
        if let Ok(len) = answer(&bytes, &zone(), TTL, &mut out) {
            prop_assert!((12..=RESPONSE_BYTES_MAX).contains(&len) && len <= room);
            prop_assert_eq!(&out[..2], &bytes[..2]);
            prop_assert_eq!(out[2] & 0x80, 0x80);
            // An answer to an answer is none: there is no loop.
            prop_assert_eq!(answer(&out[..len], &zone(), TTL, &mut [0; 512]), Err(Ignored::Response));
        }
    }

    #[test]
    fn a_query_with_a_damaged_byte_is_answered_well_or_not_at_all(
        at in any::<proptest::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut query = query_with("www.example.org", 1, 1, &edns(1232, 0, 0), [0, 0, 1]);
        let at = at.index(query.len());
        query[at] = byte;
        // `respond` checks the form.
        let _ = respond(&query);
    }

    #[test]
    fn a_name_survives_its_bytes_in_any_case(
        labels in proptest::collection::vec("[a-zA-Z0-9_-]{1,63}", 1..4),
    ) {
        let text = labels.join(".");
        let message = query(&text, 1);
        let (name, end) = Name::read(&message, 12).expect("it is one");
        prop_assert_eq!(end + 4, message.len());
        prop_assert_eq!(name, Name::from_text(&text).expect("it is one"));
        prop_assert_eq!(name.ancestors().count(), labels.len());
    }
}
