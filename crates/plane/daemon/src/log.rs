//! Events for whoever reads the daemon's log: written by a thread of their own.
//!
//! Whatever has something to say says it by the macros of `tracing`, with one of the targets below
//! and with fields. A reader that is slow, or gone, must not hold up the data loop or end it:
//! events wait in a bounded queue, and what does not fit is lost and counted in the next line. The
//! same message is written some times a second at most, and of the rest how many there were. Only
//! the first line of text on standard output has no time and level, so that a script that waits
//! for `ready: PATH` can compare it.

mod event;
mod journal;
mod levels;
mod repeats;
mod subscriber;
mod targets;
mod time;

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use config::{Log, LogFormat};
use sys::clock;
use tracing::Level;

use self::event::Event;
use self::journal::{Journal, Sent};
use self::repeats::{Fate, Repeats};
use self::subscriber::Subscriber;
use crate::confinement::{self, Role};

pub(crate) use self::levels::{answer, set_all};
pub(crate) use self::targets::{ADMIN, APPS, BOUNDED, CONFIG, DAEMON, PORTS, SOCKETS, WORKERS};

/// Events that may wait.
const EVENTS_MAX: usize = 256;

/// While something was left out, whether it may be told is looked at this often.
const TELL_EVERY: Duration = Duration::from_secs(1);

static ENTRIES: OnceLock<SyncSender<Entry>> = OnceLock::new();
static LOST: AtomicU64 = AtomicU64::new(0);
static REPEATS: Mutex<Repeats> = Mutex::new(Repeats::new());

enum Entry {
    /// The daemon can be asked at this path.
    Ready(String),
    Event(Event),
    /// Something was left out, and is to be told.
    LeftOut,
}

/// Starts the writing thread. Events before this, and events of tests, are lost.
pub(crate) fn start(log: &Log) -> std::io::Result<()> {
    set_all(log);
    let (sender, entries) = sync_channel(EVENTS_MAX);
    let format = log.format;
    let role = match format {
        LogFormat::Journald => Role::Journal,
        LogFormat::Text | LogFormat::Json => Role::Log,
    };
    let journal = match format {
        LogFormat::Journald => Some(Journal::of_systemd()?),
        LogFormat::Text | LogFormat::Json => None,
    };
    std::thread::Builder::new().name("log".to_owned()).spawn(move || {
        // It can tell nobody but by its own lines, and ends the daemon by a flag.
        if !confinement::is_entered(role) {
            return;
        }
        Writer { format, journal }.write_all(&entries);
    })?;
    levels::set_format(format);
    let _ = ENTRIES.set(sender);
    // Another has been there before in tests only.
    let _ = tracing::subscriber::set_global_default(Subscriber::new(hear));
    Ok(())
}

/// The daemon can be asked at `admin_socket` from now on, and packets flow.
pub(crate) fn ready(admin_socket: &str) {
    send(Entry::Ready(admin_socket.to_owned()));
}

/// An event that is to be written, unless its like has been often enough.
fn hear(event: Event, is_bounded: bool) {
    if is_bounded {
        return send(Entry::Event(event));
    }
    let text = event.sentence();
    match with_repeats(|repeats| repeats.hear(event.place, &text, clock::now())) {
        Fate::Said => send(Entry::Event(event)),
        // Where there is no room for it, the thread is not asleep.
        Fate::FirstLeftOut => _ = ENTRIES.get().map(|entries| entries.try_send(Entry::LeftOut)),
        Fate::LeftOut => {}
    }
}

/// Held for the time of a look-up, and never on the way of a packet: whatever has something to say
/// has made its sentence before.
fn with_repeats<T>(act: impl FnOnce(&mut Repeats) -> T) -> T {
    let mut repeats = REPEATS.lock().unwrap_or_else(PoisonError::into_inner);
    act(&mut repeats)
}

fn send(entry: Entry) {
    if ENTRIES.get().is_some_and(|entries| entries.try_send(entry).is_err()) {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

struct Writer {
    format: LogFormat,
    journal: Option<Journal>,
}

impl Writer {
    fn write_all(&self, entries: &Receiver<Entry>) {
        loop {
            let entry = match with_repeats(|repeats| repeats.is_owing()) {
                true => entries.recv_timeout(TELL_EVERY),
                false => entries.recv().map_err(RecvTimeoutError::from),
            };
            let lost = LOST.swap(0, Ordering::Relaxed);
            if lost > 0 {
                let event = Event::new(Level::WARN, DAEMON, "lines were lost here".to_owned());
                self.write(&event.with("count", lost));
            }
            for told in with_repeats(|repeats| repeats.owed(clock::now())) {
                self.write(&told);
            }
            match entry {
                Ok(Entry::Ready(path)) => self.write_ready(path),
                Ok(Entry::Event(event)) => self.write(&event),
                Ok(Entry::LeftOut) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn write_ready(&self, path: String) {
        let event = Event::new(Level::INFO, DAEMON, "ready".to_owned());
        match self.format {
            LogFormat::Text => _ = writeln!(std::io::stdout(), "ready: {path}"),
            LogFormat::Json => self.write(&event.with("admin_socket", path)),
            LogFormat::Journald => {
                let _ = writeln!(std::io::stdout(), "ready: {path}");
                self.write(&event.with("admin_socket", path));
            }
        }
    }

    /// Writes one, to a reader that may be gone.
    fn write(&self, event: &Event) {
        match (self.format, &self.journal) {
            (LogFormat::Json, _) => _ = std::io::stdout().write_all(event.json().as_bytes()),
            (LogFormat::Journald, Some(journal)) => match journal.send(event) {
                Sent::Taken => {}
                Sent::Full => _ = LOST.fetch_add(1, Ordering::Relaxed),
                Sent::Nobody => write_text(event),
            },
            _ => write_text(event),
        }
    }
}

fn write_text(event: &Event) {
    let text = event.text();
    let _ = match event.place.level {
        Level::ERROR | Level::WARN => std::io::stderr().write_all(text.as_bytes()),
        _ => std::io::stdout().write_all(text.as_bytes()),
    };
}
