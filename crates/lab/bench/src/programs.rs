//! Where the programs are that the cases start.

use std::path::{Path, PathBuf};

use crate::error::{Error, OrNeeds};

/// The daemon's program.
pub(crate) fn daemon() -> Result<PathBuf, Error> {
    find("calistod")
}

/// The operator's command.
pub(crate) fn command() -> Result<PathBuf, Error> {
    find("calisto")
}

/// This program, to be started again as somebody else.
pub(crate) fn ourselves() -> Result<PathBuf, Error> {
    std::env::current_exe().or_needs("path of this program")
}

/// A program: beside this one, or where its tests' and examples' parents are, or on the PATH.
fn find(name: &str) -> Result<PathBuf, Error> {
    let own = ourselves()?;
    let above = own.ancestors().skip(1).take(2).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    above
        .chain(std::env::split_paths(&path).filter(|folder| folder.is_absolute()))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| format!("build {name} beside this program with `cargo build --release`"))
        .or_needs("program of the project")
}
