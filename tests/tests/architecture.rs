//! The ways through the code name files and functions; they must exist.

use std::path::{Path, PathBuf};

/// The documents that follow a thing through the files, and how many steps each has at least.
const WAYS: [(&str, usize); 3] =
    [("ARCHITECTURE.md", 15), ("docs/internals/ways.md", 120), ("docs/internals/attacks.md", 70)];

#[test]
fn every_step_of_every_way_names_a_function_that_exists() {
    for (document, least) in WAYS {
        let mut steps = 0;
        for (file, function) in steps_of(&text(document)) {
            steps += 1;
            let source = std::fs::read_to_string(root().join(&file));
            let source = source.unwrap_or_else(|error| panic!("{document}: {file}: {error}"));
            assert!(defines(&source, &function), "{document}: {file} has no function {function}");
        }
        assert!(
            steps >= least,
            "{document} has only {steps} steps: has the table changed its form?"
        );
    }
}

#[test]
fn every_bound_is_in_the_file_that_the_page_names() {
    let mut bounds = 0;
    for line in text("docs/internals/bounds.md").lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, _, file, name, _] = cells[..] else { continue };
        let (Some(file), Some(name)) = (code(file), code(name)) else { continue };
        bounds += 1;
        let source = std::fs::read_to_string(root().join(file));
        let source = source.unwrap_or_else(|error| panic!("{file}: {error}"));
        let is_there = [format!("const {name}: "), format!("pub {name}: ")]
            .iter()
            .any(|words| source.contains(words));
        assert!(is_there, "{file} has no {name}");
    }
    assert!(bounds >= 40, "only {bounds} bounds: has the table changed its form?");
}

#[test]
fn every_file_of_tests_is_run() {
    let system = text("tests/tests/system.rs");
    for name in names_in("tests/tests") {
        let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "system") else {
            continue;
        };
        let line = format!("\nmod {module};\n");
        assert!(system.contains(&line), "tests/tests/system.rs lacks `mod {module};`");
    }
}

#[test]
fn a_function_that_is_not_there_is_missed() {
    let rows = "| a | `crates/core/base/src/lib.rs` | `gone` |\n| b | c |\n";
    assert_eq!(steps_of(rows), [("crates/core/base/src/lib.rs".to_owned(), "gone".to_owned())]);
    assert!(!defines("fn gone_by() {}\n", "gone") && !defines("gone()", "gone"));
    assert!(defines("pub fn gone(x: u8) {}", "gone") && defines("fn gone<T>()", "gone"));
}

#[test]
fn the_tree_of_the_architecture_is_the_tree() {
    let text = text("ARCHITECTURE.md");
    // Crates are named by folder and name, below `crates`.
    let folders = ["core", "io", "plane", "programs", "functions", "lab"];
    let crates = folders.map(|folder| (format!("crates/{folder}"), folder));
    assert_eq!(names_in("crates").len(), folders.len(), "a folder of crates is not looked at");
    for (path, shown) in crates.into_iter().chain([("bin".to_owned(), "bin")]) {
        for name in names_in(&path) {
            let row = format!("| `{shown}/{name}` |");
            assert!(text.contains(&row), "ARCHITECTURE.md has no row {row}");
        }
    }
}

fn names_in(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).expect("it is there");
    let names = entries.map(|entry| entry.expect("it can be read").file_name());
    names.map(|name| name.into_string().expect("it is plain")).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests is in the project").to_owned()
}

fn text(document: &str) -> String {
    let text = std::fs::read_to_string(root().join(document));
    text.unwrap_or_else(|error| panic!("{document}: {error}"))
}

/// The files and functions of the rows that have both.
fn steps_of(text: &str) -> Vec<(String, String)> {
    let step = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, file, function, _] = cells[..] else { return None };
        Some((code(file)?.to_owned(), code(function)?.to_owned()))
    };
    text.lines().filter_map(step).collect()
}

fn code(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}

/// Whether `source` has `fn function` itself, not one whose name only begins so.
fn defines(source: &str, function: &str) -> bool {
    let defined = format!("fn {function}");
    let mut places = source.match_indices(&defined);
    places.any(|(at, _)| source[at + defined.len()..].starts_with(['(', '<']))
}
