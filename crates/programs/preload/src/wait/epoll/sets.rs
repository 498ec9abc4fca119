//! The sets behind descriptors: made when their first member of ours comes.

use libc::c_int;

use super::kernel_set::is_set;
use super::set::Set;
use crate::entry::descriptors::{self, Found};
use crate::entry::{Body, Held};
use crate::process::lookup;

/// The entry of a set, made now if it had none.
pub(crate) fn set_of(fd: c_int) -> Option<Held> {
    match lookup::find(fd) {
        Found::Ours(held) => held.is_set().then_some(held),
        Found::KernelSet => descriptors::install(fd, Body::Set(Box::new(Set::new()))),
        // A set that came from elsewhere: the kernel knows what it is.
        Found::Plain if is_set(fd) => descriptors::install(fd, Body::Set(Box::new(Set::new()))),
        Found::Plain | Found::Internal => None,
    }
}

/// Keeps count of the kernel's members of a set that has some of ours.
pub(crate) fn count(set: c_int, operation: c_int, result: c_int) {
    if result != 0 || operation == libc::EPOLL_CTL_MOD {
        return;
    }
    if let Some(held) = lookup::held(set)
        && let Some(set) = Set::of(&held)
    {
        set.count_kernel_member(operation == libc::EPOLL_CTL_ADD);
    }
}
