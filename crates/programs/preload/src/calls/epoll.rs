//! epoll(7): the calls. Sets without members of ours are the kernel's and cost nothing here.

use libc::{c_int, epoll_event, sigset_t, timespec};
use rustix::io::Errno;

use crate::entry::Held;
use crate::entry::descriptors::{self, Found};
use crate::process::lookup;
use crate::system::{copy, faults, fork, outcome, real};
use crate::wait::deadline::Deadline;
use crate::wait::epoll::kernel_set::not_a_set;
use crate::wait::epoll::sets::{count, set_of};
use crate::wait::epoll::{Set, early, sleep};

/// epoll_create(2): remembered, since a set that is a member of another one must tell it.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn epoll_create(size: c_int) -> c_int {
    // SAFETY: a plain number.
    created(unsafe { real::epoll_create(size) })
}

/// epoll_create1(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: a plain number.
    created(unsafe { real::epoll_create1(flags) })
}

fn created(fd: c_int) -> c_int {
    if fd >= 0 && !fork::is_borrowed() {
        descriptors::set_kernel_set(fd);
    }
    fd
}

/// epoll_ctl(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn epoll_ctl(
    set: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    let found = lookup::find(fd);
    let ours = match &found {
        Found::Ours(held) if held.file().is_some() => held,
        Found::Internal => return outcome::failed(Errno::BADF),
        Found::KernelSet | Found::Ours(_) if operation == libc::EPOLL_CTL_ADD => {
            // SAFETY: the caller's arguments.
            return unsafe { add_set(set, fd, event) };
        }
        _ => {
            // SAFETY: the caller's arguments.
            let result = unsafe { real::epoll_ctl(set, operation, fd, event) };
            count(set, operation, result);
            if result == 0 {
                faults::watch();
                let is_gone = operation == libc::EPOLL_CTL_DEL;
                // SAFETY: the kernel has read it.
                let event = (!is_gone).then(|| unsafe { copy::get(event) }.ok()).flatten();
                early::note(set, operation, fd, event);
            }
            return result;
        }
    };
    // SAFETY: the caller's promise.
    outcome::done(unsafe { change(set, operation, fd, ours, event) })
}

/// Adds a set to a set, which from now on asks it before each look whether it has something: only
/// the inner one knows when what it has told was read.
unsafe fn add_set(set: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    let inner = set_of(fd);
    if let Some(inner) = inner.as_ref().and_then(Set::of) {
        inner.set_waited_for(fd);
    }
    // SAFETY: the caller's arguments.
    let result = unsafe { real::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, event) };
    count(set, libc::EPOLL_CTL_ADD, result);
    if result == 0
        && let Some(inner) = inner
        && let Some(outer) = set_of(set)
        && let Some(outer) = Set::of(&outer)
    {
        outer.note_inner(inner);
    }
    result
}

unsafe fn change(
    set: c_int,
    operation: c_int,
    fd: c_int,
    held: &Held,
    event: *mut epoll_event,
) -> Result<(), Errno> {
    faults::watch();
    let event = || {
        // SAFETY: the caller's promise; any bits are an event.
        unsafe { copy::get(event) }
    };
    match operation {
        libc::EPOLL_CTL_ADD => {
            let event = event()?;
            let set_held = set_of(set).ok_or_else(|| not_a_set(set))?;
            if has(&event, libc::EPOLLEXCLUSIVE) && event.events & !EXCLUSIVE_ALLOWS != 0 {
                return Err(Errno::INVAL);
            }
            let inner = Set::of(&set_held).ok_or(Errno::INVAL)?;
            inner.add((set, &set_held), fd, held, event)
        }
        libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL => {
            let event = if operation == libc::EPOLL_CTL_MOD { Some(event()?) } else { None };
            let set_held = lookup::held(set);
            let has_none = set_held.is_none();
            let set_held = set_held.or_else(|| set_of(set)).ok_or_else(|| not_a_set(set))?;
            let inner = Set::of(&set_held).ok_or(Errno::INVAL)?;
            match event {
                Some(event) if has(&event, libc::EPOLLEXCLUSIVE) => Err(Errno::INVAL),
                // No member of ours is in it.
                _ if has_none => Err(Errno::NOENT),
                Some(event) => inner.modify(set, fd, held, event),
                None => inner.delete(set, fd, held),
            }
        }
        // As `do_epoll_ctl`, which judges what it is asked last.
        _ => event().and_then(|_| Err(not_a_set(set))),
    }
}

/// What a member may be told that shares its news with others (`EPOLLEXCLUSIVE_OK_BITS` of Linux).
const EXCLUSIVE_ALLOWS: u32 = (libc::EPOLLIN
    | libc::EPOLLOUT
    | libc::EPOLLERR
    | libc::EPOLLHUP
    | libc::EPOLLWAKEUP
    | libc::EPOLLET
    | libc::EPOLLEXCLUSIVE) as u32;

fn has(event: &epoll_event, bit: c_int) -> bool {
    event.events & bit as u32 != 0
}

/// epoll_wait(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn epoll_wait(
    set: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: c_int,
) -> c_int {
    let deadline = Deadline::after_milliseconds(timeout);
    let call = Call { set, events, room, deadline, mask: std::ptr::null() };
    // SAFETY: the caller's arguments.
    unsafe { call.serve(|| real::epoll_wait(set, events, room, timeout)) }
}

/// epoll_pwait(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn epoll_pwait(
    set: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    let call = Call { set, events, room, deadline: Deadline::after_milliseconds(timeout), mask };
    // SAFETY: the caller's arguments.
    unsafe { call.serve(|| real::epoll_pwait(set, events, room, timeout, mask)) }
}

/// epoll_pwait2(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn epoll_pwait2(
    set: c_int,
    events: *mut epoll_event,
    room: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let Ok(deadline) = (unsafe { Deadline::after_timespec(timeout) }) else {
        // The kernel says what is wrong with it.
        // SAFETY: the caller's arguments.
        return unsafe { real::epoll_pwait2(set, events, room, timeout, mask) };
    };
    let call = Call { set, events, room, deadline, mask };
    // SAFETY: the caller's arguments.
    unsafe { call.serve(|| real::epoll_pwait2(set, events, room, timeout, mask)) }
}

/// A call that waits for events.
struct Call {
    set: c_int,
    events: *mut epoll_event,
    room: c_int,
    deadline: Deadline,
    mask: *const sigset_t,
}

impl Call {
    /// # Safety
    /// Writing `room` events is the program's wish; the mask is null or a set of signals;
    /// `by_kernel` is the same call of the kernel.
    unsafe fn serve(self, by_kernel: impl FnOnce() -> c_int) -> c_int {
        if let Some(held) = with_ours(self.set) {
            // SAFETY: the caller's promise.
            return outcome::number(unsafe { self.wait(&held) });
        }
        let count = by_kernel();
        if count <= 0 {
            return count;
        }
        // Another thread may have added the first member of ours meanwhile, and woken us with it.
        let Some(held) = with_ours(self.set) else { return count };
        // SAFETY: the kernel has written that many.
        match unsafe { sleep::sort_out(&held, self.events, count) } {
            // SAFETY: the caller's promise.
            Ok(0) => outcome::number(unsafe { self.wait(&held) }),
            result => outcome::number(result),
        }
    }

    /// # Safety
    /// As for [`Self::serve`].
    unsafe fn wait(&self, held: &Held) -> Result<c_int, Errno> {
        let Self { set, events, room, deadline, mask } = *self;
        // SAFETY: the caller's promise.
        unsafe { sleep::wait(set, held, events, room, deadline, mask) }
    }
}

/// The entry of a set with members of ours.
fn with_ours(set: c_int) -> Option<Held> {
    lookup::held(set).filter(|held| held.is_set())
}
