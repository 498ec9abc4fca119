//! Reads the file that describes a chain.

use std::path::{Path, PathBuf};

use chain::file::ChainFile;
use sys::regular_file;

use crate::failure::Failure;

/// Reads a chain's file; with it the folder that other files' names in it are relative to.
pub(super) fn read(path: &Path) -> Result<(ChainFile, PathBuf), Failure> {
    let shown = path.display();
    let text = regular_file::read_text(path, chain::file::FILE_BYTES_MAX as u64)
        .map_err(|error| Failure::new(format!("cannot read {shown}: {error}")))?;
    let file = ChainFile::parse(&text, &shown.to_string()).map_err(Failure::new)?;
    Ok((file, path.parent().unwrap_or(Path::new("")).to_owned()))
}
