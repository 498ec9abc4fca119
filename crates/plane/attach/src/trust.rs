//! Whether the process that listens is the daemon: a program hands it its sockets.
//!
//! The listener is root, or the program's own user; or it is the user to whom the socket's file and
//! its folder belong, and nobody else can put files there. Others could have made the file: in a
//! folder that everybody may write, or after the daemon's end.

use std::fs::Metadata;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use sys::SysError;

/// The user whom everybody trusts.
const ROOT: u32 = 0;

/// Who listens at the other end of a connection.
pub(crate) fn listener_of(socket: BorrowedFd<'_>) -> Result<u32, SysError> {
    sys::unix_socket::peer_credentials(socket).map(|who| who.uid)
}

/// Whether user `uid`, who listens at `path`, is the daemon's for this process.
pub(crate) fn is_daemon_at(path: &Path, uid: u32) -> bool {
    let own = rustix::process::geteuid().as_raw();
    if uid == ROOT || uid == own {
        return true;
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match (std::fs::symlink_metadata(path), std::fs::metadata(folder)) {
        (Ok(file), Ok(folder)) => file.uid() == uid && is_only_for(&folder, uid),
        _ => false,
    }
}

/// Whether two numbers stand for the same user. All users that this process's user namespace does
/// not map have one number, which therefore stands for none. For root no file is opened: a child
/// that is just forked asks this, and may be forbidden to open any.
pub(crate) fn is_same_user(one: u32, other: u32) -> bool {
    is_same_user_but(one, other, overflow_uid)
}

fn is_same_user_but(one: u32, other: u32, overflow_uid: impl FnOnce() -> u32) -> bool {
    one == other && (one == ROOT || one != overflow_uid())
}

/// The number of users without one: proc_sys_kernel(5).
fn overflow_uid() -> u32 {
    const USUAL: u32 = 65_534;
    let text = std::fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    text.trim().parse().unwrap_or(USUAL)
}

/// Whether nobody but that user and root can put files into the folder.
fn is_only_for(folder: &Metadata, uid: u32) -> bool {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    [ROOT, uid].contains(&folder.uid()) && folder.permissions().mode() & WRITABLE_BY_OTHERS == 0
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::chown;

    use super::*;

    const OTHER: u32 = 65_533;

    #[test]
    fn users_without_a_number_of_their_own_are_not_told_from_each_other() {
        assert!(is_same_user(ROOT, ROOT) && is_same_user(OTHER, OTHER));
        assert!(!is_same_user(ROOT, OTHER) && !is_same_user(overflow_uid(), overflow_uid()));
    }

    #[test]
    fn whether_root_is_root_opens_no_file() {
        assert!(is_same_user_but(ROOT, ROOT, || unreachable!("root is always mapped")));
        assert!(!is_same_user_but(OTHER, OTHER, || OTHER) && is_same_user_but(OTHER, OTHER, || 1));
    }

    #[test]
    fn another_user_is_the_daemon_only_where_nobody_else_can_put_files() {
        let folder = std::env::temp_dir().join(format!("calisto-trust-{}", std::process::id()));
        let path = folder.join("apps.sock");
        fs::create_dir_all(&folder).expect("the folder of temporary files is anybody's");
        fs::write(&path, "").expect("it is ours");
        let set = |mode: u32| fs::set_permissions(&folder, Permissions::from_mode(mode));
        set(0o755).expect("it is ours");
        assert!(is_daemon_at(&path, ROOT));
        assert!(!is_daemon_at(&path, OTHER), "the file is root's");
        chown(&path, Some(OTHER), None).expect("this test needs root");
        assert!(is_daemon_at(&path, OTHER), "root lets nobody else put a file there");
        set(0o1777).expect("it is ours");
        assert!(!is_daemon_at(&path, OTHER), "anybody could have made the file");
        chown(&folder, Some(OTHER), None).expect("this test needs root");
        set(0o755).expect("root may");
        assert!(is_daemon_at(&path, OTHER), "it is the folder's owner");
        assert!(!is_daemon_at(&folder.join("none"), OTHER));
        fs::remove_dir_all(&folder).expect("root may");
    }
}
