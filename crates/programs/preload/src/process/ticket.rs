//! The ticket: by it a program that this one becomes goes on with sockets that were left open for
//! it.
//!
//! A process that has it and is of the right user can map this application's memory, which has the
//! bytes of all its connections in it. So it goes to no program that has no use for it, or that
//! must not have it: only to one that begins with a socket of ours, and only while the process is
//! of the user and group that the application was made for, with no effective rights beside the
//! real ones, and not to a set-user-ID program. It is never in this program's own environment,
//! where children of `system` and whatever prints its variables would find it; one that came is
//! taken out before the program runs. The daemon relies on none of this: it asks the kernel which
//! process comes with a ticket.
//!
//! *What becomes of a process that drops its rights.* What it has mapped stays mapped, as its
//! descriptors stay open: a server that binds as root, forks and drops its rights (nginx, HAProxy)
//! goes on accepting, and its new sockets are of the region that it has. A child that it forks
//! after that joins too, by a secret that is only in memory. A program that it starts then is
//! another matter: it has no ticket, and attaches with a region of its own. An accelerated
//! connection that it was given (inetd as another user) cannot be served there: it is told, and the
//! socket is the kernel's.
//!
//! Nothing here takes memory: a child of vfork calls it while its parent waits.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use libc::{c_char, c_int};

use crate::entry::descriptors;
use crate::system::{fork, kernel_socket, real};

/// The variable, with what stands between it and its value.
pub(crate) const VARIABLE: &[u8] = b"CALISTO_TICKET=";

/// The variable and its value, ready for an environment; null before there is one.
static TICKET: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// The user and the group that it is for.
static OWNER: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

/// In a child that shares our memory but not our descriptors, numbers below this one are looked at.
/// What such a child makes by itself has low numbers: it is there to become standard input and
/// output.
const LOOKED_AT: c_int = 1024;

/// Which file is to be run.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// The one of this path, in a folder's descriptor or AT_FDCWD, with flags as of execveat(2).
    At(c_int, *const c_char, c_int),
    /// The first of this name along PATH, or a path if there is a slash in it.
    Named(*const c_char),
}

/// Keeps a ticket that came with the program. None where the program has rights that whoever
/// started it has not.
pub(crate) fn came(value: &[u8]) {
    // SAFETY: it takes a number, and cannot fail.
    let is_secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    if !is_secure && let Ok(value) = std::str::from_utf8(value) {
        keep(value);
    }
}

/// The ticket: the one that came until there is an attachment.
pub(crate) fn value() -> Option<String> {
    let text = TICKET.load(Ordering::Acquire);
    if text.is_null() {
        return None;
    }
    // SAFETY: a text that is never changed or freed.
    let text = unsafe { CStr::from_ptr(text) }.to_str().ok()?;
    Some(text.get(VARIABLE.len()..)?.to_owned())
}

/// Keeps what the next program attaches with, if it begins with sockets of this one. It is for the
/// user and the group that this process has now.
pub(crate) fn keep(ticket: &str) {
    let Some((owner, true)) = ids() else { return };
    let text = [VARIABLE, ticket.as_bytes()].concat();
    let Ok(text) = CString::new(text) else { return };
    for (place, id) in OWNER.iter().zip(owner) {
        place.store(id, Ordering::Relaxed);
    }
    // Once for each attachment: another thread may be reading the one before.
    TICKET.store(text.into_raw(), Ordering::Release);
}

/// The variable for a program that is about to be started, or null. `changes` says that descriptors
/// are moved on the way, unseen by this library (posix_spawn(3)'s actions).
pub(crate) fn for_program(target: Target, changes: bool) -> *const c_char {
    let ticket = TICKET.load(Ordering::Acquire).cast_const();
    if ticket.is_null() {
        return ticket;
    }
    let owner = [0, 1].map(|which: usize| OWNER[which].load(Ordering::Relaxed));
    let is_given = ids() == Some((owner, true)) && begins_with_ours(changes) && !is_set_id(target);
    if is_given { ticket } else { std::ptr::null() }
}

/// The effective user and group, and whether they are the real ones too.
fn ids() -> Option<([u32; 2], bool)> {
    let (mut users, mut groups) = ([0_u32; 3], [0_u32; 3]);
    let [real, effective, saved] = users.each_mut().map(std::ptr::from_mut);
    // SAFETY: three places for a number.
    let has_users = unsafe { libc::getresuid(real, effective, saved) } == 0;
    let [real, effective, saved] = groups.each_mut().map(std::ptr::from_mut);
    // SAFETY: likewise.
    let has_groups = unsafe { libc::getresgid(real, effective, saved) } == 0;
    let is_plain = users[0] == users[1] && groups[0] == groups[1];
    (has_users && has_groups).then_some(([users[1], groups[1]], is_plain))
}

/// Whether a new program begins with a socket of ours, or may.
fn begins_with_ours(changes: bool) -> bool {
    let mut ours = descriptors::ours().peekable();
    if ours.peek().is_none() {
        return false;
    }
    if changes || ours.any(stays_open) {
        return true;
    }
    // Numbers that a borrowed child has given its descriptors itself are not in our table.
    let is_socket = |fd: c_int| stays_open(fd) && kernel_socket::kind_of(fd).is_some();
    fork::is_borrowed() && (0..LOOKED_AT).any(is_socket)
}

fn stays_open(fd: c_int) -> bool {
    // SAFETY: it takes no argument.
    let flags = unsafe { real::fcntl(fd, libc::F_GETFD, 0) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

/// Whether a program runs with rights of its file's owner or group. One that cannot be found does
/// not run.
fn is_set_id(target: Target) -> bool {
    match target {
        Target::At(folder, path, flags) => file_is_set_id(folder, path, flags),
        Target::Named(name) if name.is_null() => false,
        Target::Named(name) => {
            // SAFETY: the caller of exec gives a text.
            let text = unsafe { CStr::from_ptr(name) }.to_bytes();
            if text.contains(&b'/') {
                return file_is_set_id(libc::AT_FDCWD, name, 0);
            }
            any_in_path(text, |path| file_is_set_id(libc::AT_FDCWD, path, 0))
        }
    }
}

/// Whether this holds for a file of this name in any folder of PATH.
fn any_in_path(name: &[u8], mut holds: impl FnMut(*const c_char) -> bool) -> bool {
    // SAFETY: a text; the program itself must not change its variables while it starts another one.
    let path = unsafe { libc::getenv(c"PATH".as_ptr()) };
    if path.is_null() {
        return false;
    }
    // SAFETY: as above.
    let folders = unsafe { CStr::from_ptr(path) }.to_bytes();
    let mut room = [0_u8; libc::PATH_MAX as usize];
    folders.split(|&byte| byte == b':').any(|folder| {
        // An empty one is the current folder.
        let folder = if folder.is_empty() { b"." } else { folder };
        let bytes = folder.len() + 1 + name.len();
        let Some(whole) = room.get_mut(..bytes + 1) else { return false };
        whole[..folder.len()].copy_from_slice(folder);
        whole[folder.len()] = b'/';
        whole[folder.len() + 1..bytes].copy_from_slice(name);
        whole[bytes] = 0;
        holds(whole.as_ptr().cast())
    })
}

fn file_is_set_id(folder: c_int, path: *const c_char, flags: c_int) -> bool {
    // SAFETY: a plain structure of numbers.
    let mut file: libc::stat = unsafe { std::mem::zeroed() };
    let flags = flags & (libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW);
    // SAFETY: the caller's path, and a place for the answer.
    let found = unsafe { libc::fstatat(folder, path, &raw mut file, flags) } == 0;
    found && file.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0
}
