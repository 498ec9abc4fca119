//! How far a replay is, on a terminal, once it takes longer than a moment.

use std::io::{self, IsTerminal, Write};

use base::Nanos;
use sys::clock::now;

use crate::player::Seen;

/// Shorter replays show nothing.
const FIRST: Nanos = Nanos::from_secs(1);
const INTERVAL: Nanos = Nanos::from_millis(200);
const BAR_CELLS: u64 = 30;

/// The line.
#[derive(Debug)]
pub(crate) struct Progress {
    bytes: Option<u64>,
    is_terminal: bool,
    start: Nanos,
    next: Nanos,
    is_shown: bool,
}

impl Progress {
    /// Of a file of that many bytes, if that is known.
    pub(crate) fn new(bytes: Option<u64>) -> Self {
        let start = now();
        let is_terminal = io::stderr().is_terminal();
        Self { bytes, is_terminal, start, next: start + FIRST, is_shown: false }
    }

    /// Writes the line anew when it is time.
    pub(crate) fn show(&mut self, seen: Seen) {
        if !self.is_terminal {
            return;
        }
        let time = now();
        if time < self.next {
            return;
        }
        self.next = time + INTERVAL;
        self.is_shown = true;
        let line = line(seen, self.bytes, time.since(self.start));
        // A terminal that is gone is no reason to stop.
        let _ = write!(io::stderr(), "\r\x1b[K{line}");
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(seen: Seen, bytes: Option<u64>, elapsed: Nanos) -> String {
    let Seen { position, packets } = seen;
    let rate = packets as f64 / elapsed.as_secs_f64().max(1e-9) / 1e6;
    let tail = format!("{packets} packets, {rate:.2} M/s");
    match bytes.filter(|&bytes| bytes > 0) {
        Some(bytes) => {
            let share =
                |of: u64| (u128::from(position.min(bytes)) * u128::from(of)) / u128::from(bytes);
            let (percent, cells) = (share(100), share(BAR_CELLS) as usize);
            let (done, rest) = ("=".repeat(cells), " ".repeat(BAR_CELLS as usize - cells));
            format!("[{done}{rest}] {percent:>3} %  {tail}")
        }
        None => tail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_much_of_the_file_is_played_and_how_fast() {
        let seen = Seen { position: 50, packets: 3_000_000 };
        let half = line(seen, Some(100), Nanos::from_secs(2));
        assert_eq!(
            half,
            format!("[{}{}]  50 %  3000000 packets, 1.50 M/s", "=".repeat(15), " ".repeat(15))
        );
        let grown = line(Seen { position: 500, packets: 1 }, Some(100), Nanos::from_secs(1));
        assert!(grown.contains("] 100 %"), "a file that grew while it was read: {grown}");
        assert_eq!(line(seen, None, Nanos::from_secs(2)), "3000000 packets, 1.50 M/s");
    }
}
