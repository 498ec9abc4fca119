//! A file of routes as text.

use std::path::Path;

use super::file::FILE_BYTES_MAX;
use crate::error::ChainError;

/// A table as text; more than anybody would write is refused unread.
pub(crate) fn read_text(path: &Path) -> Result<String, ChainError> {
    sys::regular_file::read_text(path, FILE_BYTES_MAX).map_err(|error| ChainError::Unreadable {
        path: path.display().to_string(),
        why: error.to_string(),
    })
}
