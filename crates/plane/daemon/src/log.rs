//! Lines for whoever reads the daemon's output: written by a thread of their own.
//!
//! A reader that is slow, or gone, must not hold up the data loop or end it: lines wait in a
//! bounded queue, and what does not fit is lost and counted in the next line. Each line has the
//! time (RFC 3339, UTC) and a level. Only the first line of standard output has neither, so that a
//! script that waits for `ready: PATH` can compare it.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::confinement::{self, Role};

/// Lines that may wait.
const LINES_MAX: usize = 256;

static LINES: OnceLock<SyncSender<Line>> = OnceLock::new();
static LOST: AtomicU64 = AtomicU64::new(0);

enum Line {
    /// To standard output, as it is.
    Ready(String),
    /// To standard output.
    Info(SystemTime, String),
    /// To standard error.
    Warning(SystemTime, String),
}

/// Starts the writing thread. Lines before this, and lines of tests, are lost.
pub(crate) fn start() -> std::io::Result<()> {
    let (sender, lines) = sync_channel(LINES_MAX);
    std::thread::Builder::new().name("log".to_owned()).spawn(move || {
        // It can tell nobody but by its own lines, and ends the daemon by a flag.
        if !confinement::is_entered(Role::Log) {
            return;
        }
        for line in lines {
            let lost = LOST.swap(0, Ordering::Relaxed);
            if lost > 0 {
                let text = format!("{lost} lines were lost here");
                let line = written(SystemTime::now(), "warning", &text);
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
            let _ = match line {
                Line::Ready(text) => writeln!(std::io::stdout(), "{text}"),
                Line::Info(at, text) => {
                    std::io::stdout().write_all(written(at, "info", &text).as_bytes())
                }
                Line::Warning(at, text) => {
                    std::io::stderr().write_all(written(at, "warning", &text).as_bytes())
                }
            };
        }
    })?;
    let _ = LINES.set(sender);
    Ok(())
}

/// The daemon can be asked at `admin_socket` from now on, and packets flow.
pub(crate) fn ready(admin_socket: &str) {
    send(Line::Ready(format!("ready: {admin_socket}")));
}

/// Something happened that an operator may want to know.
pub(crate) fn say(text: String) {
    send(Line::Info(SystemTime::now(), text));
}

/// Something is not as it should be.
pub(crate) fn warn(text: String) {
    send(Line::Warning(SystemTime::now(), text));
}

fn send(line: Line) {
    if LINES.get().is_some_and(|lines| lines.try_send(line).is_err()) {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

fn written(at: SystemTime, level: &str, text: &str) -> String {
    format!("{} {level}: {text}\n", rfc3339(at.duration_since(UNIX_EPOCH).unwrap_or_default()))
}

/// A moment so long after 1970, as RFC 3339 section 5.6 writes it: UTC, milliseconds.
fn rfc3339(since_1970: Duration) -> String {
    const DAY_S: u64 = 86_400;
    let (mut days, second) = (since_1970.as_secs() / DAY_S, since_1970.as_secs() % DAY_S);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    // The calendar is the same again after 400 years, so that no clock makes this long.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!(
        "{year:04}-{month:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        days + 1,
        second / 3600,
        second / 60 % 60,
        second % 60,
        since_1970.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_time_in_utc_and_its_level() {
        let at = UNIX_EPOCH + Duration::from_millis(1_795_423_636_007);
        assert_eq!(written(at, "info", "x"), "2026-11-23T08:47:16.007Z info: x\n");
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        // As date(1) has them.
        for (seconds, day) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (951_868_800, "2000-03-01T00:00:00"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (1_798_761_599, "2026-12-31T23:59:59"),
            (16_725_225_600, "2500-01-01T00:00:00"),
        ] {
            assert_eq!(rfc3339(Duration::from_secs(seconds)), format!("{day}.000Z"));
        }
    }
}
