//! Why a scenario is refused: where, and what to write instead.

use std::fmt;

/// Why a scenario is refused; its text is one sentence for the person who wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    line: Option<usize>,
    sentence: String,
}

impl ScenarioError {
    /// The line of the text, from 1, where one is to blame.
    pub const fn line(&self) -> Option<usize> {
        self.line
    }

    pub(crate) fn new(line: Option<usize>, sentence: impl Into<String>) -> Self {
        Self { line, sentence: sentence.into() }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for ScenarioError {}

/// The line, from 1, on which a byte stands.
pub(crate) fn line_of(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

/// What somebody wrote, short enough for a sentence.
pub(crate) fn shorten(text: &str) -> String {
    const MOST: usize = 60;
    let shown: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST).is_some() { format!("{shown}…") } else { shown }
}
