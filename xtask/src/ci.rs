//! `cargo xtask ci`: every stage that CI runs, one after the other, and one last line of numbers.
//!
//! A stage that fails does not stop the next one: a run shows everything that is broken.

mod stats;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::book;
use crate::rules;
use crate::tidy;
use crate::workspace::{Workspace, cargo};
use stats::{Outcome, Stats};

/// How much of the checks to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    /// What CI runs.
    Everything,
    /// Without loom models and namespace tests.
    Quick,
}

/// Where the namespace tests live.
const NAMESPACE_TESTS: &str = "tests";

/// Names the folder of google/packetdrill's scripts, which `packetdrill`'s suite test plays.
const PACKETDRILL: &str = "PKT_SCRIPTS";

/// Where they are not at hand: that they were not played, and how they can be. Their licence keeps
/// them out of the project.
const WITHOUT_PACKETDRILL: &str = "google/packetdrill's own scripts did not run. To run them: \
     git clone https://github.com/google/packetdrill ../packetdrill && \
     PKT_SCRIPTS=\"$PWD/../packetdrill/gtests/net\" script/test";

/// One line of the plan.
struct Stage {
    name: &'static str,
    steps: Vec<Step>,
}

/// What a stage does.
enum Step {
    /// A command whose success is one check.
    Check(Command),
    /// A command that must succeed before the next step can; it counts only when it fails.
    Prepare(Command),
    /// A command that prints `test result:` lines.
    Tests(Command),
    /// The project rules, in this process.
    Tidy,
    /// The documents, in this process.
    Book,
    /// Nothing to run, and why that is a failure.
    Refuse(&'static str),
}

/// Runs the stages and prints the result; whether everything passed.
pub(crate) fn run(workspace: &Workspace, extent: Extent) -> bool {
    let mut total = Stats::default();
    let mut summary = Vec::new();
    for stage in plan(workspace, extent, is_root()) {
        println!("\n=== {}", stage.name);
        let begun = Instant::now();
        let mut stats = Stats::default();
        for step in stage.steps {
            if !take(step, workspace, &mut stats, &mut std::io::stdout()) {
                break;
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        let Stats { passed, failed, .. } = &stats;
        let line = format!("{:<12} {seconds:>7.1} s  {passed} passed, {failed} failed", stage.name);
        println!("=== {line}");
        summary.push(line);
        total.add(stats);
    }
    println!("\n=== summary");
    for line in summary.iter().chain(&total.names) {
        println!("{line}");
    }
    for line in last_words(&total, std::env::var_os(PACKETDRILL).as_deref()) {
        println!("{line}");
    }
    total.failed == 0
}

/// What ends a run: which suite was not at hand, and then always the numbers.
fn last_words(total: &Stats, packetdrill: Option<&OsStr>) -> Vec<String> {
    let missing = packetdrill.is_none().then(|| WITHOUT_PACKETDRILL.to_owned());
    let numbers = format!("{} passed, {} failed", total.passed, total.failed);
    missing.into_iter().chain([numbers]).collect()
}

fn plan(workspace: &Workspace, extent: Extent, is_root: bool) -> Vec<Stage> {
    let in_cargo = |arguments: &[&str]| {
        let mut command = cargo();
        command.current_dir(&workspace.root).args(arguments);
        command
    };
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    // What `script/demo` builds of the laboratory.
    let demo = ["clippy", "-p", "calisto-lab", "--no-default-features", "--", "-D", "warnings"];
    let mut stages = vec![
        stage("fmt", [Step::Check(in_cargo(&["fmt", "--all", "--check"]))]),
        stage("clippy", [Step::Check(in_cargo(&clippy)), Step::Check(in_cargo(&demo))]),
        stage("tidy", [Step::Tidy]),
        stage("book", [Step::Book]),
    ];
    let namespaces = workspace.package_in(NAMESPACE_TESTS);
    let all_tests = ["test", "--workspace", "--no-fail-fast"];
    if extent == Extent::Quick || !is_root {
        let mut tests = in_cargo(&all_tests);
        if let Some(package) = namespaces {
            tests.args(["--exclude", &package.name]);
        }
        stages.push(stage("tests", [Step::Tests(tests)]));
    } else {
        // One selection of packages for programs and tests: with another, cargo would choose other
        // features of what they depend on, and build all of it again.
        let everything = in_cargo(&["build", "--workspace", "--all-targets"]);
        stages.push(stage("build", [Step::Prepare(everything)]));
        // Namespace tests among them: these run the programs as a user does.
        let mut tests = in_cargo(&all_tests);
        if std::env::var_os("RUST_TEST_THREADS").is_none() {
            // Tests of the whole system wait for others most of their time.
            let threads = 1 + std::thread::available_parallelism().map_or(1, usize::from);
            tests.env("RUST_TEST_THREADS", threads.to_string());
        }
        stages.push(stage("tests", [Step::Tests(tests)]));
    }
    if extent == Extent::Quick {
        return stages;
    }
    let loom = rules::LOOM_CRATES.iter().map(|name| {
        let mut models = in_cargo(&["test", "--release", "--lib", "-p", name, "loom"]);
        // A directory of its own: the flag would rebuild every crate, there and back.
        models.env("CARGO_TARGET_DIR", workspace.target_dir.join("loom"));
        models.env("RUSTFLAGS", with_loom(std::env::var("RUSTFLAGS").ok().as_deref()));
        if std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
            // Three preemptions find nearly every bug (CHESS, PLDI 2007) and keep it to minutes.
            models.env("LOOM_MAX_PREEMPTIONS", "3");
        }
        Step::Tests(models)
    });
    stages.push(stage("loom", loom));
    if namespaces.is_some() && !is_root {
        let reason = "namespace tests need root: run `script/test`, which says how";
        stages.push(stage("namespaces", [Step::Refuse(reason)]));
    }
    stages
}

fn stage(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Stage {
    Stage { name, steps: steps.into_iter().collect() }
}

/// Takes one step; whether the next one makes sense.
fn take(step: Step, workspace: &Workspace, stats: &mut Stats, out: &mut impl Write) -> bool {
    match step {
        Step::Check(command) => {
            let name = text_of(&command);
            let outcome = stream(command, out, |_| ());
            stats.check(&name, outcome);
        }
        Step::Prepare(command) => {
            let name = text_of(&command);
            let outcome = stream(command, out, |_| ());
            if outcome != Outcome::Success {
                stats.check(&name, outcome);
                return false;
            }
        }
        Step::Tests(command) => {
            let name = text_of(&command);
            let mut tests = Stats::default();
            let outcome = stream(command, out, |line| tests.read(line));
            tests.end(&name, outcome);
            stats.add(tests);
        }
        Step::Tidy => stats.check("cargo xtask tidy", outcome_of(tidy::run(workspace))),
        Step::Book => stats.check("cargo xtask book", outcome_of(book::run(workspace))),
        Step::Refuse(reason) => {
            say(out, reason);
            stats.check(reason, Outcome::Failure);
        }
    }
    true
}

fn outcome_of(is_right: bool) -> Outcome {
    if is_right { Outcome::Success } else { Outcome::Failure }
}

/// Runs `command` with its output passed on to `out` as it comes, each line also to `read`.
fn stream(mut command: Command, out: &mut impl Write, mut read: impl FnMut(&str)) -> Outcome {
    let name = text_of(&command);
    say(out, &format!("$ {name}"));
    if std::io::stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = match command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            say(out, &format!("cannot run `{name}`: {error}"));
            return Outcome::Failure;
        }
    };
    if let Some(output) = child.stdout.take() {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        // Bytes, not text: a test may print anything.
        while output.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            pass_on(out, &line);
            read(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }
    match child.wait() {
        Ok(status) if status.success() => Outcome::Success,
        Ok(status) => {
            say(out, &format!("`{name}`: {status}"));
            Outcome::Failure
        }
        Err(error) => {
            say(out, &format!("cannot wait for `{name}`: {error}"));
            Outcome::Failure
        }
    }
}

fn say(out: &mut impl Write, line: &str) {
    pass_on(out, format!("{line}\n").as_bytes());
}

fn pass_on(out: &mut impl Write, bytes: &[u8]) {
    // A reader that has gone away must not stop the run: the exit code still tells.
    let _gone = out.write_all(bytes).and_then(|()| out.flush());
}

/// The command as a person would type it, to run it again alone.
fn text_of(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        let value = value.unwrap_or_default().to_string_lossy();
        words.push(format!("{}='{value}'", name.to_string_lossy()));
    }
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program());
    words.push(program.to_string_lossy().into_owned());
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    words.join(" ")
}

fn with_loom(flags: Option<&str>) -> String {
    let flags = flags.unwrap_or("");
    format!("{flags} --cfg loom").trim_start().to_owned()
}

/// Whether we run as root: /proc/self belongs to the effective user.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

#[cfg(test)]
mod tests;
