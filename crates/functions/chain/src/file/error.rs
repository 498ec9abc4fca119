//! Why a file is refused: which one, where in it, and what to write instead.

use std::fmt;

/// Why a file is refused; its text is one sentence for the person who wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    file: String,
    line: Option<usize>,
    field: String,
    sentence: String,
}

impl FileError {
    pub(crate) fn new(file: &str, line: Option<usize>, field: &str, sentence: String) -> Self {
        Self { file: file.to_owned(), line, field: field.to_owned(), sentence }
    }

    /// The line, from 1, where it is about one.
    pub const fn line(&self) -> Option<usize> {
        self.line
    }

    /// The field, as `section.key`; empty where it is about none.
    pub fn field(&self) -> &str {
        &self.field
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        f.write_str(": ")?;
        if !self.field.is_empty() {
            write!(f, "`{}` ", self.field)?;
        }
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for FileError {}
