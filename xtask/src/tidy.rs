//! `cargo xtask tidy`: every file and package against the project rules.

mod circles;
mod files;
mod finding;
mod ids;
mod packages;
mod replaced;
mod structs;
mod words;

#[cfg(test)]
mod tests;

use crate::workspace::{SourceFile, Workspace};
use finding::Finding;

/// Checks everything and prints what it finds; whether that is nothing.
pub(crate) fn run(workspace: &Workspace) -> bool {
    let files = match workspace.files() {
        Ok(files) => files,
        Err(error) => {
            eprintln!("tidy: {error}");
            return false;
        }
    };
    let findings = check(workspace, &files);
    for finding in &findings {
        eprintln!("{finding}");
    }
    let (packages, count) = (workspace.packages.len(), files.len());
    match findings.len() {
        0 => println!("tidy: {packages} packages, {count} files, nothing to report"),
        broken => eprintln!("tidy: {broken} findings in {packages} packages, {count} files"),
    }
    findings.is_empty()
}

fn check(workspace: &Workspace, files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let test_files = files::test_files(files);
    for package in &workspace.packages {
        packages::check(package, files, &mut findings);
        circles::check(package, files, &test_files, &mut findings);
        structs::check(package, files, &test_files, &mut findings);
    }
    for file in files {
        files::check(file, &mut findings);
        replaced::check(file, &mut findings);
        if file.path.ends_with(".rs") {
            let all_tests = test_files.contains(&file.path);
            words::check(file, all_tests, &mut findings);
            ids::check(file, &mut findings);
        }
    }
    findings.sort_by(|a, b| (&a.file, a.line, a.rule).cmp(&(&b.file, b.line, b.rule)));
    findings
}
