//! What `protocol` promises, case by case: whole answers, answers in pieces, and what is none.

use proptest::prelude::*;

use super::*;

fn cache(value_bytes: (usize, usize)) -> Cache {
    Cache::new(CacheConfig { value_bytes, ..CacheConfig::default() }, 7)
}

fn protocols() -> [Protocol; 4] {
    [
        Protocol::Echo { payload_bytes: 24 },
        Protocol::Memcached(cache((5, 5))),
        Protocol::Redis(cache((5, 5))),
        Protocol::Http(Page::new("here", "/")),
    ]
}

/// What all of `bytes` are, given piece by piece, and how many are used up in the end.
fn read_in(protocol: &Protocol, ask: Ask, bytes: &[u8], piece: usize) -> (Read, usize) {
    let (mut reader, mut at, mut end) = (Reader::default(), 0, 0);
    loop {
        end = (end + piece).min(bytes.len());
        loop {
            match reader.read(protocol, ask, &bytes[at..end]) {
                Read::More(0) => break,
                Read::More(used) => at += used,
                Read::Answer(used, heard) => return (Read::Answer(at + used, heard), at + used),
                Read::Broken => return (Read::Broken, at),
            }
        }
        if end == bytes.len() {
            return (Read::More(0), at);
        }
    }
}

/// Stored value of a key, as text would be.
fn stored(key: u32, bytes: usize) -> Vec<u8> {
    cache::value(key).take(bytes).collect()
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

const GET: Ask = Ask::Get { key: 42 };
const SET: Ask = Ask::Set { key: 42, bytes: 5 };
const NAME: &[u8] = b"c000000000000042";

#[test]
fn requests_are_written_as_their_protocols_want_them() {
    let [_, memcached, redis, http] = protocols();
    let write = |protocol: &Protocol, ask| {
        let mut bytes = b"before".to_vec();
        protocol.write(&Request::default(), ask, &mut bytes);
        bytes.split_off(6)
    };
    let value = stored(42, 5);
    assert_eq!(write(&memcached, GET), b"get c000000000000042\r\n");
    let set = join(&[b"set ", NAME, b" 0 0 5\r\n", &value, b"\r\n"]);
    assert_eq!(write(&memcached, SET), set);
    assert_eq!(write(&redis, GET), b"*2\r\n$3\r\nGET\r\n$16\r\nc000000000000042\r\n");
    let set = join(&[b"*3\r\n$3\r\nSET\r\n$16\r\n", NAME, b"\r\n$5\r\n", &value, b"\r\n"]);
    assert_eq!(write(&redis, SET), set);
    let get = b"GET / HTTP/1.1\r\nHost: here\r\nUser-Agent: calisto\r\n\r\n";
    assert_eq!(write(&http, Ask::Page), get);
}

#[test]
fn answers_are_known_for_what_they_are_whole_or_byte_by_byte() {
    let [echo, memcached, redis, http] = protocols();
    let value = stored(42, 5);
    let page = |last| Heard::Page { last };
    let error = |last| Heard::Error { last };
    let table: Vec<(&Protocol, Ask, Vec<u8>, Heard)> = vec![
        (&echo, Ask::Copy, vec![1; 24], Heard::Copy),
        (
            &memcached,
            GET,
            join(&[b"VALUE ", NAME, b" 0 5\r\n", &value, b"\r\nEND\r\n"]),
            Heard::Hit,
        ),
        (&memcached, GET, join(&[b"VALUE ", NAME, b" 0 5\r\nwrong\r\nEND\r\n"]), Heard::Wrong),
        (&memcached, GET, b"END\r\n".to_vec(), Heard::Miss),
        (&memcached, SET, b"STORED\r\n".to_vec(), Heard::Stored),
        (&memcached, SET, b"SERVER_ERROR out of memory\r\n".to_vec(), error(false)),
        (&memcached, GET, b"ERROR\r\n".to_vec(), error(false)),
        (&redis, GET, join(&[b"$5\r\n", &value, b"\r\n"]), Heard::Hit),
        (&redis, GET, b"$5\r\nwrong\r\n".to_vec(), Heard::Wrong),
        (&redis, GET, b"$-1\r\n".to_vec(), Heard::Miss),
        (&redis, SET, b"+OK\r\n".to_vec(), Heard::Stored),
        (&redis, SET, b"-OOM command not allowed\r\n".to_vec(), error(false)),
        (
            &http,
            Ask::Page,
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec(),
            page(false),
        ),
        (
            &http,
            Ask::Page,
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nConnection: close\r\n\r\n".to_vec(),
            page(true),
        ),
        (&http, Ask::Page, b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec(), page(false)),
        (
            &http,
            Ask::Page,
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno".to_vec(),
            error(false),
        ),
        (
            &http,
            Ask::Page,
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
              5;x=y\r\nhello\r\n1A\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nTrailer: 1\r\n\r\n"
                .to_vec(),
            page(false),
        ),
        (
            &http,
            Ask::Page,
            b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\nx".to_vec(),
            page(false),
        ),
    ];
    for (protocol, ask, bytes, heard) in table {
        for piece in [1, 3, bytes.len()] {
            let text = String::from_utf8_lossy(&bytes);
            let meant = (Read::Answer(bytes.len(), heard), bytes.len());
            assert_eq!(read_in(protocol, ask, &bytes, piece), meant, "{text:?} by {piece}");
            let short = &bytes[..bytes.len() - 1];
            let (read, _) = read_in(protocol, ask, short, piece);
            assert_eq!(read, Read::More(0), "without its last byte: {text:?}");
            let long = join(&[&bytes, b"next"]);
            assert_eq!(read_in(protocol, ask, &long, piece), meant, "with more behind: {text:?}");
        }
    }
}

#[test]
fn what_cannot_be_the_answer_is_broken() {
    let [_, memcached, redis, http] = protocols();
    let long_line = "x".repeat(2000);
    let long_head = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(20_000));
    let table: Vec<(&Protocol, Ask, &[u8])> = vec![
        (&memcached, GET, b"STORED\r\n"),
        (&memcached, SET, b"END\r\n"),
        (&memcached, GET, b"VALUE other 0 5\r\nhello\r\nEND\r\n"),
        (&memcached, GET, b"VALUE c000000000000042 0 9999999999\r\n"),
        (&memcached, GET, b"VALUE c000000000000042 0 6\r\n"),
        (&memcached, GET, b"VALUE c000000000000042 0 -1\r\n"),
        (&memcached, GET, b"VALUE c000000000000042 0\r\n"),
        (&memcached, GET, b"VALUE c000000000000042 0 1\r\nxyEND\r\n"),
        (&memcached, GET, b"\n"),
        (&memcached, GET, long_line.as_bytes()),
        (&redis, GET, b"+OK\r\n"),
        (&redis, SET, b"$5\r\nhello\r\n"),
        (&redis, GET, b"$99999999999999999999\r\n"),
        (&redis, GET, b"$6\r\n"),
        (&redis, GET, b"$+5\r\nhello\r\n"),
        (&redis, GET, b"$5\r\nhelloXY"),
        (&redis, GET, long_line.as_bytes()),
        (&http, Ask::Page, b"SSH-2.0-OpenSSH\r\n"),
        (&http, Ask::Page, b"HTTP/1.1 2000 OK\r\n\r\n"),
        (&http, Ask::Page, b"HTTP/1.1 abc OK\r\n\r\n"),
        (&http, Ask::Page, b"HTTP/1.1 101 Switching Protocols\r\n\r\n"),
        (&http, Ask::Page, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
        (&http, Ask::Page, b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n"),
        (&http, Ask::Page, b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"),
        (&http, Ask::Page, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        (
            &http,
            Ask::Page,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        ),
        (
            &http,
            Ask::Page,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXY0\r\n\r\n",
        ),
        (
            &http,
            Ask::Page,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\rX0\r\n\r\n",
        ),
        (&http, Ask::Page, long_head.as_bytes()),
    ];
    for (protocol, ask, bytes) in table {
        let (read, _) = read_in(protocol, ask, bytes, bytes.len());
        assert_eq!(read, Read::Broken, "{:?}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn no_more_is_kept_of_an_answer_than_the_longest_value_that_is_stored_needs() {
    for bytes in [1, 64, 5000] {
        for protocol in [Protocol::Memcached(cache((1, bytes))), Protocol::Redis(cache((1, bytes)))]
        {
            let most = protocol.unread_max();
            assert!((bytes..bytes + 4096).contains(&most), "{bytes}: {most}");
        }
    }
}

#[test]
fn a_body_without_length_ends_with_the_connection_and_an_unfinished_one_does_not() {
    let http = Protocol::Http(Page::new("here", "/"));
    let mut reader = Reader::default();
    let bytes = b"HTTP/1.1 200 OK\r\n\r\nas long as it lasts";
    assert_eq!(reader.read(&http, Ask::Page, bytes), Read::More(19));
    assert_eq!(reader.read(&http, Ask::Page, &bytes[19..]), Read::More(19));
    assert_eq!(reader.end(), Some(Heard::Page { last: true }));
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n";
    assert_eq!(reader.read(&http, Ask::Page, bytes), Read::More(bytes.len()));
    assert_eq!(reader.end(), None);
}

#[test]
fn asks_have_the_share_of_sets_and_the_sizes_that_were_wanted() {
    let config = CacheConfig { set_share: 0.25, value_bytes: (10, 30), ..CacheConfig::default() };
    let mut cache = Cache::new(config, 3);
    let asks: Vec<Ask> = (0..100_000).map(|_| cache.ask()).collect();
    let sizes: Vec<u32> = asks
        .iter()
        .filter_map(|ask| if let Ask::Set { bytes, .. } = ask { Some(*bytes) } else { None })
        .collect();
    // 25,000 with standard deviation 137.
    assert!((24_300..25_700).contains(&sizes.len()), "{}", sizes.len());
    assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&10), Some(&30)));
    let mean = sizes.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / sizes.len() as f64;
    assert!((mean - 20.0).abs() < 0.3, "{mean}");
    let same: Vec<Ask> = {
        let mut cache = Cache::new(config, 3);
        (0..100_000).map(|_| cache.ask()).collect()
    };
    assert!(same == asks, "equal seeds ask the same");
    let mut other = Cache::new(config, 4);
    other.ask();
    other.reseed(3);
    assert!((0..100_000).map(|_| other.ask()).eq(asks), "so does one that was seeded anew");
}

#[test]
fn impossible_stores_are_refused_by_a_sentence_with_the_range() {
    let good = CacheConfig::default();
    for (config, words) in [
        (CacheConfig { keys: 0, ..good }, "choose 1 to 1000000"),
        (CacheConfig { key_bytes: 7, ..good }, "choose 8 to 250"),
        (CacheConfig { key_bytes: 251, ..good }, "choose 8 to 250"),
        (CacheConfig { value_bytes: (0, 5), ..good }, "choose 1 to 1048576"),
        (CacheConfig { value_bytes: (6, 5), ..good }, "choose 1 to 1048576"),
        (CacheConfig { set_share: 1.5, ..good }, "choose 0"),
        (CacheConfig { set_share: f64::NAN, ..good }, "choose 0"),
    ] {
        let error = config.check().expect_err(words);
        assert!(error.is_usage() && error.to_string().contains(words), "{error}");
    }
    assert_eq!(good.check(), Ok(()));
}

proptest! {
    /// No bytes make a reader panic, use more than there is, or go on for ever without using any.
    #[test]
    fn any_bytes_at_all_are_read_to_their_end(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        good in 0_usize..60,
        piece in 1_usize..80,
    ) {
        let heads: [&[u8]; 4] = [
            b"",
            b"VALUE c000000000000042 0 100\r\n",
            b"$100\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ];
        for (protocol, head) in protocols().iter().zip(heads) {
            let bytes = join(&[&head[..good.min(head.len())], &bytes]);
            for ask in [GET, SET] {
                let (_, used) = read_in(protocol, ask, &bytes, piece);
                prop_assert!(used <= bytes.len());
            }
        }
    }
}
