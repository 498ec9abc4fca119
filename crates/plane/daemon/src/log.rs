//! Lines for whoever reads the daemon's output: written by a thread of their own.
//!
//! A reader that is slow, or gone, must not hold up the data loop or end it: lines wait in a
//! bounded queue, and what does not fit is lost and counted in the next line. The same message is
//! written some times a second at most, and of the rest how many there were. Each line has the time
//! (RFC 3339, UTC) and a level, and is one line whatever names are in it. Only the first line of
//! standard output has neither, so that a script that waits for `ready: PATH` can compare it.

mod repeats;

use std::io::Write;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sys::clock;

use self::repeats::{Fate, Repeats};
use crate::confinement::{self, Role};

/// Lines that may wait.
const LINES_MAX: usize = 256;

/// Characters of a line, at most.
const LINE_CHARS_MAX: usize = 2000;

/// While something was left out, whether it may be told is looked at this often.
const TELL_EVERY: Duration = Duration::from_secs(1);

static LINES: OnceLock<SyncSender<Line>> = OnceLock::new();
static LOST: AtomicU64 = AtomicU64::new(0);
static REPEATS: Mutex<Repeats> = Mutex::new(Repeats::new());

enum Line {
    /// To standard output, as it is.
    Ready(String),
    /// To standard output.
    Info(SystemTime, String),
    /// To standard error.
    Warning(SystemTime, String),
    /// Something was left out, and is to be told.
    LeftOut,
}

/// Starts the writing thread. Lines before this, and lines of tests, are lost.
pub(crate) fn start() -> std::io::Result<()> {
    let (sender, lines) = sync_channel(LINES_MAX);
    std::thread::Builder::new().name("log".to_owned()).spawn(move || {
        // It can tell nobody but by its own lines, and ends the daemon by a flag.
        if !confinement::is_entered(Role::Log) {
            return;
        }
        write_all(&lines);
    })?;
    let _ = LINES.set(sender);
    Ok(())
}

fn write_all(lines: &Receiver<Line>) {
    loop {
        let line = match with_repeats(|repeats| repeats.is_owing()) {
            true => lines.recv_timeout(TELL_EVERY),
            false => lines.recv().map_err(RecvTimeoutError::from),
        };
        let lost = LOST.swap(0, Ordering::Relaxed);
        if lost > 0 {
            warned(SystemTime::now(), &format!("{lost} lines were lost here"));
        }
        for told in with_repeats(|repeats| repeats.owed(clock::now())) {
            warned(SystemTime::now(), &told);
        }
        match line {
            Ok(Line::Ready(text)) => _ = writeln!(std::io::stdout(), "{text}"),
            Ok(Line::Info(at, text)) => {
                _ = std::io::stdout().write_all(written(at, "info", &text).as_bytes());
            }
            Ok(Line::Warning(at, text)) => warned(at, &text),
            Ok(Line::LeftOut) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// To standard error, whose reader may be gone.
fn warned(at: SystemTime, text: &str) {
    let _ = std::io::stderr().write_all(written(at, "warning", text).as_bytes());
}

/// The daemon can be asked at `admin_socket` from now on, and packets flow.
pub(crate) fn ready(admin_socket: &str) {
    send(Line::Ready(format!("ready: {admin_socket}")));
}

/// Something happened that an operator may want to know.
#[track_caller]
pub(crate) fn say(text: String) {
    send_unless_repeated(Location::caller(), text, Line::Info);
}

/// The same of which the caller itself bounds how often it comes.
pub(crate) fn say_each(text: String) {
    send(Line::Info(SystemTime::now(), text));
}

/// Something is not as it should be.
#[track_caller]
pub(crate) fn warn(text: String) {
    send_unless_repeated(Location::caller(), text, Line::Warning);
}

fn send_unless_repeated(
    place: &Location<'static>,
    text: String,
    line: fn(SystemTime, String) -> Line,
) {
    match with_repeats(|repeats| repeats.hear(place, &text, clock::now())) {
        Fate::Said => send(line(SystemTime::now(), text)),
        // Where there is no room for it, the thread is not asleep.
        Fate::FirstLeftOut => _ = LINES.get().map(|lines| lines.try_send(Line::LeftOut)),
        Fate::LeftOut => {}
    }
}

/// Held for the time of a look-up, and never on the way of a packet: whatever has something to say
/// has made its sentence before.
fn with_repeats<T>(act: impl FnOnce(&mut Repeats) -> T) -> T {
    let mut repeats = REPEATS.lock().unwrap_or_else(PoisonError::into_inner);
    act(&mut repeats)
}

fn send(line: Line) {
    if LINES.get().is_some_and(|lines| lines.try_send(line).is_err()) {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

fn written(at: SystemTime, level: &str, text: &str) -> String {
    let time = rfc3339(at.duration_since(UNIX_EPOCH).unwrap_or_default());
    format!("{time} {level}: {}\n", base::printable(text, LINE_CHARS_MAX))
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
        assert_eq!(written(at, "info", "x\ny"), "2026-11-23T08:47:16.007Z info: x\\ny\n");
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
