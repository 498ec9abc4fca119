//! How urgent an event of each target has to be, now: one word each, which any thread may set.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use admin::ReplyBody;
use config::{Log, LogFormat, LogLevel};
use tracing::Level;

use super::targets::{ADMIN, APPS, CONFIG, DAEMON, PORTS, SOCKETS, WORKERS};

const TARGETS: [&str; 7] = [DAEMON, ADMIN, CONFIG, PORTS, WORKERS, APPS, SOCKETS];

/// Of each of [`TARGETS`], a [`LogLevel`].
static LEVELS: [AtomicU8; TARGETS.len()] =
    [const { AtomicU8::new(LogLevel::Info as u8) }; TARGETS.len()];

static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// How events are written, until the daemon ends.
pub(super) fn set_format(format: LogFormat) {
    let _ = FORMAT.set(format);
}

/// Sets what a configuration says.
pub(crate) fn set_all(log: &Log) {
    for (target, level) in log.targets() {
        set(target, level.unwrap_or(log.level));
    }
}

fn set(target: &str, level: LogLevel) {
    if let Some(number) = number_of(target) {
        LEVELS[number].store(level as u8, Ordering::Relaxed);
    }
}

fn number_of(target: &str) -> Option<usize> {
    TARGETS.iter().position(|name| *name == target)
}

fn level_of(number: usize) -> LogLevel {
    let stored = LEVELS[number].load(Ordering::Relaxed);
    LogLevel::ALL.into_iter().find(|level| *level as u8 == stored).unwrap_or(LogLevel::Info)
}

/// Whether an event is to be written.
pub(super) fn is_enabled(target: &str, level: Level) -> bool {
    let urgency = match level {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        Level::DEBUG => LogLevel::Debug,
        _ => return false,
    };
    number_of(target).is_some_and(|number| urgency <= level_of(number))
}

/// Answers `log`: sets a level, if one is asked for, and says all of them.
pub(crate) fn answer(target: Option<&str>, level: Option<&str>) -> ReplyBody {
    let numbers: Vec<usize> = match target {
        None => (0..TARGETS.len()).collect(),
        Some(target) => match number_of(target) {
            Some(number) => vec![number],
            None => {
                let near = config::nearest(target, TARGETS);
                return error(unknown("log target", target, near, &TARGETS));
            }
        },
    };
    if let Some(level) = level {
        let names = LogLevel::ALL.map(LogLevel::name);
        let Some(known) = LogLevel::by_name(level) else {
            return error(unknown("level", level, config::nearest(level, names), &names));
        };
        numbers.iter().for_each(|&number| set(TARGETS[number], known));
    }
    let format = FORMAT.get().copied().unwrap_or(LogFormat::Text).name().to_owned();
    let levels = numbers.iter().map(|&number| admin::LogLevel {
        target: TARGETS[number].to_owned(),
        level: level_of(number).name().to_owned(),
    });
    ReplyBody::Log { format, levels: levels.collect() }
}

fn error(message: String) -> ReplyBody {
    ReplyBody::Error { message }
}

fn unknown(what: &str, said: &str, near: Option<&str>, all: &[&str]) -> String {
    let said = base::printable(said, 64);
    let meant = near.map(|near| format!(" Did you mean {near:?}?")).unwrap_or_default();
    format!("there is no {what} {said:?}: there are {}.{meant}", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_set_for_one_target_or_for_all_and_only_if_there_are_such() {
        let all = Log::default().targets().map(|(target, _)| target);
        assert_eq!(all, TARGETS);
        let wrong = [(Some("prots"), Some("debug"), "\"ports\"?"), (None, Some("loud"), "warn")];
        for (target, level, says) in wrong {
            let ReplyBody::Error { message } = answer(target, level) else {
                panic!("{target:?} {level:?} was taken");
            };
            assert!(message.contains(says), "{message}");
        }
        assert!(is_enabled("ports", Level::INFO) && !is_enabled("ports", Level::DEBUG));
        answer(Some("ports"), Some("debug"));
        assert!(is_enabled("ports", Level::DEBUG) && !is_enabled("apps", Level::DEBUG));
        answer(None, Some("error"));
        assert!(is_enabled("ports", Level::ERROR) && !is_enabled("ports", Level::WARN));
        set_all(&Log { apps: Some(LogLevel::Off), ..Log::default() });
        assert!(is_enabled("ports", Level::INFO) && !is_enabled("apps", Level::ERROR));
        set_all(&Log::default());
    }
}
