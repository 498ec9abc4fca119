//! Rules about the lines of a Rust file: unsafe fences, forbidden words, length.

use super::finding::Finding;
use crate::rules::{self, CrateRule, Scope, Unsafety};
use crate::source::{self, Line};
use crate::workspace::SourceFile;

pub(super) fn check(file: &SourceFile, all_tests: bool, findings: &mut Vec<Finding>) {
    let lines = source::lines(&file.text, all_tests);
    let mut report = |line: usize, rule: &'static str, message: String| {
        findings.push(Finding { file: file.path.clone(), line, rule, message });
    };
    let fenced = !is_home_of_unsafe(&file.path);
    for line in &lines {
        if fenced && source::contains_word(&line.code, "unsafe") {
            let homes = homes_of_unsafe().join(", ");
            report(
                line.number,
                "unsafe-fence",
                format!("`unsafe` lives in {homes} only: move it there behind a safe function"),
            );
        }
        for rule in rules::FORBIDDEN_WORDS.iter().filter(|rule| breaks(line, rule)) {
            let message = format!("`{}` is forbidden here: {}", rule.word, rule.advice);
            report(line.number, "forbidden-word", message);
        }
    }
    let (length, limit, of) = match all_tests {
        true => (lines.len(), rules::MAX_TEST_LINES, "lines of tests"),
        false => {
            let length = lines.iter().filter(|line| !line.in_test).count();
            (length, rules::MAX_LINES, "lines besides tests")
        }
    };
    if length > limit {
        let message = format!("{length} {of}, over {limit}: look for the second noun in it");
        report(1, "length", message);
    }
}

fn breaks(line: &Line, rule: &rules::ForbiddenWord) -> bool {
    let text = match rule.place {
        Scope::Code => &line.code,
        Scope::CodeOutsideTests if line.in_test => return false,
        Scope::CodeOutsideTests => &line.code,
        Scope::Comment => &line.comment,
    };
    source::contains_word(text, rule.word)
}

fn is_home_of_unsafe(path: &str) -> bool {
    homes_of_unsafe()
        .iter()
        .any(|home| path.strip_prefix(home.as_str()).is_some_and(|rest| rest.starts_with('/')))
}

fn homes_of_unsafe() -> Vec<String> {
    let homes = rules::CRATES.iter().filter(|rule| rule.unsafety == Unsafety::Home);
    homes.map(CrateRule::dir).collect()
}
