//! Rules about words that were replaced: as parts of identifiers, as phrases of prose, and in
//! messages.

use super::Finding;
use crate::replaced::{NAMES, PHRASES, ReplacedName};
use crate::source;
use crate::workspace::SourceFile;

pub(super) fn check(file: &SourceFile, findings: &mut Vec<Finding>) {
    if file.path.ends_with(".rs") {
        for line in source::lines(&file.text, false) {
            names(file, line.number, &line.code, findings);
            phrases(file, line.number, &line.comment, findings);
            // The words themselves stand in our own.
            let is_ours = file.path.starts_with("xtask/");
            for message in messages(&line.literal).filter(|_| !is_ours) {
                words(file, line.number, message, findings);
                phrases(file, line.number, message, findings);
            }
        }
    } else if file.path.ends_with(".md") {
        for (index, line) in file.text.lines().enumerate() {
            phrases(file, index + 1, line, findings);
        }
    }
}

/// The strings of a line that people read: of more than one word. A single word is a key, or on the
/// wire.
fn messages(literal: &str) -> impl Iterator<Item = &str> {
    let pieces = literal.split('"').filter(|piece| !piece.trim().is_empty());
    pieces.filter(|piece| piece.trim().contains(' '))
}

/// Private words of a message that are words of it.
fn words(file: &SourceFile, line: usize, message: &str, findings: &mut Vec<Finding>) {
    // What a message puts in is code: `{name}`, `{0:?}`.
    let said = message.split('{').map(|part| part.split_once('}').map_or(part, |(_, said)| said));
    for part in said {
        names(file, line, part, findings);
    }
}

fn names(file: &SourceFile, line: usize, code: &str, findings: &mut Vec<Finding>) {
    for identifier in code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        let parts = parts(identifier);
        for row in NAMES.iter().filter(|row| applies(row, &file.path)) {
            if parts.iter().any(|part| part == row.old) {
                let message =
                    format!("`{identifier}`: \"{}\" is a private word: write {}", row.old, row.new);
                findings.push(Finding {
                    file: file.path.clone(),
                    line,
                    rule: "replaced-word",
                    message,
                });
            }
        }
    }
}

fn applies(row: &ReplacedName, path: &str) -> bool {
    row.within.is_empty() || row.within.iter().any(|folder| path.starts_with(folder))
}

/// The words of an identifier, in lower case, whatever its case is.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for piece in identifier.split('_') {
        let is_upper = !piece.contains(|c: char| c.is_ascii_lowercase());
        let mut part = String::new();
        for c in piece.chars() {
            if c.is_ascii_uppercase() && !is_upper && !part.is_empty() {
                parts.push(std::mem::take(&mut part));
            }
            part.push(c.to_ascii_lowercase());
        }
        parts.push(part);
    }
    parts
}

fn phrases(file: &SourceFile, line: usize, prose: &str, findings: &mut Vec<Finding>) {
    let prose = prose.to_lowercase();
    for (old, new) in PHRASES.iter().filter(|(old, _)| source::contains_word(&prose, old)) {
        let message = format!("\"{old}\" is a private word: write \"{new}\"");
        findings.push(Finding { file: file.path.clone(), line, rule: "replaced-word", message });
    }
}
