//! The socket at which applications connect to the daemon.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use sys::SysError;

use crate::peer::Peer;

/// Applications that may wait to be accepted.
pub(crate) const BACKLOG: i32 = 64;

/// A listening socket and its file, which goes when this drops.
#[derive(Debug)]
pub struct AttachListener {
    socket: OwnedFd,
    path: PathBuf,
    /// Device and inode of the file, so that only our own is removed.
    file: (u64, u64),
}

impl AttachListener {
    /// Listens on `path` with the permissions `mode` (0o660: owner and group may attach); makes the
    /// folder. A socket file that nobody answers is replaced.
    ///
    /// # Errors
    /// A daemon answers there already, the file is no socket, or the kernel refused.
    pub fn bind(path: &Path, mode: u32) -> Result<Self, SysError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| failed(path, errno_of(&error)))?;
        }
        Self::bind_in_folder(path, mode)
    }

    /// The same in a folder that is there: it needs no right to make one.
    ///
    /// # Errors
    /// As [`Self::bind`]; or the folder is gone.
    pub fn bind_in_folder(path: &Path, mode: u32) -> Result<Self, SysError> {
        let failed = |errno| failed(path, errno);
        let failed_io = |error: std::io::Error| failed(errno_of(&error));
        let address = SocketAddrUnix::new(path).map_err(failed)?;
        remove_left_over(path, &address)?;
        let socket = socket(SocketFlags::NONBLOCK).map_err(failed)?;
        // Connections inherit it. An older kernel that cannot has `Peer` throw them away.
        let _ = sys::unix_socket::refuse_descriptors(socket.as_fd());
        rustix::net::bind(&socket, &address).map_err(failed)?;
        let metadata = std::fs::symlink_metadata(path).map_err(failed_io)?;
        let listener =
            Self { socket, path: path.to_owned(), file: (metadata.dev(), metadata.ino()) };
        // Nobody can connect before `listen`, so nobody comes in by the mode of the umask.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(failed_io)?;
        rustix::net::listen(&listener.socket, BACKLOG).map_err(failed)?;
        Ok(listener)
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next application that has connected, if one has; never waits.
    ///
    /// # Errors
    /// Out of descriptors or memory. The application still waits, so the listener stays readable:
    /// try again later, not at once.
    pub fn accept(&self) -> Result<Option<Peer>, SysError> {
        accept(self.socket.as_fd())
    }
}

impl AsFd for AttachListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for AttachListener {
    fn drop(&mut self) {
        let found = std::fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The next one that has connected to a socket that does not block.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> Result<Option<Peer>, SysError> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    match rustix::net::accept_with(listener, flags) {
        Ok(socket) => Peer::new(socket).map(Some),
        // The last: it has gone while it waited.
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(errno) => Err(SysError::new(
            "accept an application",
            errno,
            "raise the limit of open files (ulimit -n)",
        )),
    }
}

/// A socket of the right kind.
pub(crate) fn socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

fn failed(path: &Path, errno: Errno) -> SysError {
    let advice = "name another path, or one that this user may write";
    SysError::new(format!("listen on {}", path.display()), errno, advice)
}

pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Removes a socket file that a killed daemon has left, and nothing else.
fn remove_left_over(path: &Path, address: &SocketAddrUnix) -> Result<(), SysError> {
    let doing = || format!("listen on {}", path.display());
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SysError::new(doing(), errno_of(&error), "name another path")),
    };
    if !metadata.file_type().is_socket() {
        let advice = "there is a file of that name that is no socket; name another path";
        return Err(SysError::new(doing(), Errno::EXIST, advice));
    }
    let probe = socket(SocketFlags::NONBLOCK).map_err(|errno| {
        SysError::new(doing(), errno, "raise the limit of open files (ulimit -n)")
    })?;
    match rustix::net::connect(&probe, address) {
        Err(Errno::CONNREFUSED) => match std::fs::remove_file(path) {
            Ok(()) => Ok(()),
            Err(error) => Err(SysError::new(
                doing(),
                errno_of(&error),
                "a left-over socket is in the way; remove it",
            )),
        },
        Err(Errno::PROTOTYPE) => {
            let advice = "a program answers there that is no calistod; name another path";
            Err(SysError::new(doing(), Errno::ADDRINUSE, advice))
        }
        Err(errno @ (Errno::ACCESS | Errno::PERM)) => {
            let advice = "the socket there is another user's; name another path";
            Err(SysError::new(doing(), errno, advice))
        }
        // Connected, or its queue is full (EAGAIN): it lives.
        _ => {
            let advice = "a daemon answers there already; stop it with `calisto down`, or name \
                          another path";
            Err(SysError::new(doing(), Errno::ADDRINUSE, advice))
        }
    }
}
