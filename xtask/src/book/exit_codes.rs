//! The page about exit codes names every code that a program of ours ends with, and no other.

use std::collections::BTreeMap;

use super::finding::Finding;
use crate::workspace::SourceFile;

const PAGE: &str = "docs/reference/exit-codes.md";

/// Where the programs that people start are.
const PROGRAMS: [&str; 2] = ["bin/", "crates/plane/daemon/"];

/// What stands before a number that is an exit code.
const BEFORE: [&str; 4] = ["exit_code: ", "process::exit(", "ExitCode::from(", "_CODE: u8 = "];

pub(super) fn check(files: &[SourceFile], findings: &mut Vec<Finding>) {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        findings.push(Finding::new(PAGE, 1, "this page is missing"));
        return;
    };
    let told = told(&page.text);
    // What the standard library calls SUCCESS and FAILURE.
    let mut used: BTreeMap<u8, (&str, usize)> = [0, 1].map(|code| (code, (PAGE, 1))).into();
    for file in files.iter().filter(|file| is_of_a_program(&file.path)) {
        for (index, line) in file.text.lines().enumerate() {
            for code in BEFORE.iter().filter_map(|before| code_behind(line, before)) {
                used.entry(code).or_insert((&file.path, index + 1));
            }
        }
    }
    for (code, (file, line)) in &used {
        if !told.contains_key(code) {
            findings.push(Finding::new(file, *line, format!("{PAGE} does not explain {code}")));
        }
    }
    for (code, line) in told {
        if !used.contains_key(&code) {
            findings.push(Finding::new(PAGE, line, format!("no program ends with {code}")));
        }
    }
}

fn is_of_a_program(path: &str) -> bool {
    path.ends_with(".rs")
        && PROGRAMS.iter().any(|folder| path.starts_with(folder))
        && !path.contains("tests")
}

/// The number right behind the words.
fn code_behind(line: &str, before: &str) -> Option<u8> {
    let (_, behind) = line.split_once(before)?;
    let end = behind.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(behind.len());
    behind[..end].parse().ok()
}

/// The codes of the first column, each with its first line.
fn told(page: &str) -> BTreeMap<u8, usize> {
    let mut told = BTreeMap::new();
    for (index, line) in page.lines().enumerate().filter(|(_, line)| line.starts_with('|')) {
        let codes = line.split('|').nth(1).unwrap_or_default().split(',');
        for code in codes.filter_map(|code| code.trim().parse().ok()) {
            told.entry(code).or_insert(index + 1);
        }
    }
    told
}
