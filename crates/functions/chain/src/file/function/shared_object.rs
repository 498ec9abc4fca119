//! `kind = "shared-object"`.

use crate::file::FileError;
use crate::file::section::{Section, list, text};

/// A function that was compiled elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedObjectPart {
    /// The object, relative to the chain's file.
    pub file: String,
    /// What it is made of.
    pub arguments: Vec<String>,
}

/// Bytes of a path, at most: as the kernel's.
const PATH_BYTES_MAX: usize = 4095;
const ARGUMENTS_MAX: usize = 256;
const ARGUMENT_BYTES_MAX: usize = 4096;

pub(super) fn read(section: &mut Section<'_>) -> Result<SharedObjectPart, FileError> {
    let arguments = list(0..=ARGUMENTS_MAX, text(ARGUMENT_BYTES_MAX));
    Ok(SharedObjectPart {
        file: section.required("file", "file = \"mine.so\"", text(PATH_BYTES_MAX))?,
        arguments: section.optional("arguments", arguments)?.unwrap_or_default(),
    })
}
