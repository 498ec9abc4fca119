//! Rules about a file as a whole: how it starts, how long it is, what it must not mention.

use std::collections::BTreeSet;

use super::finding::Finding;
use crate::rules;
use crate::source;
use crate::workspace::SourceFile;

pub(super) fn check(file: &SourceFile, findings: &mut Vec<Finding>) {
    first_line(file, findings);
    wide_comments(file, findings);
    machine_paths(file, findings);
}

/// Rust files whose whole content is tests: by their path, or because the file that declares
/// them does so under `#[cfg(test)]`.
pub(super) fn test_files(files: &[SourceFile]) -> BTreeSet<String> {
    let rust: Vec<&SourceFile> = files.iter().filter(|file| file.path.ends_with(".rs")).collect();
    let declared: Vec<String> = rust.iter().flat_map(|file| test_modules_of(file)).collect();
    let is_test = |path: &str| {
        path.starts_with("tests/")
            || path.starts_with("fuzz/")
            || path.contains("/tests/")
            || path.ends_with("/tests.rs")
            || declared.iter().any(|module| {
                let rest = path.strip_prefix(module.as_str());
                rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            })
    };
    rust.iter().filter(|file| is_test(&file.path)).map(|file| file.path.clone()).collect()
}

/// The modules that a file declares as tests in files of their own: `dir/name`, without `.rs`.
fn test_modules_of(file: &SourceFile) -> Vec<String> {
    let stem = file.path.trim_end_matches(".rs");
    let (dir, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let dir = if matches!(name, "lib" | "main" | "mod") { dir } else { stem };
    let lines = source::lines(&file.text, false);
    let modules = lines.iter().filter(|line| line.in_test).filter_map(|line| {
        let (before, name) = line.code.trim().strip_suffix(';')?.rsplit_once("mod ")?;
        (before.is_empty() || before.ends_with([' ', ']']))
            .then(|| format!("{dir}/{}", name.trim()))
    });
    modules.collect()
}

fn first_line(file: &SourceFile, findings: &mut Vec<Finding>) {
    let (line, marker) = if file.path.ends_with(".rs") {
        (1, "//! ")
    } else if file.text.starts_with("#!") {
        (2, "# ")
    } else {
        return;
    };
    let paragraph: Vec<&str> = file
        .text
        .lines()
        .skip(line - 1)
        .map_while(|line| line.strip_prefix(marker))
        .take_while(|line| !line.trim().is_empty())
        .collect();
    let is_sentence = paragraph.last().is_some_and(|line| line.trim_end().ends_with(['.', ':']));
    if !is_sentence {
        findings.push(Finding {
            file: file.path.clone(),
            line,
            rule: "first-line",
            message: format!("start with one sentence that says what the file is: `{marker}…`"),
        });
    }
}

/// Comments are read beside code: they end where it ends. Rows of tables, layouts and examples,
/// which are set apart or indented, may be wider.
fn wide_comments(file: &SourceFile, findings: &mut Vec<Finding>) {
    if !file.path.ends_with(".rs") {
        return;
    }
    let mut is_example = false;
    for (index, line) in file.text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
        let text = comment.trim_start_matches(['/', '!']);
        is_example ^= text.trim_start().starts_with("```");
        let is_in_columns = text.trim().contains("  ");
        let is_set_apart =
            is_example || is_in_columns || text.starts_with("     ") || text.starts_with(" |");
        if line.chars().count() > rules::COMMENT_COLUMNS_MAX && !is_set_apart {
            findings.push(Finding {
                file: file.path.clone(),
                line: index + 1,
                rule: "wide-comment",
                message: format!("wrap the comment at {} columns", rules::COMMENT_COLUMNS_MAX),
            });
        }
    }
}

fn machine_paths(file: &SourceFile, findings: &mut Vec<Finding>) {
    for (index, line) in file.text.lines().enumerate() {
        for path in rules::MACHINE_PATHS.iter().filter(|path| starts_a_path(line, path)) {
            findings.push(Finding {
                file: file.path.clone(),
                line: index + 1,
                rule: "machine-path",
                message: format!("`{path}` exists on one machine only: use a path of the project"),
            });
        }
    }
}

/// Whether `path` occurs in `line` as the start of a path, not as the middle of a longer one.
fn starts_a_path(line: &str, path: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | '/');
    line.match_indices(path).any(|(at, _)| !line[..at].chars().next_back().is_some_and(continues))
}
