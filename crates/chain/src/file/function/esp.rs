//! `kind = "esp"`.

use crate::file::FileError;
use crate::file::section::{Section, text};

/// Settings of a tunnel gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EspPart {
    /// The file with its associations and keys; relative to the folder of the chain's file.
    pub keys: String,
}

pub(super) fn read(section: &mut Section<'_>) -> Result<EspPart, FileError> {
    Ok(EspPart { keys: section.required("keys", "keys = \"tunnel.keys\"", text(4095))? })
}
