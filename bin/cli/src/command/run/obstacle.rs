//! Why a program cannot be accelerated: a word for programs, a sentence for people.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a program cannot be accelerated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The library that it would be given is in none of these places.
    NoLibrary(Vec<PathBuf>),
    /// The library's path cannot be written in LD_PRELOAD.
    LibraryPath(PathBuf),
    /// The daemon cannot be reached; its client's sentence.
    Daemon(String),
    /// A file that is to be run has something about it.
    File(PathBuf, Flaw),
}

/// What a file has about it that keeps the library out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It loads no libraries.
    Static,
    /// The same, in a file that can lie anywhere in memory.
    StaticPie,
    /// Its language's runtime makes its own system calls.
    Go,
    /// Its loader is musl's, and the library is for glibc.
    Musl,
    /// Its loader is none that we know.
    OtherLoader(String),
    /// It is for 32-bit machines.
    Bits32,
    /// It is for machines of this kind, which ours is not.
    OtherMachine(String),
    /// It runs as another user (set-user-id).
    SetUser,
    /// It runs as another group (set-group-id).
    SetGroup,
    /// It has capabilities of its own.
    Capabilities,
    /// It is no program that can be understood.
    Malformed(String),
    /// It may be run, but not read.
    Unreadable(String),
}

/// The word for a daemon that cannot be reached.
pub(super) const NO_DAEMON: &str = "no_daemon";

impl Obstacle {
    /// For programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NoLibrary(_) => "no_library",
            Self::LibraryPath(_) => "library_path",
            Self::Daemon(_) => NO_DAEMON,
            Self::File(_, flaw) => flaw.word(),
        }
    }
}

impl Flaw {
    fn word(&self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::StaticPie => "static_pie",
            Self::Go => "go",
            Self::Musl => "musl",
            Self::OtherLoader(_) => "other_loader",
            Self::Bits32 => "32_bit",
            Self::OtherMachine(_) => "other_machine",
            Self::SetUser => "set_user_id",
            Self::SetGroup => "set_group_id",
            Self::Capabilities => "file_capabilities",
            Self::Malformed(_) => "malformed",
            Self::Unreadable(_) => "unreadable",
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLibrary(places) => {
                let places: Vec<_> = places.iter().map(|place| place.to_string_lossy()).collect();
                write!(
                    f,
                    "the library for programs is not there (looked for {}): install it, or name it \
                     in CALISTO_PRELOAD",
                    places.join(" and ")
                )
            }
            Self::LibraryPath(path) => write!(
                f,
                "{} has a blank or a colon in its path, which the loader takes for the end of a \
                 name: install it elsewhere",
                path.display()
            ),
            Self::Daemon(why) => f.write_str(why),
            Self::File(path, flaw) => flaw.write(path, f),
        }
    }
}

impl Flaw {
    fn write(&self, path: &Path, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = path.display();
        match self {
            Self::Static | Self::StaticPie => {
                let how = if *self == Self::Static { "" } else { " (static-pie)" };
                write!(f, "{path} is statically linked{how}: no library can be loaded into it")
            }
            Self::Go => write!(
                f,
                "{path} is a Go program: it makes system calls of its own, past every library"
            ),
            Self::Musl => {
                write!(f, "{path} is linked against musl, and the library needs glibc")
            }
            Self::OtherLoader(loader) => {
                write!(f, "{path} is started by the loader {loader}, and the library needs glibc's")
            }
            Self::Bits32 => write!(f, "{path} is a 32-bit program, and the library is 64-bit"),
            Self::OtherMachine(machine) => {
                write!(f, "{path} is for {machine}, and the library is for this machine")
            }
            Self::SetUser => write!(
                f,
                "{path} runs as its owner (set-user-id), so the loader ignores the library: start \
                 it as its owner"
            ),
            Self::SetGroup => write!(
                f,
                "{path} runs as its group (set-group-id), so the loader ignores the library: start \
                 it in that group"
            ),
            Self::Capabilities => write!(
                f,
                "{path} has file capabilities, so the loader ignores the library: remove them \
                 (setcap -r) and start it as root, or on ports that need none"
            ),
            Self::Malformed(why) => write!(f, "{path} is no program that can be understood: {why}"),
            Self::Unreadable(why) => {
                write!(f, "{path} cannot be read, so nobody knows what it would take: {why}")
            }
        }
    }
}
