//! Give up root for good.

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::SysError;

/// Turns the whole process into user `uid`, group `gid`, no other groups, no capabilities, and no
/// way to gain any (no_new_privs). Descriptors that are open stay usable: that is how the data
/// plane keeps its sockets and maps.
///
/// Call it before other threads start: capabilities belong to threads, and only the uid change
/// reaches the others. A process with more than one thread is refused.
///
/// # Errors
/// We are not root, other threads run, or the ids are refused. Some rights may be gone by then:
/// end the program.
pub fn drop_to(uid: u32, gid: u32) -> Result<(), SysError> {
    let doing = || format!("become user {uid}, group {gid}");
    if uid == 0 || gid == 0 {
        return Err(SysError::new(doing(), Errno::INVAL, "choose ids other than root's"));
    }
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        let advice = format!("{threads} threads run already: drop privileges before they start");
        return Err(SysError::new(doing(), Errno::BUSY, advice));
    }
    let checked = |result: libc::c_int| match result {
        0 => Ok(()),
        _ => Err(SysError::last(doing(), "start as root")),
    };
    // SAFETY: an empty list is read from nowhere.
    checked(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: takes plain numbers; glibc changes every thread.
    checked(unsafe { libc::setresgid(gid, gid, gid) })?;
    // SAFETY: as for the group.
    checked(unsafe { libc::setresuid(uid, uid, uid) })?;
    let no_caps = CapabilitySet::empty();
    let sets = CapabilitySets { effective: no_caps, permitted: no_caps, inheritable: no_caps };
    rustix::thread::set_capabilities(None, sets)
        .and_then(|()| rustix::thread::set_no_new_privs(true))
        .map_err(|errno| SysError::new(doing(), errno, "report this"))?;
    // SAFETY: takes plain numbers. Getting root back must fail, or nothing was dropped.
    if unsafe { libc::setresuid(0, 0, 0) } == 0 {
        return Err(SysError::new(doing(), Errno::PERM, "the kernel gave root back: report this"));
    }
    Ok(())
}

/// Numeric ids of a user, from /etc/passwd: (uid, gid).
pub fn ids_of_user(name: &str) -> Option<(u32, u32)> {
    parse_passwd(&std::fs::read_to_string("/etc/passwd").ok()?, name)
}

fn parse_passwd(passwd: &str, name: &str) -> Option<(u32, u32)> {
    passwd.lines().find_map(|line| {
        // passwd(5): name:password:uid:gid:gecos:home:shell
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some((uid, gid))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_not_a_user_to_drop_to() {
        let error = drop_to(0, 5).expect_err("that drops nothing").to_string();
        assert!(error.contains("other than root's"), "{error}");
    }

    #[test]
    fn a_process_with_threads_is_refused_before_anything_changes() {
        // The test harness runs this on a thread of its own.
        let error = drop_to(65534, 65534).expect_err("the harness has threads").to_string();
        assert!(error.contains("before they start"), "{error}");
    }

    #[test]
    fn a_root_process_becomes_nobody_with_no_way_back_and_anyone_else_is_refused() {
        let was_root = rustix::process::geteuid().is_root();
        // SAFETY: the child only makes system calls and allocates (which glibc allows after a
        // fork), and leaves by _exit.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "a process is left for the child");
        if child == 0 {
            let fine = match drop_to(65534, 65534) {
                Err(_) => !was_root,
                Ok(()) => {
                    was_root
                        && rustix::process::getuid().as_raw() == 65534
                        && rustix::process::getegid().as_raw() == 65534
                        && !crate::capability::have(crate::capability::Capability::NetRaw)
                        && std::fs::File::open("/etc/shadow").is_err()
                }
            };
            // SAFETY: ends this process at once; the harness's state is the parent's.
            unsafe { libc::_exit(if fine { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: `child` is our child, and `status` is ours to write.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\ncalisto:x:991:990::/:/bin/false\nbad:x:no:1\n";
        assert_eq!(parse_passwd(passwd, "calisto"), Some((991, 990)));
        assert_eq!(parse_passwd(passwd, "cal"), None);
        assert_eq!(parse_passwd(passwd, "bad"), None);
    }
}
