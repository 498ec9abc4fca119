//! The documents that a stranger reads first stay short.

use super::finding::Finding;
use crate::workspace::SourceFile;

/// A document, its lines, and their characters, at most.
const LIMITS: [(&str, usize, usize); 3] =
    [("README.md", 150, 100), ("ARCHITECTURE.md", 250, 100), ("CONTRIBUTING.md", 250, 100)];

pub(super) fn check(files: &[SourceFile], findings: &mut Vec<Finding>) {
    for (path, lines_max, columns_max) in LIMITS {
        let Some(file) = files.iter().find(|file| file.path == path) else {
            findings.push(Finding::new(path, 1, "this document is missing"));
            continue;
        };
        let lines = file.text.lines().count();
        if lines > lines_max {
            let why = format!("{lines} lines; allowed are {lines_max}: move some into docs/");
            findings.push(Finding::new(path, lines_max + 1, why));
        }
        for (index, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > columns_max {
                let why = format!("{columns} columns; allowed are {columns_max}");
                findings.push(Finding::new(path, index + 1, why));
            }
        }
    }
}
