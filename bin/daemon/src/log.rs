//! Lines for whoever reads the daemon's output: written by a thread of their own.
//!
//! A reader that is slow, or gone, must not hold up the data loop or end it: lines wait in a bounded
//! queue, and what does not fit is lost and counted in the next line.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

/// Lines that may wait.
const LINES_MAX: usize = 256;

static LINES: OnceLock<SyncSender<Line>> = OnceLock::new();
static LOST: AtomicU64 = AtomicU64::new(0);

enum Line {
    Out(String),
    Err(String),
}

/// Starts the writing thread. Lines before this, and lines of tests, are lost.
pub(crate) fn start() -> std::io::Result<()> {
    let (sender, lines) = sync_channel(LINES_MAX);
    std::thread::Builder::new().name("log".to_owned()).spawn(move || {
        for line in lines {
            let lost = LOST.swap(0, Ordering::Relaxed);
            if lost > 0 {
                let _ = writeln!(std::io::stderr(), "calistod: {lost} lines were lost here");
            }
            let _ = match line {
                Line::Out(text) => writeln!(std::io::stdout(), "{text}"),
                Line::Err(text) => writeln!(std::io::stderr(), "calistod: {text}"),
            };
        }
    })?;
    let _ = LINES.set(sender);
    Ok(())
}

/// Something happened that an operator may want to know.
pub(crate) fn say(text: String) {
    send(Line::Out(text));
}

/// Something is not as it should be.
pub(crate) fn warn(text: String) {
    send(Line::Err(text));
}

fn send(line: Line) {
    if LINES.get().is_some_and(|lines| lines.try_send(line).is_err()) {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}
