//! How far a simulation is, for whoever waits.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use experiments::Progress;

/// Nobody needs to be told of what is done in less.
const SOON: Duration = Duration::from_secs(2);
/// Time between two lines where they cannot be overwritten.
const LINES: Duration = Duration::from_secs(10);

/// A line on standard error that is overwritten, or a line now and then where it is no terminal.
pub(super) struct Display {
    name: String,
    began: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Display {
    pub(super) fn new(name: &str) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { name: name.to_owned(), began: Instant::now(), shown: None, is_terminal }
    }

    pub(super) fn show(&mut self, Progress { done, of }: Progress) {
        let pause = if self.is_terminal { Duration::from_millis(200) } else { LINES };
        let is_due =
            self.shown.map_or(self.began.elapsed() >= SOON, |shown| shown.elapsed() >= pause);
        if !is_due {
            return;
        }
        self.shown = Some(Instant::now());
        let seconds = self.began.elapsed().as_secs();
        let line = format!("{}: {done} of {of} runs, {seconds} s", self.name);
        // Progress that cannot be shown is no reason to stop.
        let _ = if self.is_terminal {
            write!(std::io::stderr(), "\r\x1b[K{line}")
        } else {
            writeln!(std::io::stderr(), "{line}")
        };
    }

    /// Removes the line.
    pub(super) fn clear(&mut self) {
        if self.is_terminal && self.shown.take().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
