//! The page about the environment names every variable that a program reads, and no other.

use std::collections::BTreeMap;

use super::finding::Finding;
use crate::workspace::SourceFile;

const PAGE: &str = "docs/reference/environment.md";

/// How the name of each of our variables begins.
const PREFIX: &str = "CALISTO_";

/// How a program reads a variable by its name.
const READS: [&str; 2] = ["env::var(\"", "env::var_os(\""];

/// Variables that need no explanation here: those of shells and of cargo, and one that only tests
/// read.
const WELL_KNOWN: [&str; 4] = ["PATH", "HOME", "CARGO_HOME", "REFERENCE"];

pub(super) fn check(files: &[SourceFile], findings: &mut Vec<Finding>) {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        findings.push(Finding::new(PAGE, 1, "this page is missing"));
        return;
    };
    let told = first_column(&page.text);
    let mut read: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for file in files.iter().filter(|file| is_of_a_program(&file.path)) {
        for (name, line) in names(&file.text, '"').into_iter().chain(read_by_name(&file.text)) {
            read.entry(name).or_insert((&file.path, line));
        }
    }
    for (name, (file, line)) in &read {
        if !told.contains_key(name) {
            findings.push(Finding::new(file, *line, format!("{PAGE} does not explain {name}")));
        }
    }
    for (name, line) in told {
        if !read.contains_key(name) {
            findings.push(Finding::new(PAGE, line, format!("no program reads {name}")));
        }
    }
}

/// The variables that the page explains, each with its first line.
fn first_column(page: &str) -> BTreeMap<&str, usize> {
    let mut told = BTreeMap::new();
    for (index, line) in page.lines().enumerate().filter(|(_, line)| line.starts_with("| `")) {
        let cell = line.split('|').nth(1).unwrap_or_default();
        for name in cell.split('`').skip(1).step_by(2) {
            told.entry(name).or_insert(index + 1);
        }
    }
    told
}

/// The variables that a file reads by a name of any kind, each with its line.
fn read_by_name(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let lines = text.lines().zip(1..);
    lines.flat_map(|(line, number)| {
        let behind = READS.iter().filter_map(|reads| line.split_once(reads));
        let names = behind.filter_map(|(_, behind)| behind.split('"').next());
        names.filter(|name| !WELL_KNOWN.contains(name)).map(move |name| (name, number))
    })
}

/// Whether users run it: no test, and nothing that only developers start.
fn is_of_a_program(path: &str) -> bool {
    const DEVELOPERS: [&str; 4] = ["crates/lab/testbed/", "xtask/", "fuzz/", "tests/"];
    path.ends_with(".rs")
        && !DEVELOPERS.iter().any(|folder| path.starts_with(folder))
        && !path.contains("/tests/")
        && !path.ends_with("tests.rs")
}

/// Our variables that stand between two `quote`s, each with its first line.
fn names(text: &str, quote: char) -> BTreeMap<&str, usize> {
    let mut names = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        for word in line.split(quote).skip(1) {
            // As a whole entry of an environment it ends so.
            let word = word.strip_suffix('=').unwrap_or(word);
            let rest = word.strip_prefix(PREFIX).unwrap_or_default();
            let is_name = |letter: char| letter.is_ascii_uppercase() || letter == '_';
            if !rest.is_empty() && rest.chars().all(is_name) {
                names.entry(word).or_insert(index + 1);
            }
        }
    }
    names
}
