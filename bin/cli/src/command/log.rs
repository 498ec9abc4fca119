//! `calisto log`: how urgent an event has to be to be logged, now.

use admin::{Command, ReplyBody};
use clap::Args;
use config::LogLevel;

use crate::daemon::Daemon;
use crate::failure::Failure;
use crate::output;
use crate::target::Admin;

/// Show or set how urgent an event has to be to be logged, while the daemon runs.
///
/// What is set stays until the daemon ends, or `calisto reload` finds another level in its file.
/// Targets are daemon, admin, config, ports, workers, apps and sockets; levels are off, error,
/// warn, info and debug, each with those before it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto log                     what is logged now\n  \
    calisto log sockets             what is logged of one target\n  \
    calisto log debug               from now on everything\n  \
    calisto log sockets debug       of one target everything")]
pub(crate) struct Log {
    /// A level for all targets; a target; or a target and its level.
    #[arg(value_name = "TARGET|LEVEL", num_args = 0..=2)]
    words: Vec<String>,
    #[command(flatten)]
    admin: Admin,
}

impl Log {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let daemon = Daemon::at(&self.admin.socket);
        match daemon.ask(command(&self.words)?)? {
            body @ ReplyBody::Log { .. } if json => output::json(&body),
            ReplyBody::Log { format, levels } => output::text(&said(&format, &levels)),
            other => Err(daemon.unexpected(&other)),
        }
    }
}

fn command(words: &[String]) -> Result<Command, Failure> {
    let (target, level) = match words {
        [] => (None, None),
        [target] if is_target(target) => (Some(target), None),
        [level] => (None, Some(level)),
        [target, level, ..] => (Some(target), Some(level)),
    };
    if let Some(wrong) = target.filter(|target| !is_target(target)) {
        let targets = config::Log::default().targets().map(|(target, _)| target);
        return Err(unknown("target", wrong, &targets));
    }
    if let Some(wrong) = level.filter(|level| LogLevel::by_name(level).is_none()) {
        return Err(unknown("level", wrong, &LogLevel::ALL.map(LogLevel::name)));
    }
    Ok(Command::Log { target: target.cloned(), level: level.cloned() })
}

fn is_target(word: &str) -> bool {
    config::Log::default().targets().iter().any(|(target, _)| *target == word)
}

fn unknown(what: &str, word: &str, all: &[&str]) -> Failure {
    let near = config::nearest(word, all.iter().copied());
    let meant = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
    Failure::usage(format!("there is no {what} {word:?}: {what}s are {}{meant}", all.join(", ")))
}

fn said(format: &str, levels: &[admin::LogLevel]) -> String {
    let rows =
        levels.iter().map(|admin::LogLevel { target, level }| format!("{target:<8} {level}\n"));
    rows.chain([format!("format   {format}\n")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_is_a_level_or_a_target_and_two_are_a_target_and_its_level() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let log = |target: Option<&str>, level: Option<&str>| {
            Ok(Command::Log { target: target.map(str::to_owned), level: level.map(str::to_owned) })
        };
        assert_eq!(command(&words("")), log(None, None));
        assert_eq!(command(&words("debug")), log(None, Some("debug")));
        assert_eq!(command(&words("sockets")), log(Some("sockets"), None));
        assert_eq!(command(&words("apps warn")), log(Some("apps"), Some("warn")));
        for (line, says) in [("loud", "there is no level"), ("prots warn", "\"ports\"?")] {
            let failure = command(&words(line)).expect_err(line);
            assert_eq!(failure.exit_code(), 2, "{failure}");
            assert!(failure.to_string().contains(says), "{failure}");
        }
    }

    #[test]
    fn each_target_is_a_line() {
        let levels = [admin::LogLevel { target: "apps".to_owned(), level: "warn".to_owned() }];
        assert_eq!(said("json", &levels), "apps     warn\nformat   json\n");
    }
}
