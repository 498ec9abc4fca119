//! Programs of BPF that a control group has over the sockets and packets of its processes
//! (cgroups(7), bpf(2)).

use std::ffi::CStr;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::{SysError, bpf_query};

/// Kinds of programs that see or rewrite sockets or packets of a control group's processes, by
/// enum bpf_attach_type of linux/bpf.h: ingress, egress, creation of sockets, sock_ops; bind,
/// connect, post_bind, sendmsg; recvmsg, getsockopt, setsockopt; getpeername, getsockname; hooks of
/// security modules.
const KINDS: [u32; 21] =
    [0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 19, 20, 21, 22, 29, 30, 31, 32, 43];

/// Where the hierarchy is mounted usually, should a mount of one's own not be possible.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// The hierarchy of control groups, version 2.
#[derive(Debug)]
pub struct ControlGroups {
    root: OwnedFd,
}

impl ControlGroups {
    /// The hierarchy as this process's cgroup namespace has it, by a mount that nobody else sees:
    /// network namespaces and containers often hide the usual one. Nothing: this kernel has no
    /// control groups, so that they have no programs.
    ///
    /// # Errors
    /// There is no permission (CAP_SYS_ADMIN), and no usual mount.
    pub fn open() -> Result<Option<Self>, SysError> {
        let failed = |errno| SysError::new("look at control groups (cgroup2)", errno, "");
        match mounted() {
            Ok(root) => Ok(Some(Self { root })),
            Err(Errno::NODEV) => Ok(None),
            Err(errno) => {
                let usual = MOUNTS.iter().find_map(|path| {
                    let root = open_folder(CWD, path).ok()?;
                    // Version 1 has folders of that name too, and takes no such question.
                    query(root.as_fd(), KINDS[0]).is_ok().then_some(root)
                });
                usual.map(|root| Some(Self { root })).ok_or(failed(errno))
            }
        }
    }

    /// Whether the group at `path`, as `/proc/PID/cgroup` tells it, or one above it, has a program
    /// that sees or rewrites what its processes send, receive and do with sockets.
    ///
    /// # Errors
    /// The group lies outside of this process's cgroup namespace, is gone, or the kernel does not
    /// tell.
    pub fn has_filters(&self, path: &str) -> Result<bool, SysError> {
        let failed = |errno| {
            SysError::new(format!("look for BPF programs of control group {path}"), errno, "")
        };
        let inside = path.strip_prefix('/').ok_or(failed(Errno::INVAL))?;
        if inside.split('/').any(|part| part == "..") {
            return Err(failed(Errno::XDEV));
        }
        let inside = if inside.is_empty() { "." } else { inside };
        let group = open_folder(self.root.as_fd(), inside).map_err(failed)?;
        for kind in KINDS {
            match query(group.as_fd(), kind) {
                Ok(0) => {}
                Ok(_) => return Ok(true),
                // A kind that this kernel does not know, so that there is none.
                Err(Errno::INVAL) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(false)
    }
}

/// The control group (version 2) of a process, as a path below the root of this process's cgroup
/// namespace.
///
/// # Errors
/// There is no such process, or no such hierarchy.
pub fn of_process(pid: u32) -> Result<String, SysError> {
    let failed =
        |errno| SysError::new(format!("look which control group process {pid} has"), errno, "");
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).map_err(|error| {
        let gone = if error.kind() == ErrorKind::NotFound { Errno::SRCH } else { Errno::IO };
        failed(Errno::from_io_error(&error).unwrap_or(gone))
    })?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"));
    path.map(str::to_owned).ok_or(failed(Errno::NOENT))
}

fn open_folder(base: BorrowedFd<'_>, path: &str) -> Result<OwnedFd, Errno> {
    openat(base, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// How many programs of a kind are in effect for a group.
fn query(group: BorrowedFd<'_>, kind: u32) -> Result<u32, Errno> {
    bpf_query::count(group.as_raw_fd() as u32, kind, bpf_query::EFFECTIVE)
}

/// A mount of the hierarchy that is in no file system: fsopen(2), fsconfig(2), fsmount(2).
fn mounted() -> Result<OwnedFd, Errno> {
    const CLOEXEC: libc::c_uint = 1;
    const CONFIG_CREATE: libc::c_uint = 6;
    let name: &CStr = c"cgroup2";
    // SAFETY: the name outlives the call, which only reads it.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, name.as_ptr(), CLOEXEC) })?;
    let none = std::ptr::null::<libc::c_char>();
    let descriptor = context.as_raw_fd();
    // SAFETY: this command takes no key and no value.
    let made =
        unsafe { libc::syscall(libc::SYS_fsconfig, descriptor, CONFIG_CREATE, none, none, 0) };
    if made < 0 {
        return Err(last());
    }
    // SAFETY: no pointers.
    let root = owned(unsafe { libc::syscall(libc::SYS_fsmount, descriptor, CLOEXEC, 0) })?;
    // The folder rather than the mount: looked at by paths like any other.
    open_folder(root.as_fd(), ".")
}

fn owned(descriptor: libc::c_long) -> Result<OwnedFd, Errno> {
    if descriptor < 0 {
        return Err(last());
    }
    // SAFETY: the kernel has just made it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

fn last() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// For tests: a program that lets everything pass, over the packets that come to a control group.
#[cfg(test)]
mod filter {
    use std::path::{Path, PathBuf};

    use super::*;

    /// A control group of a test's own, below the root of the hierarchy; it goes with this, once
    /// its processes have.
    #[derive(Debug)]
    pub(super) struct Group {
        pub(super) path: PathBuf,
    }

    impl Group {
        /// A new one, of that name.
        ///
        /// # Errors
        /// There is no hierarchy of version 2, or no permission.
        pub(super) fn new(name: &str) -> std::io::Result<Self> {
            let root = MOUNTS.iter().map(Path::new);
            let mut roots = root.filter(|root| root.join("cgroup.procs").exists());
            let root = roots.rfind(|root| root.join("cgroup.controllers").exists());
            let root = root.ok_or(std::io::Error::from(ErrorKind::NotFound))?;
            let path = root.join(format!("calisto-{name}-{}", std::process::id()));
            fs::create_dir(&path)?;
            Ok(Self { path })
        }

        /// Every packet that comes to its processes is looked at, from now on.
        ///
        /// # Errors
        /// There is no permission.
        pub(super) fn attach(&self) -> Result<(), Errno> {
            const PROG_LOAD: libc::c_int = 5;
            const PROG_ATTACH: libc::c_int = 8;
            const CGROUP_SKB: u32 = 8;
            // linux/bpf.h: struct bpf_insn. `r0 = 1; exit`.
            let instructions: [u64; 2] = [0x0000_0001_0000_00b7, 0x0095];
            let licence = c"Apache-2.0";
            #[repr(C)]
            struct Load {
                kind: u32,
                count: u32,
                instructions: u64,
                licence: u64,
            }
            let load = Load {
                kind: CGROUP_SKB,
                count: 2,
                instructions: instructions.as_ptr().addr() as u64,
                licence: licence.as_ptr().addr() as u64,
            };
            // SAFETY: the head of union bpf_attr for this command, as long as said; what it points
            // to outlives the call.
            let program = owned(unsafe {
                libc::syscall(libc::SYS_bpf, PROG_LOAD, &raw const load, size_of::<Load>())
            })?;
            let path = self.path.to_str().ok_or(Errno::INVAL)?;
            let group = open_folder(CWD, path)?;
            // Group, program, kind (ingress), flags.
            let attach = [group.as_raw_fd() as u32, program.as_raw_fd() as u32, 0, 0];
            // SAFETY: the head of union bpf_attr for this command, as long as said, no pointers.
            let done = unsafe {
                libc::syscall(libc::SYS_bpf, PROG_ATTACH, &raw const attach, size_of_val(&attach))
            };
            if done < 0 { Err(last()) } else { Ok(()) }
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_over_a_group_is_seen_from_the_groups_below_and_from_no_other() {
        let groups = ControlGroups::open().expect("root may").expect("there are some");
        let group = filter::Group::new("filters").expect("root may make groups");
        let below = group.path.join("below");
        fs::create_dir(&below).expect("root may make groups");
        let name = |path: &std::path::Path| {
            let mut parts: Vec<_> = path.iter().rev().map(|part| part.to_string_lossy()).collect();
            parts.truncate(if path == below { 2 } else { 1 });
            parts.reverse();
            format!("/{}", parts.join("/"))
        };
        let filters = |path: &std::path::Path| groups.has_filters(&name(path));
        assert!(!filters(&group.path).expect("it is there"));
        group.attach().expect("root may");
        assert!(filters(&group.path).expect("it is there"));
        assert!(filters(&below).expect("it is there"), "those above hold below");
        assert!(!groups.has_filters("/").expect("it is there"), "and not above");
        for strange in ["", "x", "/..", "/a/../..", "/no-such-group"] {
            assert!(groups.has_filters(strange).is_err(), "{strange}");
        }
        fs::remove_dir(below).expect("nobody is in it");
    }

    #[test]
    fn a_process_has_a_group_and_one_that_is_gone_has_none() {
        let own = of_process(std::process::id()).expect("we are here");
        assert!(own.starts_with('/'), "{own}");
        assert!(of_process(u32::MAX).is_err());
    }
}
