//! `cargo xtask ci`: every stage that CI runs, one after the other, and one last line of numbers.
//!
//! A stage that fails does not stop the next one: a run shows everything that is broken.

mod again;
mod command;
mod programs;
mod stats;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::iter;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::book;
use crate::rules;
use crate::tidy;
use crate::workspace::{Workspace, cargo};
use command::{ANY_TIME, SILENCE, say, stream, text_of};
use programs::{Lane, TestProgram, Way};
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

/// Which of the whole system's tests run optimized programs too: programs attach and are served,
/// echo and redis among them, and their connections live through the end and the death of the
/// daemon.
const WITH_OPTIMIZED: [&str; 3] = ["sockets_death::", "sockets_handover::", "sockets_local::"];

/// Builds what they test.
const RELEASE: [&str; 6] = ["build", "--release", "-p", "calistod", "-p", "preload"];

/// Builds the pages of the documents; the first time it builds mdBook, too.
const PAGES: &str = "script/book";

/// What makes `cargo test` build programs and say which.
const WITHOUT_RUN: [&str; 3] = ["--no-run", "--message-format", "json-render-diagnostics"];

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
    /// Test programs.
    Programs(Programs),
    /// The project rules, in this process.
    Tidy,
    /// The documents, in this process.
    Book,
    /// Nothing to run, and why that is a failure.
    Refuse(&'static str),
}

/// Test programs to build and to run.
struct Programs {
    /// Builds them and says which.
    build: Command,
    /// Of each, if not as many as the caller has said.
    threads: Option<usize>,
    /// Which of their tests, if not all.
    tests: &'static [&'static str],
    environment: Vec<(&'static str, OsString)>,
    /// Builds of later stages, for the time that the tests leave processors idle.
    ahead: Vec<Command>,
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
    for line in summary.iter().chain(&total.unstable).chain(&total.names) {
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
    // What `script/demo` builds of the laboratory. With the same packages and targets, nothing but
    // the laboratory is looked at again.
    let demo = [&clippy[..3], &["--no-default-features"], &clippy[3..]].concat();
    let mut stages = vec![
        stage("fmt", [Step::Check(in_cargo(&["fmt", "--all", "--check"]))]),
        stage("clippy", [Step::Check(in_cargo(&clippy)), Step::Check(in_cargo(&demo))]),
        stage("tidy", [Step::Tidy]),
        stage("book", [Step::Book]),
    ];
    let namespaces = workspace.package_in(NAMESPACE_TESTS);
    // One selection of packages for programs and tests: with another, cargo would choose other
    // features of what they depend on, and build all of it again.
    let all_tests = ["test", "--workspace"];
    let mut tests = in_cargo(&all_tests);
    tests.args(WITHOUT_RUN);
    let mut threads = None;
    if extent == Extent::Quick || !is_root {
        if let Some(package) = namespaces {
            tests.args(["--exclude", &package.name]);
        }
    } else {
        // Namespace tests among them: these run the programs as a user does.
        let everything = in_cargo(&["build", "--workspace", "--all-targets"]);
        stages.push(stage("build", [Step::Prepare(everything)]));
        if std::env::var_os("RUST_TEST_THREADS").is_none() {
            // Tests of the whole system wait for others most of their time.
            threads = Some(1 + std::thread::available_parallelism().map_or(1, usize::from));
        }
    }
    let mut examples = in_cargo(&all_tests);
    examples.args(["--no-fail-fast", "--doc"]);
    let ahead = match extent {
        Extent::Everything if is_root => {
            let models = rules::LOOM_CRATES.iter().map(|name| loom(workspace, name, in_cargo));
            let without_run = |mut models: Command| {
                models.arg("--no-run");
                models
            };
            let mdbook = pages(workspace, &["--install"]);
            iter::once(in_cargo(&RELEASE)).chain(models.map(without_run)).chain([mdbook]).collect()
        }
        _ => Vec::new(),
    };
    let tests = Programs { build: tests, threads, tests: &[], environment: Vec::new(), ahead };
    stages.push(stage("tests", [Step::Programs(tests), Step::Tests(examples)]));
    if extent == Extent::Quick {
        return stages;
    }
    if is_root {
        stages.push(stage("optimized", optimized(workspace, threads, in_cargo)));
    }
    let models = rules::LOOM_CRATES.iter().map(|name| {
        let mut models = loom(workspace, name, in_cargo);
        if std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
            // Three preemptions find nearly every bug (CHESS, PLDI 2007) and keep it to minutes.
            models.env("LOOM_MAX_PREEMPTIONS", "3");
        }
        Step::Tests(models)
    });
    stages.push(stage("loom", models));
    stages.push(stage("pages", [Step::Check(pages(workspace, &[]))]));
    if namespaces.is_some() && !is_root {
        let reason = "namespace tests need root: run `script/test`, which says how";
        stages.push(stage("namespaces", [Step::Refuse(reason)]));
    }
    stages
}

/// The documents as mdBook makes pages of them.
fn pages(workspace: &Workspace, arguments: &[&str]) -> Command {
    let mut book = Command::new(workspace.root.join(PAGES));
    book.current_dir(&workspace.root).args(arguments);
    book
}

/// The models of a crate.
fn loom(workspace: &Workspace, name: &str, in_cargo: impl Fn(&[&str]) -> Command) -> Command {
    let mut models = in_cargo(&["test", "--release", "--lib", "-p", name, "loom"]);
    // A directory of its own: the flag would rebuild every crate, there and back.
    models.env("CARGO_TARGET_DIR", workspace.target_dir.join("loom"));
    models.env("RUSTFLAGS", with_loom(std::env::var("RUSTFLAGS").ok().as_deref()));
    models
}

/// The daemon and the library as operators get them, optimized over crates, under the tests of
/// [`WITH_OPTIMIZED`]: some faults show only there, such as a kernel that writes to where the stack
/// holds something else by then.
fn optimized(
    workspace: &Workspace,
    threads: Option<usize>,
    in_cargo: impl Fn(&[&str]) -> Command,
) -> [Step; 2] {
    let folder = workspace.target_dir.join("release");
    let release = in_cargo(&RELEASE);
    let mut build = in_cargo(&["test", "--workspace", "--test", "system"]);
    build.args(WITHOUT_RUN);
    let environment = vec![
        ("CALISTO_PRELOAD", folder.join("libcalisto_preload.so").into()),
        ("TESTED_PROGRAMS", folder.into()),
    ];
    let ahead = Vec::new();
    let tests = Programs { build, threads, tests: &WITH_OPTIMIZED, environment, ahead };
    [Step::Prepare(release), Step::Programs(tests)]
}

/// Every other one, and the rest.
fn alternately(programs: Vec<TestProgram>) -> (Vec<TestProgram>, Vec<TestProgram>) {
    let (odd, even): (Vec<_>, Vec<_>) =
        programs.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
    let only = |all: Vec<(usize, TestProgram)>| all.into_iter().map(|(_, one)| one).collect();
    (only(odd), only(even))
}

fn stage(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Stage {
    Stage { name, steps: steps.into_iter().collect() }
}

/// Takes one step; whether the next one makes sense.
fn take(
    step: Step,
    workspace: &Workspace,
    stats: &mut Stats,
    out: &mut (impl Write + Send),
) -> bool {
    match step {
        Step::Check(command) => {
            let name = text_of(&command);
            let outcome = stream(command, ANY_TIME, out, |_| ());
            stats.check(&name, outcome);
        }
        Step::Prepare(command) => {
            let name = text_of(&command);
            let outcome = stream(command, ANY_TIME, out, |_| ());
            if outcome != Outcome::Success {
                stats.check(&name, outcome);
                return false;
            }
        }
        Step::Tests(command) => {
            let name = text_of(&command);
            let mut tests = Stats::default();
            let outcome = stream(command, SILENCE, out, |line| tests.read(line));
            tests.end(&name, outcome);
            stats.add(tests);
        }
        Step::Programs(programs) => stats.add(run_programs(programs, out)),
        Step::Tidy => stats.check("cargo xtask tidy", outcome_of(tidy::run(workspace))),
        Step::Book => stats.check("cargo xtask book", outcome_of(book::run(workspace))),
        Step::Refuse(reason) => {
            say(out, reason);
            stats.check(reason, Outcome::Failure);
        }
    }
    true
}

/// Builds the programs, runs them, and runs again what failed.
fn run_programs(what: Programs, out: &mut (impl Write + Send)) -> Stats {
    let Programs { build, threads, tests: arguments, environment, ahead } = what;
    let name = text_of(&build);
    say(out, &format!("$ {name}"));
    let mut programs = Vec::new();
    let mut hears = |line: &str| programs.extend(TestProgram::from_message(line));
    let outcome = stream(build, ANY_TIME, &mut std::io::sink(), &mut hears);
    for program in &mut programs {
        program.environment.clone_from(&environment);
    }
    // Those of the whole system alone: beside programs that compute they would wait for
    // processors, and look as if they hung or lost something.
    let of_whole = |program: &TestProgram| program.dir.ends_with(NAMESPACE_TESTS);
    let (whole, crates): (Vec<_>, Vec<_>) = programs.into_iter().partition(of_whole);
    let lane = |programs, way| Lane { programs, threads, way, arguments };
    let mut stats = Stats::default();
    let failed = std::thread::scope(|scope| {
        scope.spawn(|| ahead.iter().for_each(build_when_idle));
        let alone = [lane(whole, Way::Live), lane(Vec::new(), Way::Together)];
        let mut failed = programs::run(alone, SILENCE, &mut stats, out);
        let (odd, even) = alternately(crates);
        let both = [lane(odd, Way::Live), lane(even, Way::Together)];
        failed.extend(programs::run(both, SILENCE, &mut stats, out));
        failed
    });
    stats.end(&name, outcome);
    again::run(&failed, &mut stats, out);
    stats
}

/// Runs a build on what processors have left over. The stage that needs it runs it again and finds
/// it done, or says why it cannot be.
fn build_when_idle(build: &Command) {
    let mut idle = Command::new("chrt");
    idle.args(["--idle", "0"]).arg(build.get_program()).args(build.get_args());
    idle.envs(build.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(dir) = build.get_current_dir() {
        idle.current_dir(dir);
    }
    let _said_later =
        idle.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

fn outcome_of(is_right: bool) -> Outcome {
    if is_right { Outcome::Success } else { Outcome::Failure }
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
