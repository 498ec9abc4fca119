//! Why a configuration is refused: what, where, and what to write instead.

use std::fmt;

/// Why a configuration is refused; its text is one sentence for the person who wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    line: Option<usize>,
    key: Option<String>,
    sentence: String,
}

impl ConfigError {
    /// The line of the text, from 1, where it was a text.
    pub const fn line(&self) -> Option<usize> {
        self.line
    }

    /// The key, as `section.key`, where it is about one.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// What is wrong and what to write instead, without the line.
    pub fn says(&self) -> &str {
        &self.sentence
    }

    pub(crate) fn at(line: Option<usize>, key: &str, sentence: String) -> Self {
        Self { line, key: Some(key.to_owned()), sentence }
    }

    pub(crate) fn syntax(line: Option<usize>, sentence: String) -> Self {
        Self { line, key: None, sentence }
    }

    pub(crate) fn missing(key: &str, example: &str) -> Self {
        let sentence = format!("`{key}` is missing: write for example `{example}`");
        Self::at(None, key, sentence)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}", self.sentence)
    }
}

impl std::error::Error for ConfigError {}

/// What somebody wrote, short enough for a sentence.
pub(crate) fn shorten(text: &str) -> String {
    const MOST: usize = 60;
    let shown: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST).is_some() { format!("{shown}…") } else { shown }
}
