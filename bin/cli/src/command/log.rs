//! `calisto log`: how urgent an event has to be to be logged, now.

use admin::{Command, LogLevel, ReplyBody};
use clap::Args;

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
    calisto log debug               everything\n  \
    calisto log sockets debug       of one target")]
pub(crate) struct Log {
    /// A level for all targets, or a target and its level.
    #[arg(value_name = "[TARGET] LEVEL", num_args = 0..=2)]
    words: Vec<String>,
    #[command(flatten)]
    admin: Admin,
}

impl Log {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let daemon = Daemon::at(&self.admin.socket);
        match daemon.ask(command(&self.words))? {
            body @ ReplyBody::Log { .. } if json => output::json(&body),
            ReplyBody::Log { format, levels } => output::text(&said(&format, &levels)),
            other => Err(daemon.unexpected(&other)),
        }
    }
}

fn command(words: &[String]) -> Command {
    let (target, level) = match words {
        [] => (None, None),
        [level] => (None, Some(level.clone())),
        [target, level, ..] => (Some(target.clone()), Some(level.clone())),
    };
    Command::Log { target, level }
}

fn said(format: &str, levels: &[LogLevel]) -> String {
    let rows = levels.iter().map(|LogLevel { target, level }| format!("{target:<8} {level}\n"));
    rows.chain([format!("format   {format}\n")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_is_a_level_and_two_are_a_target_and_its_level() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let log = |target: Option<&str>, level: Option<&str>| Command::Log {
            target: target.map(str::to_owned),
            level: level.map(str::to_owned),
        };
        assert_eq!(command(&words("")), log(None, None));
        assert_eq!(command(&words("debug")), log(None, Some("debug")));
        assert_eq!(command(&words("apps warn")), log(Some("apps"), Some("warn")));
    }

    #[test]
    fn each_target_is_a_line() {
        let levels = [LogLevel { target: "apps".to_owned(), level: "warn".to_owned() }];
        assert_eq!(said("json", &levels), "apps     warn\nformat   json\n");
    }
}
