//! Reads the file that describes a chain.

use std::path::{Path, PathBuf};

use chain::file::ChainFile;

use crate::failure::Failure;

/// Reads a chain's file; with it the folder that other files' names in it are relative to.
pub(super) fn read(path: &Path) -> Result<(ChainFile, PathBuf), Failure> {
    let shown = path.display();
    let unreadable =
        |why: &dyn std::fmt::Display| Failure::new(format!("cannot read {shown}: {why}"));
    let bytes = std::fs::metadata(path).map_err(|error| unreadable(&error))?.len();
    if bytes > chain::file::FILE_BYTES_MAX as u64 {
        let most = chain::file::FILE_BYTES_MAX;
        return Err(unreadable(&format!("it has {bytes} bytes; allowed are {most}")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(&error))?;
    let file = ChainFile::parse(&text, &shown.to_string()).map_err(Failure::new)?;
    Ok((file, path.parent().unwrap_or(Path::new("")).to_owned()))
}
