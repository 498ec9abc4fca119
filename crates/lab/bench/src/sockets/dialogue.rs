//! What a client says and what it must hear: requests, and answers whose length is known
//! beforehand.

use load::Random;

use crate::flows::SEED;

/// Payload of an echo's request, and of its answer.
pub(super) const ECHO_BYTES: usize = 64;

/// Of a key-value store's requests.
const KEY_BYTES: usize = 64;
const VALUE_BYTES: usize = 32;

/// Keys in use.
const KEYS: u32 = 10_000;

/// A request, with what its answer is to be.
pub(super) struct Request<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) answer_bytes: usize,
    pub(super) answer_begins: &'static [u8],
}

/// A source of requests, the same for the same seed.
pub(crate) enum Dialogue {
    /// Every byte comes back.
    Echo,
    /// memcached's text protocol.
    KeyValue {
        random: Random,
        /// Of a hundred requests, this many set a value.
        sets_percent: u32,
        gets: Vec<Vec<u8>>,
        sets: Vec<Vec<u8>>,
    },
}

impl Dialogue {
    /// Keys of 64 bytes, values of 32; that many of a hundred requests set a value.
    pub(super) fn key_value(sets_percent: u32) -> Self {
        let name = |number: u32| format!("key-{number:0width$}", width = KEY_BYTES - 4);
        let get = |number| format!("get {}\r\n", name(number)).into_bytes();
        let set = |number| {
            let value = format!("{number:0VALUE_BYTES$}");
            format!("set {} 0 0 {VALUE_BYTES}\r\n{value}\r\n", name(number)).into_bytes()
        };
        Self::KeyValue {
            random: Random::new(SEED),
            sets_percent,
            gets: (0..KEYS).map(get).collect(),
            sets: (0..KEYS).map(set).collect(),
        }
    }

    /// Requests after which every other one has its answer.
    pub(super) fn preparations(&self) -> impl Iterator<Item = Request<'_>> {
        let sets: &[Vec<u8>] = match self {
            Self::Echo => &[],
            Self::KeyValue { sets, .. } => sets,
        };
        sets.iter().map(|set| set_request(set))
    }

    /// The next request.
    #[inline]
    pub(super) fn next(&mut self) -> Request<'_> {
        match self {
            Self::Echo => Request {
                bytes: &[0x5a; ECHO_BYTES],
                answer_bytes: ECHO_BYTES,
                answer_begins: &[0x5a],
            },
            Self::KeyValue { random, sets_percent, gets, sets } => {
                let key = random.below(KEYS) as usize;
                if random.below(100) < *sets_percent {
                    return set_request(&sets[key]);
                }
                // VALUE <key> 0 32\r\n<value>\r\nEND\r\n
                let answer_bytes = 6 + KEY_BYTES + 7 + VALUE_BYTES + 7;
                Request { bytes: &gets[key], answer_bytes, answer_begins: b"VALUE key-" }
            }
        }
    }
}

fn set_request(bytes: &[u8]) -> Request<'_> {
    Request { bytes, answer_bytes: b"STORED\r\n".len(), answer_begins: b"STORED" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_have_the_bytes_that_they_say() {
        let mut gets = Dialogue::key_value(0);
        let text = String::from_utf8(gets.next().bytes.to_vec()).expect("text");
        let key = text.trim_end().strip_prefix("get ").expect("it asks for one").to_owned();
        assert_eq!(key.len(), KEY_BYTES);
        let answer = format!("VALUE {key} 0 32\r\n{:032}\r\nEND\r\n", 7);
        assert_eq!(gets.next().answer_bytes, answer.len());
        let mut sets = Dialogue::key_value(100);
        let text = String::from_utf8(sets.next().bytes.to_vec()).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("set key-") && lines[0].ends_with(" 0 0 32"), "{text}");
        assert_eq!(lines[1].len(), VALUE_BYTES);
    }

    #[test]
    fn so_many_of_a_hundred_set_and_every_key_is_set_first() {
        let mut dialogue = Dialogue::key_value(10);
        assert_eq!(dialogue.preparations().count(), KEYS as usize);
        let sets = (0..1000).filter(|_| dialogue.next().bytes.starts_with(b"set")).count();
        assert!((50..200).contains(&sets), "{sets}");
        assert_eq!(Dialogue::Echo.preparations().count(), 0);
    }
}
