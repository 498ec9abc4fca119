//! A file that a person names, if it is a regular one; as text whole, if it is not too long.
//!
//! A name may lead anywhere: to a pipe, whose opening waits until somebody writes, or to a device
//! that has no end. Nobody who reads a configuration should wait for either, so that what was
//! opened is looked at before anything is read, and more than the caller allows never is.

use std::fmt;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Why a file is not read: the end of a sentence that begins with its name.
#[derive(Debug)]
pub enum FileError {
    /// The kernel says so.
    Refused(io::Error),
    /// It is a pipe, a device, a folder or a socket: which, with its article.
    NotRegular(&'static str),
    /// It is longer than that many bytes.
    TooLong {
        /// How many are allowed.
        bytes_max: u64,
    },
    /// A line of it, counted from 1, is not UTF-8.
    NotText {
        /// The first such line.
        line: usize,
    },
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::NotRegular(kind) => write!(f, "it is {kind}; name a regular file"),
            Self::TooLong { bytes_max } => {
                write!(f, "it is longer than the {} that are allowed", Size(*bytes_max))
            }
            Self::NotText { line } => write!(f, "line {line} is no text (UTF-8)"),
        }
    }
}

impl std::error::Error for FileError {}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Refused(error)
    }
}

/// Bytes in the largest unit that divides them.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kib, mib) = (1 << 10, 1 << 20);
        match self.0 {
            bytes if bytes > 0 && bytes % mib == 0 => write!(f, "{} MiB", bytes / mib),
            bytes if bytes > 0 && bytes % kib == 0 => write!(f, "{} KiB", bytes / kib),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

/// Opens a regular file for reading, without blocking.
///
/// # Errors
/// The kernel refuses, or it is no regular file.
pub fn open(path: &Path) -> Result<File, FileError> {
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    match kind(file.metadata()?.file_type()) {
        None => Ok(file),
        Some(kind) => Err(FileError::NotRegular(kind)),
    }
}

/// The text of a regular file that has at most `bytes_max` bytes.
///
/// # Errors
/// As [`open`]; it is longer than that, or not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String, FileError> {
    let file = open(path)?;
    // The length is not asked for: files of /proc have none, and others grow meanwhile.
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(FileError::TooLong { bytes_max });
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
        FileError::NotText { line }
    })
}

/// What it is instead of a regular file.
fn kind(is: FileType) -> Option<&'static str> {
    if is.is_file() {
        return None;
    }
    Some(if is.is_dir() {
        "a folder"
    } else if is.is_fifo() {
        "a pipe (FIFO)"
    } else if is.is_char_device() || is.is_block_device() {
        "a device"
    } else {
        "a socket"
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// What is said of a file that `make` makes.
    fn said(name: &str, bytes_max: u64, make: impl FnOnce(&Path)) -> String {
        let name = format!("calisto-regular-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        make(&path);
        let read = read_text(&path, bytes_max);
        let removed = std::fs::remove_file(&path);
        removed.expect("it is ours");
        read.unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn a_pipe_that_nobody_writes_is_refused_at_once() {
        let fifo = |path: &Path| {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            let made =
                rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0);
            made.expect("the temporary folder is ours");
        };
        assert_eq!(said("fifo", 9, fifo), "it is a pipe (FIFO); name a regular file");
    }

    #[test]
    fn a_device_without_an_end_and_a_folder_are_refused() {
        for (path, is) in [("/dev/zero", "it is a device"), ("/", "it is a folder")] {
            let error = read_text(&PathBuf::from(path), 9).expect_err(path).to_string();
            assert!(error.starts_with(is), "{path}: {error}");
        }
        let error = read_text(Path::new("/nowhere/at/all"), 9).expect_err("it is not there");
        assert!(error.to_string().starts_with("No such file"), "{error}");
    }

    #[test]
    fn a_file_may_have_as_many_bytes_as_are_allowed_and_none_more() {
        let write = |text: &'static [u8]| {
            move |path: &Path| std::fs::write(path, text).expect("the temporary folder is ours")
        };
        assert_eq!(said("full", 4, write(b"1234")), "1234");
        let long = said("long", 4, write(b"12345"));
        assert_eq!(long, "it is longer than the 4 bytes that are allowed");
        let sizes = [1 << 20, 3 << 10, 1000].map(|bytes| Size(bytes).to_string());
        assert_eq!(sizes, ["1 MiB", "3 KiB", "1000 bytes"]);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_with_their_line() {
        let write = |path: &Path| std::fs::write(path, b"one\ntwo\n\xff\n").expect("it is ours");
        assert_eq!(said("bytes", 99, write), "line 3 is no text (UTF-8)");
    }

    #[test]
    fn a_file_of_proc_which_has_no_length_is_read() {
        assert!(!read_text(Path::new("/proc/self/comm"), 99).expect("proc is mounted").is_empty());
    }
}
