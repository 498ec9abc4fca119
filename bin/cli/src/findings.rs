//! What was found in a configuration, for people and for scripts.

use config::Places;
use daemon::{Finding, Severity};
use serde::Serialize;

use crate::failure::Failure;

/// Everything that was found.
#[derive(Debug, Serialize)]
pub(crate) struct Findings {
    /// The file, where it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    #[serde(rename = "findings")]
    pub(crate) lines: Vec<Line>,
}

/// One of them.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Line {
    /// "wrong" or "doubtful".
    pub(crate) severity: &'static str,
    /// From 1, where it is about a line of a file.
    pub(crate) line: Option<usize>,
    pub(crate) key: Option<String>,
    pub(crate) says: String,
}

impl Line {
    /// A finding, with the line of a text where there was one.
    pub(crate) fn new(finding: Finding, places: Option<&Places>) -> Self {
        let Finding { severity, key, index, says } = finding;
        Self {
            severity: severity.name(),
            line: places.and_then(|places| places.line(key, index)),
            key: Some(key.to_owned()),
            says,
        }
    }
}

impl Findings {
    /// One finding a line, or one line that there is none.
    pub(crate) fn as_text(&self) -> String {
        let file = self.file.as_ref().map_or(String::new(), |file| format!("{file}: "));
        if self.lines.is_empty() {
            return format!("{file}nothing is wrong\n");
        }
        let row = |line: &Line| {
            let at = match (line.line, &line.key) {
                (Some(number), _) => format!("line {number}: "),
                (None, Some(key)) => format!("{key}: "),
                (None, None) => String::new(),
            };
            format!("{file}{at}{}: {}\n", line.severity, line.says)
        };
        self.lines.iter().map(row).collect()
    }

    /// One JSON value and a line break.
    pub(crate) fn as_json(&self) -> Result<String, Failure> {
        let mut value = serde_json::to_value(self).map_err(Failure::new)?;
        value["schema_version"] = 1.into();
        value["ok"] = (self.wrong() == 0).into();
        Ok(format!("{value}\n"))
    }

    /// Whether the daemon would start.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        let file = self.file.as_deref().unwrap_or("the configuration");
        match self.wrong() {
            0 => Ok(()),
            1 => Err(Failure::new(format!(
                "{file}: 1 thing is wrong, and the daemon would not start"
            ))),
            more => Err(Failure::new(format!(
                "{file}: {more} things are wrong, and the daemon would not start"
            ))),
        }
    }

    fn wrong(&self) -> usize {
        self.lines.iter().filter(|line| line.severity == Severity::Wrong.name()).count()
    }
}

/// What is wrong among findings of a check, in one line; nothing: a daemon would start.
pub(crate) fn wrong(found: &[Finding]) -> Option<String> {
    let wrong: Vec<String> = found
        .iter()
        .filter(|finding| finding.severity == Severity::Wrong)
        .map(|finding| format!("{}: {}", finding.key, finding.says))
        .collect();
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(severity: Severity, line: Option<usize>) -> Line {
        let (key, says) = (Some("ports".to_owned()), "no.".to_owned());
        Line { severity: severity.name(), line, key, says }
    }

    #[test]
    fn a_finding_is_a_line_with_its_place_and_only_what_is_wrong_is_a_failure() {
        let doubtful = line(Severity::Doubtful, None);
        let mut findings = Findings { file: Some("x".to_owned()), lines: vec![doubtful] };
        assert_eq!(findings.as_text(), "x: ports: doubtful: no.\n");
        assert_eq!(findings.verdict(), Ok(()));
        assert!(findings.as_json().expect("plain data").contains(r#""ok":true"#));
        findings.lines.insert(0, line(Severity::Wrong, Some(3)));
        assert!(findings.as_text().starts_with("x: line 3: wrong: no.\n"));
        let failure = findings.verdict().expect_err("something is wrong");
        assert_eq!(failure.exit_code(), 1);
        assert!(findings.as_json().expect("plain data").contains(r#""ok":false"#));
        findings.lines.clear();
        assert_eq!(findings.as_text(), "x: nothing is wrong\n");
    }
}
