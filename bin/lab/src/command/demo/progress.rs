//! How far a demonstration is, and whether it is to go on.

use std::io::Write;
use std::time::{Duration, Instant};

use cli::failure::Failure;

/// Says what is going on, on standard error: the table alone is the result.
pub(super) struct Progress {
    begun: Instant,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now() }
    }

    pub(super) fn say(&self, what: &str) {
        // Progress that cannot be shown is not worth an error.
        let _ = writeln!(std::io::stderr(), "{:5.1} s  {what}", self.begun.elapsed().as_secs_f64());
    }
}

/// An error once Ctrl-C has been pressed; whoever gets it returns, and destructors clean up.
pub(super) fn check_stop() -> Result<(), Failure> {
    if sys::signal::stop_requested() {
        Err(Failure::new("interrupted; nothing is left behind"))
    } else {
        Ok(())
    }
}

/// Sleeps in pieces short enough for Ctrl-C.
pub(super) fn pause(length: Duration) -> Result<(), Failure> {
    let end = Instant::now() + length;
    loop {
        check_stop()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}
