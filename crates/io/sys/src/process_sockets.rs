//! Which sockets a process has open, as /proc tells.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;

use rustix::io::Errno;

use crate::SysError;

/// The inodes ([`crate::socket::inode_of`]) of the sockets that process `pid` has open. A socket
/// that is on its way through a UNIX socket is in no process; so is one that a thread has in a
/// table of its own (CLONE_FILES left out), unless that thread is the first.
///
/// # Errors
/// The process has ended, or is another user's.
pub fn inodes_of(pid: u32) -> Result<BTreeSet<u64>, SysError> {
    let failed = |error: io::Error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let advice = match errno {
            Errno::ACCESS | Errno::PERM => "CAP_SYS_PTRACE is needed: run as root",
            _ => "it may have ended already",
        };
        SysError::new(format!("list the sockets of process {pid}"), errno, advice)
    };
    let mut inodes = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // One that was closed meanwhile is not open.
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        inodes.extend(inode_in(target.as_os_str()));
    }
    Ok(inodes)
}

/// Reads "socket:[12345]".
fn inode_in(target: &OsStr) -> Option<u64> {
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;
    use crate::socket::inode_of;

    #[test]
    fn a_socket_is_listed_for_as_long_as_it_is_open() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is left");
        let inode = inode_of(socket.as_fd()).expect("it is a socket");
        let open = inodes_of(std::process::id()).expect("we live");
        assert!(open.contains(&inode));
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat is everywhere");
        assert!(!inodes_of(child.id()).expect("it waits").contains(&inode), "closed on exec");
        drop(child.stdin.take());
        child.wait().expect("it is our child");
        assert!(inodes_of(child.id()).is_err(), "it has ended");
    }

    #[test]
    fn only_a_link_to_a_socket_names_one() {
        assert_eq!(inode_in(OsStr::new("socket:[4711]")), Some(4711));
        for other in ["pipe:[4711]", "socket:[]", "socket:[4711", "/tmp/socket:[1]", "socket:[-1]"]
        {
            assert_eq!(inode_in(OsStr::new(other)), None, "{other}");
        }
    }
}
