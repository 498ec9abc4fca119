//! Numbers of one socket from before it was ours: a socket may be duplicated first, and then bound,
//! connected or told to listen by either number.
//!
//! What is remembered is a hint: a number may have got another file since. So it follows only if
//! the kernel says that it still is the same socket.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;

use crate::entry::{Held, descriptors};
use crate::process::lookup;
use crate::system::kernel_socket;
use crate::system::lock::Lock;
use crate::wait::epoll;

/// Numbers of the kernel's sockets that have another one.
static TWINS: Lock<BTreeSet<c_int>> = Lock::new(BTreeSet::new());

/// Whether there ever was one.
static ANY: AtomicBool = AtomicBool::new(false);

/// How many are remembered; of further ones only the number that is used becomes ours. Each costs
/// a call of the kernel whenever a socket becomes ours.
const TWINS_MAX: usize = 64;

/// A socket that is not ours has got one more number.
pub(crate) fn note(fd: c_int, made: c_int) {
    if kernel_socket::kind_of(fd).is_none() {
        return;
    }
    let Some(mut twins) = TWINS.lock() else { return };
    if twins.len() + 2 > TWINS_MAX {
        twins.retain(|&twin| kernel_socket::kind_of(twin).is_some());
    }
    if twins.len() + 2 <= TWINS_MAX {
        twins.extend([fd, made]);
        ANY.store(true, Ordering::Relaxed);
    }
}

/// A socket has become ours: so it has by its other numbers, and wherever it is a member of a set.
pub(crate) fn follow(fd: c_int, held: &Held) {
    epoll::moves(fd, held);
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    let Some(cookie) = kernel_socket::cookie(fd) else { return };
    let is_twin = |&twin: &c_int| {
        twin != fd && descriptors::is_plain(twin) && kernel_socket::cookie(twin) == Some(cookie)
    };
    let Some(twins) = TWINS.lock() else { return };
    let same: Vec<c_int> = twins.iter().copied().filter(is_twin).collect();
    drop(twins);
    for twin in same {
        descriptors::share(held, twin);
        epoll::moves(twin, held);
    }
}

/// A socket is about to be the kernel's again, or to be offered anew: so it is by its other
/// numbers, which follow it the next time.
pub(crate) fn let_go(fd: c_int) {
    epoll::moves_back(fd);
    let Some(held) = lookup::socket(fd) else { return };
    for twin in descriptors::numbers_of(&held).filter(|&twin| twin != fd) {
        epoll::moves_back(twin);
        descriptors::remove(twin);
        note(fd, twin);
    }
}
