//! Whose turn it is to end a daemon: that of one replacement, or of any number of `calisto down`.
//!
//! A daemon that hears of its end twice ends at once and resets connections, so two replacements
//! must not both ask; and of two daemons that start, one finds the place taken. The turn is a lock
//! (flock(2)) of a file beside the admin socket, which stays there: whoever removed it could lock a
//! file that others do not see any more.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::failure::Failure;

/// A turn; it ends with this, and with the process.
#[derive(Debug)]
pub(crate) struct Turn(#[expect(dead_code, reason = "it is open for as long as the turn is")] File);

impl Turn {
    /// That of a replacement: nobody else has any. Nothing where the socket's folder is not there
    /// yet, and so no daemon.
    ///
    /// # Errors
    /// Somebody has, or there can be no file beside the socket.
    pub(crate) fn to_replace(admin_socket: &Path) -> Result<Option<Self>, Failure> {
        let path = place(admin_socket);
        let file = match opened(&path, admin_socket) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| {
                let path = path.display();
                Failure::new(format!(
                    "cannot make {path} ({error}), by which one `calisto` at a time replaces a \
                     daemon; the daemon that runs was not touched"
                ))
            })?,
        };
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Err(Failure::new(
                "another `calisto up --replace` or `calisto down` is at work at this admin socket: try \
                 again when it is done",
            )),
            Err(TryLockError::Error(error)) => Err(Failure::new(error)),
        }
    }

    /// That of an end, which several may have; nothing where no such file can be.
    ///
    /// # Errors
    /// A replacement has it.
    pub(crate) fn to_end(admin_socket: &Path) -> Result<Option<Self>, Failure> {
        let Ok(file) = opened(&place(admin_socket), admin_socket) else { return Ok(None) };
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Err(Failure::new(
                "the daemon is just being replaced (`calisto up --replace`), and another request to \
                 end would reset its connections: try again when the next one serves, or end both \
                 processes by `kill`",
            )),
            Err(TryLockError::Error(_)) => Ok(None),
        }
    }
}

fn place(admin_socket: &Path) -> PathBuf {
    let mut path = admin_socket.as_os_str().to_owned();
    path.push(".replace");
    path.into()
}

/// The file, which is made where it is missing. It is the socket's owner's then, whoever makes it:
/// he could not replace his daemon any more if it stayed with root. One that is there already and
/// is neither his nor root's is another user's, who may hold it locked for ever.
fn opened(path: &Path, admin_socket: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(flags);
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let owner =
        std::fs::symlink_metadata(admin_socket).map_or(own, |data| (data.uid(), data.gid()));
    match options.open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        opened => return opened.and_then(|file| trusted(file, owner.0)),
    }
    if own.0 != 0 && owner.0 != own.0 {
        return Err(ErrorKind::PermissionDenied.into());
    }
    match options.create_new(true).open(path) {
        Ok(file) => {
            std::os::unix::fs::fchown(&file, Some(owner.0), Some(owner.1))?;
            Ok(file)
        }
        // Somebody else was quicker.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            options.create_new(false).open(path).and_then(|file| trusted(file, owner.0))
        }
        Err(error) => Err(error),
    }
}

/// The file, if it is root's or `owner`'s.
fn trusted(file: File, owner: u32) -> io::Result<File> {
    match file.metadata()?.uid() {
        user if user == 0 || user == owner => Ok(file),
        user => {
            let why = format!("it is of user {user}, who is not the admin socket's owner");
            Err(io::Error::new(ErrorKind::PermissionDenied, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replacement_is_alone_and_ends_are_not() {
        let socket = std::env::temp_dir().join(format!("calisto-turn-{}", std::process::id()));
        let first = Turn::to_end(&socket).expect("nobody replaces");
        assert!(first.is_some() && Turn::to_replace(&socket).is_err(), "it is ending");
        drop(first);
        let replacing = Turn::to_replace(&socket).expect("it is the first");
        let refused = Turn::to_replace(&socket).expect_err("one at a time");
        assert!(refused.to_string().starts_with("another `calisto up --replace`"), "{refused}");
        let refused = Turn::to_end(&socket).expect_err("it would hurry");
        assert!(refused.to_string().starts_with("the daemon is just being replaced"), "{refused}");
        drop(replacing);
        let ends = [(); 2].map(|()| Turn::to_end(&socket).expect("nobody replaces"));
        assert!(ends.iter().all(Option::is_some));
        assert!(Turn::to_replace(&socket).is_err(), "it is ending");
        drop(ends);
        assert!(Turn::to_replace(&socket).is_ok());
        std::fs::remove_file(place(&socket)).expect("it is ours");
    }

    #[test]
    fn where_no_file_can_be_nothing_is_replaced_and_ends_go_on() {
        let nowhere = Path::new("/proc/nowhere/admin.sock");
        assert!(Turn::to_replace(nowhere).expect("there is no folder, so no daemon").is_none());
        assert!(Turn::to_end(nowhere).expect("as ever").is_none());
        let refused = Turn::to_replace(Path::new("/dev/null/admin.sock")).expect_err("no folder");
        assert!(refused.to_string().ends_with("was not touched"), "{refused}");
    }

    #[test]
    fn a_file_that_is_neither_roots_nor_the_socket_owners_is_no_turn() {
        let socket = std::env::temp_dir().join(format!("calisto-turn-by-{}", std::process::id()));
        for path in [&socket, &place(&socket)] {
            std::fs::write(path, "").expect("there is room");
        }
        let own = |path: &Path, user| {
            std::os::unix::fs::chown(path, Some(user), None).expect("this test needs root");
        };
        for (of_socket, of_file, is_turn) in
            [(65534, 65534, true), (65534, 0, true), (65534, 65533, false), (0, 65533, false)]
        {
            own(&socket, of_socket);
            own(&place(&socket), of_file);
            let turn = Turn::to_replace(&socket).map(|turn| turn.is_some());
            assert_eq!(turn.unwrap_or(false), is_turn, "{of_socket} {of_file}");
            let turn = Turn::to_end(&socket).expect("nobody replaces");
            assert_eq!(turn.is_some(), is_turn, "{of_socket} {of_file}");
        }
        for path in [&socket, &place(&socket)] {
            std::fs::remove_file(path).expect("it is ours");
        }
    }

    #[test]
    fn the_file_is_the_socket_owners_whoever_makes_it() {
        let socket = std::env::temp_dir().join(format!("calisto-turn-of-{}", std::process::id()));
        std::fs::write(&socket, "").expect("there is room");
        std::os::unix::fs::chown(&socket, Some(65534), Some(65534)).expect("this test needs root");
        for take in [Turn::to_end, Turn::to_replace] {
            assert!(take(&socket).expect("nobody replaces").is_some());
            let data = std::fs::metadata(place(&socket)).expect("it was made");
            assert_eq!((data.uid(), data.gid(), data.mode() & 0o777), (65534, 65534, 0o600));
            std::fs::remove_file(place(&socket)).expect("it is ours");
        }
        std::fs::remove_file(&socket).expect("it is ours");
    }
}
