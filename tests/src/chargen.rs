//! The characters that a chargen service sends (RFC 864), to compare with.

use std::io::Read;

/// Printable characters of a line; a carriage return and a line feed follow.
const LINE: u64 = 72;

/// All printable characters, the space included. Each line begins one further.
const CHARACTERS: u64 = 95;

/// The byte at `position` of the stream.
fn character(position: u64) -> u8 {
    let (line, column) = (position / (LINE + 2), position % (LINE + 2));
    match column {
        LINE => b'\r',
        column if column > LINE => b'\n',
        column => b' ' + ((line + column) % CHARACTERS) as u8,
    }
}

/// Reads `bytes` of it, of which the first is that at `position`.
///
/// # Panics
/// A byte is wrong, or the stream ends.
pub fn read_chargen(stream: &mut impl Read, position: u64, bytes: u64) {
    let mut buffer = vec![0; 1 << 16];
    let mut done = 0;
    while done < bytes {
        let most = (bytes - done).min(buffer.len() as u64) as usize;
        let len = stream.read(&mut buffer[..most]).expect("the connection stands");
        assert!(len > 0, "the stream ends behind {}", position + done);
        for (at, &byte) in buffer[..len].iter().enumerate() {
            let at = position + done + at as u64;
            assert_eq!(byte, character(at), "byte {at}");
        }
        done += len as u64;
    }
}
