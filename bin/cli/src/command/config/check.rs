//! `calisto config check`: whether the daemon would start on a file.

use std::path::PathBuf;

use clap::Args;
use config::{Config, ConfigError, Places};

use crate::failure::Failure;
use crate::findings::{Findings, Line};
use crate::output;

/// Check a configuration file without starting anything: syntax, keys, values, and whether the
/// interfaces, queues, addresses, CPUs and users that it names are on this machine.
///
/// Prints each finding with its line and what to do. What is wrong keeps the daemon from starting:
/// the exit code is 1. What is doubtful does not.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    calisto config check /etc/calisto/calisto.toml && systemctl restart calisto\n  \
    calisto config check --elsewhere fleet.toml           written here, meant for another machine\n  \
    calisto config check -j calisto.toml | jq .findings   for a script")]
pub(crate) struct Check {
    /// The file.
    file: PathBuf,
    /// Do not ask this machine for interfaces, addresses, CPUs and users: the file is for another.
    #[arg(long)]
    elsewhere: bool,
}

impl Check {
    pub(crate) fn run(&self, json: bool) -> Result<(), Failure> {
        let shown = self.file.display().to_string();
        let text = sys::regular_file::read_text(&self.file, config::FILE_BYTES_MAX)
            .map_err(|error| Failure::new(format!("cannot read {shown}: {error}")))?;
        let findings = Findings { file: Some(shown), lines: self.examine(&text)? };
        output::text(&if json { findings.as_json()? } else { findings.as_text() })?;
        findings.verdict()
    }

    fn examine(&self, text: &str) -> Result<Vec<Line>, Failure> {
        let config = match Config::examine(text) {
            Ok(config) => config,
            Err(wrong) => return Ok(wrong.iter().map(unreadable).collect()),
        };
        let machine = match self.elsewhere {
            true => None,
            false => Some(daemon::Machine::here().map_err(Failure::new)?),
        };
        let places = Places::of(text);
        let found = daemon::check(&config, machine.as_ref());
        Ok(found.into_iter().map(|finding| Line::new(finding, Some(&places))).collect())
    }
}

fn unreadable(error: &ConfigError) -> Line {
    Line {
        severity: daemon::Severity::Wrong.name(),
        line: error.line(),
        key: error.key().map(str::to_owned),
        says: error.says().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, elsewhere: bool) -> Vec<Line> {
        Check { file: "x".into(), elsewhere }.examine(text).expect("the kernel tells")
    }

    #[test]
    fn each_thing_that_is_wrong_has_its_line() {
        let found = lines("prots = []\n\n[steer]\ngroups = 1000\n", true);
        let at: Vec<_> = found.iter().map(|line| (line.line, line.key.as_deref())).collect();
        assert_eq!(at, [(Some(1), Some("prots")), (Some(4), Some("steer.groups"))]);
        let [syntax] = &lines("ports = [\n", true)[..] else { panic!("one thing is wrong") };
        assert!(syntax.says.contains("TOML") && syntax.key.is_none(), "{syntax:?}");
    }

    #[test]
    fn an_interface_that_is_not_here_is_wrong_here_and_fine_elsewhere() {
        let text = "ports = [\n  \"xdp:no-such-if0\",\n]\n";
        let [line] = &lines(text, false)[..] else { panic!("one thing is wrong") };
        assert_eq!((line.line, line.severity), (Some(2), "wrong"));
        assert!(line.says.contains("no-such-if0"), "{line:?}");
        assert_eq!(lines(text, true), []);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let check = Check { file: "/nowhere/x.toml".into(), elsewhere: false };
        let failure = check.run(false).expect_err("it is not there").to_string();
        assert!(failure.contains("cannot read /nowhere/x.toml"), "{failure}");
    }
}
