//! docs/reference/programs.md: which programs these tests run, with the versions that they ran with
//! when it was written. `PROGRAMS=write cargo test -p whole --test programs table` writes it.

use std::process::Command;

use whole::{project, run};

use crate::install;
use crate::rows::{LEFT_OUT, ROWS};

const INTRODUCTION: &str = "# Programs\n\n\
    Unmodified programs of Debian that `cargo test -p whole --test programs` runs under `calisto run`, against\n\
    a peer on Linux at the other end of a veth, and most also within the host, where both ends are accelerated.\n\
    Every byte is checked (large bodies by SHA-256), and so is that it went through Calisto: over the wire\n\
    the bytes that it counts are those of the transfer, and no socket was left to the kernel.\n\
    `PROGRAMS=write cargo test -p whole --test programs table` writes this file.\n\n\
    | program | version | as | what is tested |\n|---|---|---|---|\n";

const LEFT_OUT_INTRODUCTION: &str = "\n## Those that do not run, or not as they should\n\n";

/// The first number with a point in it, wherever the program says it.
fn version(words: &str) -> String {
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().expect("split gives one"));
    let (_, out, said) = run(command.args(words));
    let text = format!("{out}{said}");
    let is_number =
        |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
    let all = text.split(|c: char| c.is_whitespace() || matches!(c, '/' | '=' | ','));
    all.map(|word| word.trim_end_matches('.')).find(is_number).unwrap_or("?").to_owned()
}

/// The file, with whatever stands for a version in each row.
fn table(version: impl Fn(usize) -> String) -> String {
    let mut text = INTRODUCTION.to_owned();
    for (at, (program, _, role, what)) in ROWS.iter().enumerate() {
        text.push_str(&format!("| {program} | {} | {role} | {what} |\n", version(at)));
    }
    text.push_str(LEFT_OUT_INTRODUCTION);
    for (program, why) in LEFT_OUT {
        text.push_str(&format!("- {program}: {why}\n"));
    }
    text
}

#[test]
fn the_table_of_programs_names_those_that_are_tested() {
    install();
    let path = project().join("docs/reference/programs.md");
    if std::env::var_os("PROGRAMS").is_some_and(|word| word == "write") {
        let text = table(|at| version(ROWS[at].1));
        std::fs::write(&path, text).expect("the project can be written");
    }
    let text = std::fs::read_to_string(&path).expect("it is part of the project");
    // Another machine has other versions.
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let version_of = |at: usize| {
        let cell = rows.get(at).and_then(|row: &&str| row.split(" | ").nth(1));
        cell.unwrap_or("?").to_owned()
    };
    assert_eq!(text, table(version_of), "write it again: PROGRAMS=write, and this test");
    assert!(!text.contains("| ? |"), "every program tells its version");
}
