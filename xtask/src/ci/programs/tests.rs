//! Which programs there are, and what becomes of what they print.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::ci::again;

#[test]
fn programs_of_tests_are_found_among_what_cargo_says() {
    let said = |test: bool, executable: &str| {
        format!(
            r#"{{"reason": "compiler-artifact", "manifest_path": "/p/crates/core/wire/Cargo.toml",
            "target": {{"kind": ["test"], "src_path": "/p/crates/core/wire/tests/all.rs"}},
            "profile": {{"test": {test}}}, "executable": {executable}}}"#
        )
        .replace('\n', " ")
    };
    let program = TestProgram {
        name: "wire tests/all.rs".to_owned(),
        file: "/p/target/debug/deps/all-1".into(),
        dir: "/p/crates/core/wire".into(),
        environment: Vec::new(),
    };
    let file = "\"/p/target/debug/deps/all-1\"";
    assert_eq!(TestProgram::from_message(&said(true, file)), Some(program));
    assert_eq!(TestProgram::from_message(&said(false, file)), None, "no test");
    assert_eq!(TestProgram::from_message(&said(true, "null")), None, "a library");
    assert_eq!(TestProgram::from_message(r#"{"reason": "build-finished"}"#), None);
    assert_eq!(TestProgram::from_message("   Compiling wire"), None);
}

/// A folder of scripts that goes with the test.
struct Scripts(PathBuf);

impl Scripts {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary folder is ours");
        Self(folder)
    }

    fn program(&self, name: &str, script: &str) -> TestProgram {
        let file = self.0.join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("the folder is ours");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("it is ours");
        let environment = vec![("GIVEN", "so".into())];
        TestProgram { name: name.to_owned(), file, dir: self.0.clone(), environment }
    }
}

impl Drop for Scripts {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn ran([live, together]: [Vec<TestProgram>; 2]) -> (Stats, String) {
    let (mut stats, mut out) = (Stats::default(), Vec::new());
    let lane = |programs, way| Lane { programs, threads: Some(3), way, arguments: &["some"] };
    let lanes = [lane(live, Way::Live), lane(together, Way::Together)];
    let failed = run(lanes, Duration::from_mins(1), &mut stats, &mut out);
    again::run(&failed, &mut stats, &mut out);
    (stats, String::from_utf8(out).expect("it prints text"))
}

#[test]
fn lanes_run_at_once_and_what_a_program_prints_stays_together_where_it_is_asked_for() {
    let scripts = Scripts::new("lanes");
    // Each waits for the other: one after the other they would never end.
    let each = |name: &str, other: &str| {
        let wait = format!("touch {name}; until [ -e {other} ]; do sleep 0.01; done");
        let lines =
            format!("echo {name} one $RUST_TEST_THREADS $GIVEN $*; sleep 0.05; echo {name} two");
        let script = format!("{wait}; {lines}; echo 'test result: ok. 4 passed'");
        scripts.program(name, &script)
    };
    let (stats, out) = ran([vec![each("a", "b")], vec![each("b", "a")]]);
    assert_eq!((stats.passed, stats.failed), (8, 0), "{out}");
    assert!(out.contains("a one 3 so some\n") && out.contains("b one 3 so some\nb two\n"), "{out}");
}

#[test]
fn one_that_fails_or_dies_is_named_and_one_without_tests_is_no_failure() {
    let scripts = Scripts::new("failures");
    let none = "echo 'test result: ok. 0 passed; 0 failed'";
    let failed = "echo 'test a::b ... FAILED'; echo 'test result: FAILED. 1 passed; 1 failed'";
    let dies = scripts.program("dies", "kill -SEGV $$");
    let fails = scripts.program("fails", &format!("{failed}; exit 101"));
    let (stats, out) = ran([vec![dies, fails], vec![scripts.program("empty", none)]]);
    assert_eq!((stats.passed, stats.failed), (1, 2), "{out}");
    let mut names = stats.names;
    names.sort();
    assert_eq!(names, ["FAILED a::b", "FAILED dies"], "{out}");
}

/// A program of which the tests `names` fail, and when they are run again alone so often as
/// `again` says.
fn failing(scripts: &Scripts, names: &[&str], again: &str) -> TestProgram {
    let failed: String =
        names.iter().map(|name| format!("echo 'test {name} ... FAILED'; ")).collect();
    let count = names.len();
    let first = format!("{failed} echo 'test result: FAILED. 1 passed; {count} failed'; exit 101");
    let once = "echo 'test result: ok. 1 passed; 0 failed'";
    let bad = "echo 'test result: FAILED. 0 passed; 1 failed'; exit 101";
    let alone =
        format!("echo x >> tries; if [ $(wc -l < tries) = {again} ]; then {bad}; fi; {once}");
    scripts.program("fails", &format!("if [ $1 = --exact ]; then {alone}; exit; fi; {first}"))
}

#[test]
fn a_test_that_fails_beside_others_and_always_passes_alone_is_unstable_and_named() {
    let scripts = Scripts::new("unstable");
    let (stats, out) = ran([vec![failing(&scripts, &["a::b"], "0")], Vec::new()]);
    assert_eq!((stats.passed, stats.failed), (2, 0), "{out}");
    assert_eq!(stats.unstable, ["UNSTABLE a::b: failed once, and passed 5 times alone"], "{out}");
    assert!(stats.names.is_empty() && out.contains("--exact a::b"), "{out}");
}

#[test]
fn a_test_that_fails_once_more_alone_has_failed() {
    let scripts = Scripts::new("unsure");
    let (stats, out) = ran([vec![failing(&scripts, &["a::b"], "5")], Vec::new()]);
    assert_eq!((stats.passed, stats.failed), (1, 1), "{out}");
    assert_eq!(
        (stats.names, stats.unstable),
        (vec!["FAILED a::b".to_owned()], Vec::new()),
        "{out}"
    );
}

#[test]
fn many_failed_tests_are_no_coincidence_and_not_tried_again() {
    let scripts = Scripts::new("many");
    let names = ["a::a", "a::b", "a::c", "a::d"];
    let (stats, out) = ran([vec![failing(&scripts, &names, "0")], Vec::new()]);
    assert_eq!((stats.passed, stats.failed, stats.names.len()), (1, 4, 4), "{out}");
    assert!(out.contains("4 tests failed: too many"), "{out}");
}

#[test]
fn a_program_that_no_longer_knows_a_failed_test_does_not_pass_for_it() {
    let scripts = Scripts::new("unknown");
    let failed = "echo 'test a::b ... FAILED'; echo 'test result: FAILED. 1 passed; 1 failed'";
    let alone = "echo 'test result: ok. 0 passed; 0 failed'";
    let script = format!("if [ $1 = --exact ]; then {alone}; exit; fi; {failed}; exit 101");
    let (stats, out) = ran([vec![scripts.program("fails", &script)], Vec::new()]);
    assert_eq!((stats.passed, stats.failed), (1, 1), "{out}");
}
