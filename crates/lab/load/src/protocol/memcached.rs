//! memcached's text protocol (protocol.txt of memcached): `get` and `set` of one key.

use super::cache::{Cache, is_value, write_value};
use super::{Ask, Heard, Read, line, number};

pub(super) fn write(cache: &Cache, ask: Ask, to: &mut Vec<u8>) {
    match ask {
        Ask::Set { key, bytes } => {
            to.extend_from_slice(b"set ");
            cache.write_key(key, to);
            // No flags, no expiry.
            to.extend_from_slice(format!(" 0 0 {bytes}\r\n").as_bytes());
            write_value(key, bytes, to);
            to.extend_from_slice(b"\r\n");
        }
        Ask::Get { key } => {
            to.extend_from_slice(b"get ");
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
    let is_error = first == b"ERROR"
        || first.starts_with(b"SERVER_ERROR ")
        || first.starts_with(b"CLIENT_ERROR ");
    match ask {
        _ if is_error => Read::Answer(head, Heard::Error { last: false }),
        Ask::Set { .. } if first == b"STORED" => Read::Answer(head, Heard::Stored),
        Ask::Set { .. } if first == b"NOT_STORED" => {
            Read::Answer(head, Heard::Error { last: false })
        }
        Ask::Get { .. } if first == b"END" => Read::Answer(head, Heard::Miss),
        Ask::Get { key } => read_value(cache, key, first, head, bytes),
        _ => Read::Broken,
    }
}

fn read_value(cache: &Cache, key: u32, first: &[u8], head: usize, bytes: &[u8]) -> Read {
    let mut words = first.split(|byte| *byte == b' ');
    let (word, name, _flags) = (words.next(), words.next(), words.next());
    let length = words.next().and_then(number).and_then(|length| usize::try_from(length).ok());
    let Some(length) = length.filter(|length| *length <= cache.longest()) else {
        return Read::Broken;
    };
    if word != Some(b"VALUE") || !name.is_some_and(|name| cache.is_key(key, name)) {
        return Read::Broken;
    }
    const END: &[u8] = b"\r\nEND\r\n";
    let Some(data) = bytes.get(head..head + length) else { return Read::More(0) };
    let rest = &bytes[head + length..];
    if rest.len() < END.len() {
        return if END.starts_with(rest) { Read::More(0) } else { Read::Broken };
    }
    if !rest.starts_with(END) {
        return Read::Broken;
    }
    let heard = if is_value(key, data) { Heard::Hit } else { Heard::Wrong };
    Read::Answer(head + length + END.len(), heard)
}
