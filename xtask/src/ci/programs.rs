//! The test programs that cargo has built: which there are, and running them in lanes.
//!
//! `cargo test` runs one after another. Each ends with its longest test alone: half of the
//! processors would be idle.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;

use super::command::{say, stream};
use super::stats::{Outcome, Stats};

/// One program of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TestProgram {
    /// As `cargo test` names it: the file that it begins with, in its package.
    pub(super) name: String,
    pub(super) file: PathBuf,
    /// Of its package: tests find their files from there.
    pub(super) dir: PathBuf,
    pub(super) environment: Vec<(&'static str, OsString)>,
}

impl TestProgram {
    /// What a line of `cargo test --no-run --message-format json` says of one, if it does.
    pub(super) fn from_message(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_test = message["profile"]["test"].as_bool()?;
        let file = PathBuf::from(message["executable"].as_str()?);
        let dir = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        let source = Path::new(message["target"]["src_path"].as_str()?);
        let package = dir.file_name()?.to_string_lossy().into_owned();
        let name = source.strip_prefix(&dir).unwrap_or(source).display();
        let name = format!("{package} {name}");
        is_test.then(|| Self { name, file, dir, environment: Vec::new() })
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        // As cargo does.
        command.current_dir(&self.dir).env("CARGO_MANIFEST_DIR", &self.dir);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A test that failed, and the program that it is in.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) program: TestProgram,
    pub(super) test: String,
}

/// How the programs of a lane run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// What they print is passed on line by line.
    Live,
    /// What each has printed is passed on when it ends.
    Together,
}

/// Programs that run one after another.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) programs: Vec<TestProgram>,
    /// Of each program, if not as many as the caller has said.
    pub(super) threads: Option<usize>,
    pub(super) way: Way,
    /// Of each program: which of its tests, for example.
    pub(super) arguments: &'static [&'static str],
}

impl Lane {
    fn command(&self, program: &TestProgram) -> Command {
        let mut command = program.command();
        command.args(self.arguments);
        if let Some(threads) = self.threads {
            command.env("RUST_TEST_THREADS", threads.to_string());
        }
        command
    }
}

/// Runs the lanes side by side, and says which tests failed. A program that prints nothing for as
/// long as `silence` is ended.
pub(super) fn run(
    lanes: [Lane; 2],
    silence: Duration,
    stats: &mut Stats,
    out: &mut (impl Write + Send),
) -> Vec<Failed> {
    let (stats, out, failed) = (Mutex::new(stats), Mutex::new(out), Mutex::new(Vec::new()));
    let run_lane = |lane: Lane| {
        let mut out = Shared(&out);
        for program in &lane.programs {
            let (mut tests, mut text) = (Stats::default(), Vec::new());
            let first = format!("     Running {}", program.name);
            let command = lane.command(program);
            let read = |line: &str| tests.read(line);
            let outcome = match lane.way {
                Way::Live => {
                    say(&mut out, &first);
                    stream(command, silence, &mut out, read)
                }
                Way::Together => {
                    say(&mut text, &first);
                    stream(command, silence, &mut text, read)
                }
            };
            if outcome == Outcome::Failure {
                let failed_of = |test: &str| Failed { program: program.clone(), test: test.into() };
                failed.lock().expect("no lane panics").extend(tests.failed_tests().map(failed_of));
            }
            tests.end_program(&program.name, outcome);
            // A reader that has gone away must not stop the run: the exit code still tells.
            let _gone = out.write_all(&text).and_then(|()| out.flush());
            stats.lock().expect("no lane panics").add(tests);
        }
    };
    let run_lane = &run_lane;
    std::thread::scope(|scope| {
        for lane in lanes {
            scope.spawn(move || run_lane(lane));
        }
    });
    failed.into_inner().expect("no lane panics")
}

/// What both lanes print to: each of their writes stays whole.
struct Shared<'a, W>(&'a Mutex<W>);

impl<W: Write> Write for Shared<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no lane panics").write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.lock().expect("no lane panics").flush()
    }
}

#[cfg(test)]
mod tests;
