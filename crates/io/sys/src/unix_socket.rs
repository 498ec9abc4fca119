//! UNIX sockets: the peer's credentials, and what it may pass.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::SysError;
use crate::socket::set_int;

/// SO_PASSRIGHTS of Linux 6.16, which libc does not name yet; the same on every architecture that
/// we run on.
const SO_PASSRIGHTS: libc::c_int = 83;

/// The peer's credentials, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Its process; zero when that is in a PID namespace which ours does not see.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// The credentials of the process that connected a UNIX socket (`SO_PEERCRED`).
///
/// # Errors
/// It is no connected UNIX socket.
pub fn peer_credentials(socket: BorrowedFd<'_>) -> Result<Credentials, SysError> {
    let mut who = MaybeUninit::<libc::ucred>::zeroed();
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `who` has room for `length` bytes, and any bytes are a valid `ucred`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            who.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(SysError::last("learn who connected", ""));
    }
    // SAFETY: it was zero, and the kernel wrote the rest.
    let who = unsafe { who.assume_init() };
    Ok(Credentials { pid: u32::try_from(who.pid).unwrap_or(0), uid: who.uid, gid: who.gid })
}

/// From now on sending descriptors to this UNIX socket, or to one that it accepts, fails. A message
/// that is read may otherwise bring the last descriptor of a socket that lingers, and then the
/// reader waits while it is closed. False on kernels older than 6.16, which cannot.
pub fn refuse_descriptors(socket: BorrowedFd<'_>) -> bool {
    pass_rights(socket, 0)
}

/// Takes [`refuse_descriptors`] back. False on kernels older than 6.16, which have nothing to take
/// back.
pub fn accept_descriptors(socket: BorrowedFd<'_>) -> bool {
    pass_rights(socket, 1)
}

fn pass_rights(socket: BorrowedFd<'_>, may: libc::c_int) -> bool {
    // SAFETY: the value is an int that lives as long as the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const may).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    result == 0
}

/// Makes room for `bytes` bytes of messages not read yet, bookkeeping included; less if
/// CAP_NET_ADMIN is missing.
pub fn make_room(socket: BorrowedFd<'_>, bytes: u32) {
    let bytes = libc::c_int::try_from(bytes / 2).unwrap_or(libc::c_int::MAX);
    if set_int(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes).is_err() {
        let _ = set_int(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_other_end_of_a_pair_is_this_process() {
        let (one, _other) = UnixStream::pair().expect("descriptors are left");
        let who = peer_credentials(one.as_fd()).expect("it is connected");
        assert_eq!(who.pid, std::process::id());
        assert_eq!(who.uid, rustix::process::getuid().as_raw());
        assert_eq!(who.gid, rustix::process::getgid().as_raw());
    }

    #[test]
    fn a_socket_of_another_kind_has_nobody_at_its_other_end() {
        let file = std::fs::File::open("/dev/null").expect("it is there");
        assert!(peer_credentials(file.as_fd()).is_err());
        assert!(!refuse_descriptors(file.as_fd()));
        assert!(!accept_descriptors(file.as_fd()));
    }
}
