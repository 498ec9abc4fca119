//! RESP2, the protocol of Redis: `GET` and `SET` of one key.

use super::cache::{Cache, is_value, write_value};
use super::{Ask, Heard, Read, line, number};

pub(super) fn write(cache: &Cache, ask: Ask, to: &mut Vec<u8>) {
    let name_bytes = cache.config().key_bytes;
    match ask {
        Ask::Set { key, bytes } => {
            to.extend_from_slice(format!("*3\r\n$3\r\nSET\r\n${name_bytes}\r\n").as_bytes());
            cache.write_key(key, to);
            to.extend_from_slice(format!("\r\n${bytes}\r\n").as_bytes());
            write_value(key, bytes, to);
            to.extend_from_slice(b"\r\n");
        }
        Ask::Get { key } => {
            to.extend_from_slice(format!("*2\r\n$3\r\nGET\r\n${name_bytes}\r\n").as_bytes());
            cache.write_key(key, to);
            to.extend_from_slice(b"\r\n");
        }
        Ask::Copy | Ask::Page => debug_assert!(false, "a cache asks for values"),
    }
}

pub(super) fn read(cache: &Cache, ask: Ask, bytes: &[u8]) -> Read {
    let (first, head) = match line(bytes) {
        Ok(Some(found)) => found,
        Ok(None) => return Read::More(0),
        Err(()) => return Read::Broken,
    };
    match (ask, first) {
        (_, [b'-', ..]) => Read::Answer(head, Heard::Error { last: false }),
        (Ask::Set { .. }, b"+OK") => Read::Answer(head, Heard::Stored),
        (Ask::Get { .. }, b"$-1") => Read::Answer(head, Heard::Miss),
        (Ask::Get { key }, [b'$', digits @ ..]) => {
            let length = number(digits).and_then(|length| usize::try_from(length).ok());
            let Some(length) = length.filter(|length| *length <= cache.longest()) else {
                return Read::Broken;
            };
            let end = head + length;
            let (Some(data), Some(tail)) = (bytes.get(head..end), bytes.get(end..end + 2)) else {
                return Read::More(0);
            };
            match tail {
                b"\r\n" if is_value(key, data) => Read::Answer(end + 2, Heard::Hit),
                b"\r\n" => Read::Answer(end + 2, Heard::Wrong),
                _ => Read::Broken,
            }
        }
        _ => Read::Broken,
    }
}
