//! The programs that are measured: real ones where the system has them, and small ordinary ones in
//! C that know of nothing but POSIX, compiled where they run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testbed::ScratchDir;

use crate::error::{Error, OrNeeds};

/// Where Debian keeps daemons, outside the PATH of ordinary users.
const ALSO: [&str; 2] = ["/usr/sbin", "/sbin"];

/// A program by its name, or what to install. `package` is Debian's that has it.
pub(crate) fn find(name: &'static str, package: &str) -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(ALSO.map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file());
    let advice = || format!("{name} is missing: script/install-missing {name}={package}");
    found.ok_or_else(advice).or_needs("program to measure")
}

/// A program in C.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    name: &'static str,
    text: &'static str,
}

impl Source {
    /// A program called `name` whose whole source is `text`.
    pub(crate) const fn new(name: &'static str, text: &'static str) -> Self {
        Self { name, text }
    }

    /// The name of its program's file.
    pub(crate) fn name(self) -> &'static str {
        self.name
    }
}

/// A server that sends back what comes: `ADDRESS PORT [spin]`.
pub(crate) const EPOLL_ECHO: Source =
    Source::new("epoll_echo", include_str!("programs/epoll_echo.c"));

/// Its client on the same host: `ADDRESS PORT MILLISECONDS [spin]`.
pub(crate) const ECHO_ASK: Source = Source::new("echo_ask", include_str!("programs/echo_ask.c"));

/// A server that reads files: `ADDRESS PORT`.
pub(crate) const READ_ZERO: Source = Source::new("read_zero", include_str!("programs/read_zero.c"));

/// A server that accepts, receives, sends and closes: `ADDRESS PORT [hoard]`.
pub(crate) const PLAIN_SERVER: Source =
    Source::new("plain_server", include_str!("programs/plain_server.c"));

/// A compiled program; gone with this value.
pub(crate) struct Compiled {
    _folder: ScratchDir,
    program: PathBuf,
}

impl Compiled {
    /// Compiles it.
    pub(crate) fn new(source: Source) -> Result<Self, Error> {
        let Source { name, text } = source;
        let folder = ScratchDir::new(name).or_needs("folder for a program")?;
        let (file, program) =
            (folder.path().join(name).with_extension("c"), folder.path().join(name));
        std::fs::write(&file, text).or_needs("source file")?;
        let mut compiler = Command::new(find("cc", "gcc")?);
        compiler.arg("-O2").arg(&file).arg("-o").arg(&program).stdin(Stdio::null());
        let output = compiler.output().or_needs("C compiler")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(said).or_needs("program in C");
        }
        Ok(Self { _folder: folder, program })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let told = find("no-such-program", "its-package").expect_err("nobody has it").to_string();
        assert!(told.contains("no-such-program=its-package"), "{told}");
        assert!(find("sh", "dash").is_ok());
    }

    #[test]
    fn every_source_compiles_and_its_program_says_how_it_is_used() {
        for source in [EPOLL_ECHO, ECHO_ASK, READ_ZERO, PLAIN_SERVER] {
            let compiled = Compiled::new(source).expect("there is a compiler");
            let told = Command::new(compiled.path()).output().expect("it runs");
            let told = String::from_utf8_lossy(&told.stderr).into_owned();
            assert!(told.starts_with(&format!("usage: {}", source.name)), "{told}");
        }
    }
}
