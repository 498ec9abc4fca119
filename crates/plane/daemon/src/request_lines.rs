//! Lines of a client of the admin socket: most are short, and one at a time may be long.
//!
//! Only a table of owners needs megabytes. Were every client allowed them at once, an operator's
//! script that forgets its line ends could fill the daemon's memory.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use admin::LINE_BYTES_MAX;

/// A line of up to this many bytes needs no reservation.
const SHORT_BYTES: u64 = 64 << 10;

/// A long line has come whole within this time, or the client is let go.
const WHOLE_WITHIN: Duration = Duration::from_secs(30);

/// Whoever has it may send a long line. Shared by all clients of a socket.
#[derive(Clone, Default)]
pub(crate) struct LongLine(Arc<Mutex<()>>);

/// What a client sends.
pub(crate) struct RequestLines {
    lines: BufReader<UnixStream>,
    long: LongLine,
}

impl RequestLines {
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new(stream: &UnixStream, long: LongLine) -> std::io::Result<Self> {
        Ok(Self { lines: BufReader::new(stream.try_clone()?), long })
    }

    /// The next line with its end; empty: the client has ended its side.
    ///
    /// # Errors
    /// Why there is none, in words for the client; it is heard no more.
    pub(crate) fn next(&mut self) -> Result<String, &'static str> {
        let mut line = Vec::new();
        read(&mut self.lines, SHORT_BYTES, &mut line)?;
        if line.last().is_some_and(|byte| *byte != b'\n') {
            let long = self.long.clone();
            let held = match long.0.try_lock() {
                Ok(held) => held,
                Err(TryLockError::Poisoned(held)) => held.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    return Err(
                        "another client sends a long line, and one may at a time: try again",
                    );
                }
            };
            self.read_long(&mut line)?;
            drop(held);
        }
        String::from_utf8(line).map_err(|_| "a request is a line of UTF-8")
    }

    /// Reads the rest of a line, at any pace for a while.
    fn read_long(&mut self, line: &mut Vec<u8>) -> Result<(), &'static str> {
        let until = Instant::now() + WHOLE_WITHIN;
        while line.last() != Some(&b'\n') {
            if line.len() >= LINE_BYTES_MAX {
                return Err("a line that long is no request");
            }
            let left = until.saturating_duration_since(Instant::now());
            let timeout = left.max(Duration::from_millis(1));
            let set = self.lines.get_ref().set_read_timeout(Some(timeout));
            let before = line.len();
            let rest = SHORT_BYTES.min((LINE_BYTES_MAX - before) as u64);
            let result = set.map_err(|_| "this connection takes no time limit");
            let result = result.and_then(|()| read(&mut self.lines, rest, line));
            if left.is_zero() || result.is_err() || line.len() == before {
                return Err("a line without an end is no request");
            }
        }
        self.lines.get_ref().set_read_timeout(None).map_err(|_| "this connection cannot wait")
    }
}

/// Reads up to a line's end, or `bytes_max` bytes, or the end.
fn read(
    lines: &mut BufReader<UnixStream>,
    bytes_max: u64,
    line: &mut Vec<u8>,
) -> Result<(), &'static str> {
    match lines.take(bytes_max).read_until(b'\n', line) {
        Ok(_) => Ok(()),
        Err(_) => Err("the line could not be read"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn connected(long: &LongLine) -> (UnixStream, RequestLines) {
        let (theirs, ours) = UnixStream::pair().expect("descriptors are left");
        (theirs, RequestLines::new(&ours, long.clone()).expect("descriptors are left"))
    }

    #[test]
    fn one_client_at_a_time_may_send_a_long_line() {
        let long = LongLine::default();
        let (mut first, mut of_first) = connected(&long);
        let (mut second, mut of_second) = connected(&long);
        let bytes = vec![b'a'; 2 * SHORT_BYTES as usize];
        std::thread::scope(|scope| {
            let whole = scope.spawn(move || of_first.next());
            first.write_all(&bytes).expect("it is read");
            while long.0.try_lock().is_ok() {
                std::thread::yield_now();
            }
            second.write_all(&bytes[..=SHORT_BYTES as usize]).expect("there is room");
            assert!(of_second.next().expect_err("the other's is not whole").contains("try again"));
            first.write_all(b"\n").expect("it is read");
            let line = whole.join().expect("no panic").expect("it is whole");
            assert_eq!(line.len(), bytes.len() + 1);
        });
        let (mut third, mut of_third) = connected(&long);
        let writes = std::thread::spawn(move || {
            third.write_all(&vec![b'b'; 3 * SHORT_BYTES as usize]).expect("it is read");
            third.write_all(b"\nshort\n").expect("it is read");
        });
        assert_eq!(of_third.next().expect("its turn").len(), 3 * SHORT_BYTES as usize + 1);
        assert_eq!(of_third.next().as_deref(), Ok("short\n"));
        assert_eq!(of_third.next().as_deref(), Ok(""), "the other end is gone");
        writes.join().expect("no panic");
    }

    #[test]
    fn a_line_without_an_end_is_refused_at_the_most_bytes() {
        let (mut client, mut lines) = connected(&LongLine::default());
        let writes = std::thread::spawn(move || {
            let chunk = vec![b'x'; 1 << 20];
            // It is let go on the way.
            (0..=LINE_BYTES_MAX >> 20).try_for_each(|_| client.write_all(&chunk))
        });
        assert!(lines.next().expect_err("no line is that long").contains("that long"));
        drop(lines);
        let _ = writes.join().expect("no panic");
    }
}
