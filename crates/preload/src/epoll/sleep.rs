//! epoll_wait(2) on a set with members of ours: look, let others run and look, arm, look, sleep.

use std::sync::atomic::Ordering;

use libc::{c_int, epoll_event, sigset_t};
use rustix::io::Errno;

use super::set::{Set, Source};
use crate::entry::Held;
use crate::table::real;
use crate::wait::{Deadline, Patience};
use crate::{copy, faults, outcome};

/// Events that one call tells, at most; the rest is told by the next one.
const EVENTS_MAX: usize = 128;

/// Calls after which the kernel's members are looked at, however much ours have to tell.
const CALLS_MAX: u32 = 16;

/// A look without an ear to wake the sleeper.
const BLIND_LOOK_MS: c_int = 1;

/// Waits for events.
///
/// # Safety
/// Writing `room` events at `events` is the program's wish; `mask` is null or a set of signals.
pub(super) unsafe fn wait(
    fd: c_int,
    held: &Held,
    events: *mut epoll_event,
    room: c_int,
    deadline: Deadline,
    mask: *const sigset_t,
) -> Result<c_int, Errno> {
    let set = held.set().ok_or(Errno::INVAL)?;
    let room = usize::try_from(room).map_err(|_| Errno::INVAL)?.min(EVENTS_MAX);
    if room == 0 {
        return Err(Errno::INVAL);
    }
    faults::watch();
    let mut found = [epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
    let found = &mut found[..room];
    let count = look_until(set, fd, found, deadline, mask)?;
    set.leave();
    // SAFETY: the caller's promise.
    unsafe {
        copy::copy(events.cast(), found.as_ptr().cast(), count * size_of::<epoll_event>())?;
    }
    Ok(count as c_int)
}

fn look_until(
    set: &Set,
    fd: c_int,
    found: &mut [epoll_event],
    deadline: Deadline,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let count = look(set, fd, found)?;
    if count > 0 {
        return Ok(count);
    }
    if deadline.is_now() {
        return kernel(set, fd, found, 0, std::ptr::null());
    }
    let mut patience = Patience::new();
    while patience.may_yield() {
        std::thread::yield_now();
        let count = set.gather(fd, found)?;
        if count > 0 {
            return Ok(count);
        }
    }
    loop {
        // Without an ear, one look after the other.
        set.ensure_ear(fd)?;
        let has_ear = set.has_ear()?;
        set.sleepers.fetch_add(1, Ordering::SeqCst);
        let slept = set.arm().and_then(|may_sleep| {
            let left = if may_sleep { deadline.milliseconds_left() } else { 0 };
            let timeout = match has_ear {
                true => left,
                false if left < 0 => BLIND_LOOK_MS,
                false => left.min(BLIND_LOOK_MS),
            };
            kernel(set, fd, found, timeout, mask)
        });
        set.sleepers.fetch_sub(1, Ordering::SeqCst);
        set.disarm()?;
        let kernels = slept?;
        let count = kernels + set.gather(fd, &mut found[kernels..])?;
        if count > 0 || deadline.is_over() {
            return Ok(count);
        }
    }
}

/// One look without waiting: ours, and the kernel's if it is their turn.
fn look(set: &Set, fd: c_int, found: &mut [epoll_event]) -> Result<usize, Errno> {
    let is_turn = {
        let mut state = set.lock()?;
        state.calls += 1;
        let is_turn = state.calls >= CALLS_MAX && state.kernel_members > 0;
        if is_turn {
            state.calls = 0;
        }
        is_turn
    };
    // The kernel's first, in a part of the room: members of ours that always have something to tell must
    // not hide them.
    let part = found.len().div_ceil(2);
    let kernels =
        if is_turn { kernel(set, fd, &mut found[..part], 0, std::ptr::null())? } else { 0 };
    Ok(kernels + set.gather(fd, &mut found[kernels..])?)
}

/// Waits in the kernel's set; how many of its events are the program's to know.
fn kernel(
    set: &Set,
    fd: c_int,
    found: &mut [epoll_event],
    timeout: c_int,
    mask: *const sigset_t,
) -> Result<usize, Errno> {
    let (to, room) = (found.as_mut_ptr(), found.len() as c_int);
    // SAFETY: `found` has so much room.
    let result = unsafe {
        if mask.is_null() {
            real::epoll_wait(fd, to, room, timeout)
        } else {
            real::epoll_pwait(fd, to, room, timeout, mask)
        }
    };
    let count = outcome::of(result)? as usize;
    if count == 0 {
        return Ok(0);
    }
    let mut state = set.lock()?;
    state.calls = 0;
    let mut kept = 0;
    for index in 0..count {
        let event = found[index];
        let told = match Set::source(&state, &event) {
            Source::Kernel => event,
            // Looking at ours comes next, whoever has called.
            Source::Ear | Source::Nobody => continue,
            Source::Half(member) => {
                let Some(member) = state.members.get_mut(member) else { continue };
                if member.memory.is_spent() {
                    continue;
                }
                if member.interest.is_once() {
                    member.memory.spend();
                }
                epoll_event { events: event.events, u64: member.data }
            }
        };
        found[kept] = told;
        kept += 1;
    }
    Ok(kept)
}
