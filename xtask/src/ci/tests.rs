//! The counting and the running, on output and commands of which the result is known.

use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::workspace::Package;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Takes a step without printing: what it prints would be counted by the run that tests us.
fn taken(step: Step, stats: &mut Stats) -> bool {
    take(step, &workspace(&[]), stats, &mut std::io::sink())
}

fn after(lines: &[&str], outcome: Outcome) -> (u64, u64) {
    let mut stats = Stats::default();
    lines.iter().for_each(|line| stats.read(line));
    stats.end("cargo test", outcome);
    (stats.passed, stats.failed)
}

const GOOD: &str = "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out";
const BAD: &str = "test result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";

#[test]
fn results_of_all_test_programs_add_up() {
    assert_eq!(after(&["running 12 tests", GOOD, BAD, GOOD], Outcome::Failure), (31, 2));
    assert_eq!(after(&[GOOD], Outcome::Success), (12, 0));
}

#[test]
fn a_run_that_fails_without_a_failed_test_counts_as_one() {
    assert_eq!(after(&[], Outcome::Failure), (0, 1));
    assert_eq!(after(&[GOOD], Outcome::Failure), (12, 1));
}

#[test]
fn a_run_without_a_single_test_has_failed() {
    let none = "test result: ok. 0 passed; 0 failed; 0 ignored";
    assert_eq!(after(&[none], Outcome::Success), (0, 1));
}

#[test]
fn failed_tests_are_named_in_the_summary() {
    let mut stats = Stats::default();
    stats.read("test wire::a_key_is_found ... ok\n");
    stats.read("test wire::a_key_is_lost ... FAILED\n");
    assert_eq!(stats.names, ["FAILED wire::a_key_is_lost"]);
}

#[test]
fn output_that_only_resembles_a_result_counts_nothing() {
    for line in ["test result", "test result: ok. many passed; few failed", "12 passed, 0 failed"] {
        let mut stats = Stats::default();
        stats.read(line);
        assert_eq!(stats, Stats::default(), "{line}");
    }
}

#[test]
fn a_command_that_prints_bytes_which_are_no_text_is_read_to_its_end() {
    let mut stats = Stats::default();
    let script = format!("printf '\\377\\n'; echo '{GOOD}'; exit 3");
    let mut out = Vec::new();
    let outcome = stream(shell(&script), ANY_TIME, &mut out, |line| stats.read(line));
    assert_eq!((outcome, stats.passed), (Outcome::Failure, 12));
    let passed_on = format!("\n{GOOD}\n");
    assert!(String::from_utf8_lossy(&out).contains(&passed_on), "all of it is passed on");
}

#[test]
fn a_command_that_is_not_there_is_a_failure() {
    let command = Command::new("no-such-command-at-all");
    assert_eq!(stream(command, ANY_TIME, &mut std::io::sink(), |_| ()), Outcome::Failure);
}

#[test]
fn a_command_that_hangs_is_ended_with_its_children_and_names_the_tests_that_did_not_end() {
    let mut stats = Stats::default();
    let long = "has been running for over 60 seconds";
    let script = format!(
        "echo 'test a::b {long}'; echo 'test a::c {long}'; echo 'test a::c ... ok'; \
         sh -c 'sleep 3600 & sleep 3600'; echo 'test a::b ... ok'"
    );
    let (silence, mut out) = (Duration::from_millis(500), Vec::new());
    let outcome = stream(shell(&script), silence, &mut out, |line| stats.read(line));
    stats.end("cargo test", outcome);
    let said = String::from_utf8_lossy(&out);
    assert_eq!((outcome, stats.failed), (Outcome::Failure, 1), "{said}");
    assert_eq!(stats.names, ["FAILED cargo test", "NOT ENDED a::b"], "{said}");
    assert!(said.contains("printed nothing for 0.5 s") && said.contains("sleep 3600"), "{said}");
}

#[test]
fn a_step_that_cannot_be_prepared_keeps_the_next_one_from_running() {
    let mut stats = Stats::default();
    assert!(!taken(Step::Prepare(shell("exit 1")), &mut stats));
    assert_eq!((stats.passed, stats.failed), (0, 1));
    let mut stats = Stats::default();
    assert!(taken(Step::Prepare(shell("exit 0")), &mut stats));
    assert_eq!((stats.passed, stats.failed), (0, 0));
}

#[test]
fn a_check_counts_as_one_either_way() {
    let mut stats = Stats::default();
    taken(Step::Check(shell("exit 0")), &mut stats);
    taken(Step::Check(shell("exit 1")), &mut stats);
    taken(Step::Refuse("not here"), &mut stats);
    assert_eq!((stats.passed, stats.failed), (1, 2));
}

#[test]
fn a_run_without_packetdrills_scripts_says_so_and_how_to_run_them_before_its_last_line() {
    let mut total = Stats::default();
    (total.passed, total.failed) = (5, 1);
    let numbers = "5 passed, 1 failed";
    let without = last_words(&total, None);
    let [sentence, last] = without.as_slice() else { panic!("{without:?}") };
    assert!(sentence.contains("packetdrill's own scripts did not run"), "{sentence}");
    assert!(sentence.contains("git clone") && sentence.contains("PKT_SCRIPTS="), "{sentence}");
    assert_eq!(last, numbers);
    assert_eq!(last_words(&total, Some("packetdrill".as_ref())), [numbers]);
}

fn workspace(dirs: &[&str]) -> Workspace {
    let packages = dirs.iter().map(|dir| Package {
        name: format!("package-{dir}"),
        dir: (*dir).to_owned(),
        description: None,
        roots: Vec::new(),
        targets: Vec::new(),
        dependencies: Vec::new(),
    });
    let packages = packages.collect();
    Workspace { root: PathBuf::from("."), target_dir: PathBuf::from("target"), packages }
}

fn names(extent: Extent, is_root: bool) -> Vec<&'static str> {
    plan(&workspace(&["tests"]), extent, is_root).iter().map(|stage| stage.name).collect()
}

/// What the stage of tests runs.
fn tests_of(extent: Extent, is_root: bool) -> String {
    let plan = plan(&workspace(&["tests"]), extent, is_root);
    let stage = plan.iter().find(|stage| stage.name == "tests").expect("there are always tests");
    let [Step::Programs(tests), Step::Tests(_)] = stage.steps.as_slice() else {
        panic!("programs, and examples in documentation")
    };
    text_of(&tests.build)
}

#[test]
fn quick_leaves_out_loom_and_namespaces() {
    let all = ["fmt", "clippy", "tidy", "book", "build", "tests", "optimized", "loom", "pages"];
    assert_eq!(names(Extent::Everything, true), all);
    assert_eq!(names(Extent::Quick, true), ["fmt", "clippy", "tidy", "book", "tests"]);
    assert!(tests_of(Extent::Quick, true).ends_with("--exclude package-tests"));
}

#[test]
fn programs_and_tests_are_built_with_one_selection_of_packages() {
    let tests = tests_of(Extent::Everything, true);
    let says = "--message-format json-render-diagnostics";
    assert_eq!(tests, format!("cargo test --workspace --no-run {says}"));
    let plan = plan(&workspace(&["tests"]), Extent::Everything, true);
    let [Step::Prepare(build)] = plan[4].steps.as_slice() else { panic!("one step") };
    assert_eq!(text_of(build), "cargo build --workspace --all-targets");
    let [Step::Check(all), Step::Check(demo)] = plan[1].steps.as_slice() else { panic!("two") };
    let words = "--workspace --all-targets";
    assert_eq!(text_of(all), format!("cargo clippy {words} -- -D warnings"));
    assert_eq!(text_of(demo), format!("cargo clippy {words} --no-default-features -- -D warnings"));
}

#[test]
fn optimized_programs_are_tested_with_their_own_library_by_tests_that_are_built_already() {
    let plan = plan(&workspace(&["tests"]), Extent::Everything, true);
    let [Step::Prepare(release), Step::Programs(tests)] = plan[6].steps.as_slice() else {
        panic!("two steps")
    };
    assert_eq!(text_of(release), "cargo build --release -p calistod -p preload");
    let build = text_of(&tests.build);
    assert!(build.starts_with("cargo test --workspace --test system --no-run"), "{build}");
    let library = ("CALISTO_PRELOAD", "target/release/libcalisto_preload.so".into());
    assert_eq!(tests.environment, [library, ("TESTED_PROGRAMS", "target/release".into())]);
    assert_eq!(tests.tests.first(), Some(&"sockets_death::"));
}

#[test]
fn what_later_stages_build_is_built_beside_tests_that_wait() {
    let plan = plan(&workspace(&["tests"]), Extent::Everything, true);
    let [Step::Programs(tests), Step::Tests(_)] = plan[5].steps.as_slice() else { panic!("two") };
    let ahead: Vec<_> = tests.ahead.iter().map(text_of).collect();
    assert_eq!(
        ahead.first().map(String::as_str),
        Some("cargo build --release -p calistod -p preload")
    );
    let [Step::Tests(models)] = plan[7].steps.as_slice() else { panic!("one step") };
    let model = text_of(models).replace(" LOOM_MAX_PREEMPTIONS='3'", "");
    assert_eq!(ahead[1], format!("{model} --no-run"));
    assert!(ahead[2].ends_with("book --install"), "{ahead:?}");
}

#[test]
fn the_pages_are_made_of_the_documents_whoever_runs_us() {
    for is_root in [true, false] {
        let plan = plan(&workspace(&["tests"]), Extent::Everything, is_root);
        let pages = plan.iter().find(|stage| stage.name == "pages").expect("a stage of its own");
        let [Step::Check(book)] = pages.steps.as_slice() else { panic!("one step") };
        assert!(text_of(book).ends_with("book"), "{}", text_of(book));
    }
}

#[test]
fn a_build_for_idle_processors_runs_with_its_own_environment_and_folder() {
    let file = std::env::temp_dir().join(format!("xtask-idle-{}", std::process::id()));
    let mut build = shell("printf '%s %s ' $GIVEN $PWD > $FILE; chrt --pid $$ >> $FILE");
    build.env("FILE", &file).env("GIVEN", "so").current_dir("/");
    build_when_idle(&build);
    let said = std::fs::read_to_string(&file).expect("it has run");
    std::fs::remove_file(&file).expect("it is ours");
    assert!(said.starts_with("so / ") && said.contains("SCHED_IDLE"), "{said}");
}

#[test]
fn without_root_the_namespace_tests_are_a_failure_and_no_gap() {
    assert!(tests_of(Extent::Everything, false).ends_with("--exclude package-tests"));
    let plan = plan(&workspace(&["tests"]), Extent::Everything, false);
    let last = plan.last().expect("there are stages");
    assert!(matches!(last.steps.as_slice(), [Step::Refuse(_)]), "{}", last.name);
}

#[test]
fn loom_has_its_own_build_folder_and_keeps_the_flags_of_the_caller() {
    let plan = plan(&workspace(&[]), Extent::Everything, true);
    let [Step::Tests(models)] = plan[7].steps.as_slice() else { panic!("one step") };
    let folder = models.get_envs().find(|(name, _)| *name == "CARGO_TARGET_DIR");
    assert_eq!(folder.and_then(|(_, value)| value), Some("target/loom".as_ref()));
    assert!(text_of(models).ends_with("--cfg loom' cargo test --release --lib -p shm loom"));
    assert_eq!(with_loom(None), "--cfg loom");
    assert_eq!(with_loom(Some("-g")), "-g --cfg loom");
}
