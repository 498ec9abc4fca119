//! What would run: a program's file, the interpreter of a script, the program behind `env`.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use object::read::ReadCache;
use rustix::io::Errno;

use super::elf;
use super::obstacle::{Flaw, Obstacle};

/// Bytes of a script's first line that the kernel reads.
const FIRST_LINE_BYTES: usize = 256;
/// Scripts whose interpreter is a script: the kernel gives up as early, and `env` counts for one.
const DEPTH_MAX: usize = 8;
/// What runs a file that is neither a program nor says who runs it (execvp(3)).
const SHELL: &str = "/bin/sh";
/// Where programs are looked up when PATH is not set (execvp(3)).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Who runs it: whether a set-user-id bit makes it somebody else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// What would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Looked {
    /// The program, then who interprets it.
    pub(crate) files: Vec<PathBuf>,
    /// What keeps a library out of the last of them.
    pub(crate) obstacle: Option<Obstacle>,
}

/// Why nothing would run.
#[derive(Debug)]
pub(crate) enum NotRun {
    /// There is no such program, or it may not be run: what exec would say.
    Program(io::Error),
    /// A script is there, and who is to interpret it is not, or may not be run. exec would say it
    /// of the script.
    Interpreter {
        /// As the script names it.
        interpreter: PathBuf,
        /// The script.
        script: PathBuf,
        /// What is wrong with the interpreter.
        error: io::Error,
    },
}

impl From<io::Error> for NotRun {
    fn from(error: io::Error) -> Self {
        Self::Program(error)
    }
}

/// Looks at what `command` would run, found by `path` (the variable).
///
/// # Errors
/// Nothing would run.
pub(crate) fn look(
    command: &[OsString],
    path: Option<&OsStr>,
    runner: Runner,
) -> Result<Looked, NotRun> {
    let (program, words) =
        command.split_first().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut words = words.to_vec();
    let mut file = find(program, path)?;
    let mut files = Vec::new();
    loop {
        files.push(file.clone());
        let next = match head(&file) {
            Err(error) => Next::Flaw(Flaw::Unreadable(error.to_string())),
            Ok(head) => match interpreter(&head) {
                Some((interpreter, word)) => {
                    // The kernel passes on one word, whatever blanks are in it, and then the file.
                    words = word.into_iter().chain([file.clone().into()]).collect();
                    Next::File(interpreter)
                }
                None if head.starts_with(b"\x7fELF") => look_into(&file, runner),
                None => Next::File(SHELL.into()),
            },
        };
        let is_interpreter = matches!(next, Next::File(_));
        let next = match next {
            Next::Fine => behind_env(&file, &words),
            Next::Flaw(flaw) => {
                return Ok(Looked { files, obstacle: Some(Obstacle::File(file, flaw)) });
            }
            Next::File(next) => Some((next.into_os_string(), words)),
        };
        match next {
            Some((next, rest)) if files.len() < DEPTH_MAX => {
                words = rest;
                file = match find(&next, path) {
                    Ok(found) => found,
                    Err(error) if is_interpreter => {
                        let interpreter = next.into();
                        return Err(NotRun::Interpreter { interpreter, script: file, error });
                    }
                    // That it is missing, `env` will say.
                    Err(_) => return Ok(Looked { files, obstacle: None }),
                };
            }
            _ => return Ok(Looked { files, obstacle: None }),
        }
    }
}

enum Next {
    /// It takes libraries.
    Fine,
    Flaw(Flaw),
    /// This one runs it.
    File(PathBuf),
}

/// As execvp(3) looks it up.
fn find(program: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, io::Error> {
    let may_run = |file: &Path| {
        let data = file.metadata()?;
        let is_program = data.is_file() && data.permissions().mode() & 0o111 != 0;
        if is_program { Ok(()) } else { Err(io::Error::from(io::ErrorKind::PermissionDenied)) }
    };
    if program.as_bytes().contains(&b'/') {
        let file = PathBuf::from(program);
        return may_run(&file).map(|()| file);
    }
    let mut found = Err(io::Error::from(io::ErrorKind::NotFound));
    for folder in std::env::split_paths(path.unwrap_or(OsStr::new(DEFAULT_PATH))) {
        let file = folder.join(program);
        match may_run(&file) {
            Ok(()) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => found = Err(error),
            Err(_) => {}
        }
    }
    found
}

fn head(file: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(FIRST_LINE_BYTES);
    File::open(file)?.take(FIRST_LINE_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Who interprets a file that begins so, and the word that it is given.
fn interpreter(head: &[u8]) -> Option<(PathBuf, Option<OsString>)> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let line = line.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (interpreter, word) = line.split_at(end);
    let word = word.trim_ascii();
    let word = (!word.is_empty()).then(|| OsString::from_vec(word.to_vec()));
    (!interpreter.is_empty()).then(|| (PathBuf::from(OsStr::from_bytes(interpreter)), word))
}

/// What `env` starts, if the file is `env`: it changes the environment, and is replaced.
fn behind_env(file: &Path, words: &[OsString]) -> Option<(OsString, Vec<OsString>)> {
    if file.file_name() != Some(OsStr::new("env")) {
        return None;
    }
    let words = words.iter().flat_map(|word| match word.as_bytes().strip_prefix(b"-S") {
        // A script has one word, in which these are many.
        Some(many) => many.split(u8::is_ascii_whitespace).filter(|one| !one.is_empty()).collect(),
        None => vec![word.as_bytes()],
    });
    let mut rest = words
        .skip_while(|word| word.starts_with(b"-") || word.contains(&b'='))
        .map(|word| OsString::from_vec(word.to_vec()));
    Some((rest.next()?, rest.collect()))
}

fn look_into(path: &Path, runner: Runner) -> Next {
    let looked = File::open(path).and_then(|file| {
        let data = file.metadata()?;
        Ok((privilege(&data, has_capabilities(path), runner), elf::flaw(&ReadCache::new(file))))
    });
    match looked {
        // What a file is comes before who may run it: no change of rights mends it.
        Ok((privilege, flaw)) => flaw.or(privilege).map_or(Next::Fine, Next::Flaw),
        Err(error) => Next::Flaw(Flaw::Unreadable(error.to_string())),
    }
}

fn has_capabilities(path: &Path) -> bool {
    let mut value = [0; 64];
    match rustix::fs::getxattr(path, "security.capability", &mut value[..]) {
        Ok(bytes) => bytes > 0,
        Err(error) => error == Errno::RANGE,
    }
}

/// Whether the kernel has the loader distrust its environment (AT_SECURE): it does when exec gives
/// the program an id or a right that its caller has not.
fn privilege(data: &Metadata, has_capabilities: bool, runner: Runner) -> Option<Flaw> {
    const SET_USER: u32 = 0o4000;
    // Without the group's right to run it, the bit meant mandatory locks once.
    const SET_GROUP: u32 = 0o2010;
    let mode = data.mode();
    if mode & SET_USER != 0 && data.uid() != runner.uid {
        Some(Flaw::SetUser)
    } else if mode & SET_GROUP == SET_GROUP && data.gid() != runner.gid {
        Some(Flaw::SetGroup)
    } else if has_capabilities && runner.uid != 0 {
        Some(Flaw::Capabilities)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
