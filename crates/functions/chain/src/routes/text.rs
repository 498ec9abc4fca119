//! A file of routes as text.

use std::path::Path;

use super::file::FILE_BYTES_MAX;
use crate::error::ChainError;

/// A table as text; more than anybody would write is refused unread.
pub(crate) fn read_text(path: &Path) -> Result<String, ChainError> {
    let unreadable = |why: String| ChainError::Unreadable { path: path.display().to_string(), why };
    let bytes = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
    if bytes > FILE_BYTES_MAX {
        let why = format!("it has {bytes} bytes; allowed are {}", FILE_BYTES_MAX);
        return Err(unreadable(why));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        unreadable(format!("byte {at} is no text (UTF-8)"))
    })
}
