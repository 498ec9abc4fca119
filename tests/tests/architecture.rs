//! ARCHITECTURE.md names files and functions; they must exist.

use std::path::Path;

#[test]
fn every_step_of_both_ways_names_a_function_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests is in the project");
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("it is there");
    let mut steps = 0;
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, file, function, _] = cells[..] else { continue };
        let (Some(file), Some(function)) = (code(file), code(function)) else { continue };
        steps += 1;
        let source = std::fs::read_to_string(root.join(file));
        let source = source.unwrap_or_else(|error| panic!("{file}: {error}"));
        let defined = format!("fn {function}");
        let found = source
            .match_indices(&defined)
            .any(|(at, _)| source[at + defined.len()..].starts_with(['(', '<']));
        assert!(found, "{file} has no function {function}");
    }
    assert!(steps >= 30, "only {steps} steps were found: has the table changed its form?");
}

fn code(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}
