//! prctl(2) and seccomp(2), by which a process locks itself in.
//!
//! What this library needs of the kernel and of the daemon it gets before the filter stands:
//! whether the sockets that came with the process are ours, the thread's own number, and a poller
//! of this thread if there may be one more descriptor. After that it makes no call that the program
//! would not make (see [`calisto_client::sockets::is_confined`]), and sockets that are made later
//! are the kernel's. A filter that the process was started with counts for nothing: whoever has set
//! it (a container, a service manager) expects a program that opens sockets.

use calisto_client::sockets::{note_confined, prepare_to_be_confined};
use libc::{c_int, c_long};

use crate::entry::descriptors::{self, Found};
use crate::process::lookup;
use crate::system::{faults, fork, real};
use crate::wait::list;

/// Operations of seccomp(2) that lock in.
const LOCKS: [usize; 2] =
    [libc::SECCOMP_SET_MODE_STRICT as usize, libc::SECCOMP_SET_MODE_FILTER as usize];

/// prctl(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    // A child of vfork locks itself in, and not its parent, whose memory it has.
    if option != libc::PR_SET_SECCOMP || fork::shares_memory() {
        // SAFETY: the caller's arguments.
        return unsafe { real::prctl(option, a, b, c, d) };
    }
    prepare();
    // SAFETY: the caller's arguments.
    let result = unsafe { real::prctl(option, a, b, c, d) };
    if result == 0 {
        has_begun();
    }
    result
}

/// seccomp(2), which has no name in libc; `make` makes the call.
pub(crate) fn seccomp(operation: usize, make: impl FnOnce() -> c_long) -> c_long {
    if !LOCKS.contains(&operation) || fork::shares_memory() {
        return make();
    }
    prepare();
    let result = make();
    if result == 0 {
        has_begun();
    }
    result
}

/// The filter stands: only memory is written. Connections are no longer given to the kernel, whose
/// sockets this process could not take.
fn has_begun() {
    note_confined();
    for fd in descriptors::ours() {
        if let Found::Ours(held) = descriptors::find_quietly(fd)
            && let Some(file) = held.file()
        {
            file.socket.follow_no_more();
        }
    }
}

fn prepare() {
    for fd in descriptors::ours() {
        // One from elsewhere is asked for its identity.
        drop(lookup::socket(fd));
    }
    faults::watch();
    list::have_poller();
    prepare_to_be_confined();
}
