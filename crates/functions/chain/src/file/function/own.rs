//! Kinds of functions that somebody else has registered, and what their makers are given.
//!
//! Settings of such a function are read when it is made, in the text of the chain's file once more,
//! so that what is wrong is said with file, line and field as of all others.

use std::error::Error;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::PortId;
use calisto_nf::Own;

use crate::file::FileError;
use crate::file::section::{Section, Source, flag, list, number, text};

/// Why a function cannot be made of its settings: what [`Given`] says of them, or any sentence.
pub type NotMade = Box<dyn Error + Send + Sync>;

type Make = dyn Fn(&mut Given<'_>) -> Result<Box<dyn Own>, NotMade> + Send + Sync;

/// Bytes of a text among settings, at most.
const TEXT_BYTES_MAX: usize = 4096;
/// Texts of a list among settings, at most.
const TEXTS_MAX: usize = 256;

/// Kinds of functions beside ours.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    kinds: Vec<Kind>,
}

/// One of them.
#[derive(Clone)]
pub(super) struct Kind {
    name: &'static str,
    make: Arc<Make>,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Kinds {
    /// These, and functions of the kind `name`, which `make` makes: one for each slice, and others
    /// when the chain's file is read again.
    ///
    /// # Panics
    /// There is a kind of that name, ours or one before.
    #[must_use]
    pub fn with(
        mut self,
        name: &'static str,
        make: impl Fn(&mut Given<'_>) -> Result<Box<dyn Own>, NotMade> + Send + Sync + 'static,
    ) -> Self {
        let is_taken = super::KINDS.contains(&name) || self.find(name).is_some();
        assert!(!is_taken, "there is a kind {name:?} already");
        self.kinds.push(Kind { name, make: Arc::new(make) });
        self
    }

    pub(super) fn find(&self, name: &str) -> Option<Kind> {
        self.kinds.iter().find(|kind| kind.name == name).cloned()
    }
}

/// A function of such a kind, as the file has it.
#[derive(Clone)]
pub struct OwnPart {
    kind: Kind,
    /// The whole file, its name, and the line in which the function begins.
    text: Arc<str>,
    file: Arc<str>,
    line: usize,
    /// What its table says, in one way of writing.
    settings: Arc<str>,
}

impl OwnPart {
    pub(super) fn new(kind: Kind, section: &Section<'_>) -> Self {
        let (Source { text, file }, line) = section.place();
        let settings = section.settings().into();
        Self { kind, text: (*text).into(), file: (*file).into(), line, settings }
    }

    /// Its kind, as the file writes it.
    pub const fn kind(&self) -> &'static str {
        self.kind.name
    }

    /// Makes it. `folder` is where the chain's file lies, `port` says which port an interface is.
    pub(crate) fn make(
        &self,
        folder: &Path,
        port: &dyn Fn(&str) -> Option<PortId>,
    ) -> Result<Box<dyn Own>, NotMade> {
        let source = Source { text: &self.text, file: &self.file };
        let document = source.document()?;
        let section = Section::in_line(&source, document.get_ref(), "function", self.line);
        let mut section = section.ok_or("it is not where it was in its file")?;
        // That is settled.
        section.optional("kind", |_| Ok(()))?;
        let mut given = Given { section, folder, port };
        let made = (self.kind.make)(&mut given)?;
        given.section.finish()?;
        Ok(made)
    }
}

impl fmt::Debug for OwnPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in line {} of {}", self.kind, self.line, self.file)
    }
}

impl PartialEq for OwnPart {
    fn eq(&self, other: &Self) -> bool {
        // Not where it stands: other functions of the file come and go.
        (self.kind.name, &self.settings) == (other.kind.name, &other.settings)
    }
}

impl Eq for OwnPart {}

/// What a function is made of: its settings and its ports. Each setting that is asked for is known
/// to the file by that; one that nobody asks for is refused, with the nearest that is known.
pub struct Given<'a> {
    section: Section<'a>,
    folder: &'a Path,
    port: &'a dyn Fn(&str) -> Option<PortId>,
}

impl Given<'_> {
    /// A text; nothing: it is not there.
    ///
    /// # Errors
    /// It is no text, or too long.
    pub fn text(&mut self, key: &'static str) -> Result<Option<String>, FileError> {
        self.section.optional(key, text(TEXT_BYTES_MAX))
    }

    /// Several texts; none: it is not there.
    ///
    /// # Errors
    /// It is no list of texts, or one is too long.
    pub fn texts(&mut self, key: &'static str) -> Result<Vec<String>, FileError> {
        let texts = self.section.optional(key, list(0..=TEXTS_MAX, text(TEXT_BYTES_MAX)))?;
        Ok(texts.unwrap_or_default())
    }

    /// A whole number; nothing: it is not there.
    ///
    /// # Errors
    /// It is none, or not in the range.
    pub fn number(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, FileError> {
        self.section.optional(key, number(range))
    }

    /// Whether something is so; nothing: it is not there.
    ///
    /// # Errors
    /// It is neither true nor false.
    pub fn flag(&mut self, key: &'static str) -> Result<Option<bool>, FileError> {
        self.section.optional(key, flag)
    }

    /// The interface that is named, as the port that it is in packets; nothing: none is.
    ///
    /// # Errors
    /// It is no port of the chain.
    pub fn port(&mut self, key: &'static str) -> Result<Option<PortId>, FileError> {
        let Some(name) = self.text(key)? else { return Ok(None) };
        let found = (self.port)(&name);
        found.map(Some).ok_or_else(|| self.refuse(key, format!("is {name}, no port of the chain")))
    }

    /// The port that an interface is; nothing: it is none of the chain.
    pub fn port_named(&self, name: &str) -> Option<PortId> {
        (self.port)(name)
    }

    /// A file that is named relative to the chain's own; nothing: none is.
    ///
    /// # Errors
    /// It is no text.
    pub fn path(&mut self, key: &'static str) -> Result<Option<PathBuf>, FileError> {
        Ok(self.text(key)?.map(|path| self.folder.join(path)))
    }

    /// An error about a setting: `says` goes on behind its name.
    pub fn refuse(&self, key: &str, says: impl Into<String>) -> FileError {
        self.section.error(key, says)
    }
}

#[cfg(test)]
mod tests;
