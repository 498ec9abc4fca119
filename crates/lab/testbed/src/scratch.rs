//! A directory for the files of a run.

use std::fs::DirBuilder;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Gone with this value.
pub struct ScratchDir(PathBuf);

impl ScratchDir {
    /// A fresh directory that only its owner can read.
    ///
    /// # Errors
    /// The directory for temporary files cannot be written.
    pub fn new(name: &str) -> Result<Self> {
        for attempt in 0..100 {
            let name = format!("calisto-{name}-{}-{attempt}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::other("a hundred names are taken"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // What cannot be removed is the temporary directory's to forget.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
