//! epoll_wait(2) on a set with members of ours: look, let others run and look, arm, look, sleep.

use std::sync::atomic::Ordering;

use libc::{c_int, epoll_event, sigset_t};
use rustix::io::Errno;

use super::set::Set;
use super::set::look::{Look, Prepared, Source};
use crate::entry::Held;
use crate::process::again;
use crate::system::{copy, faults, outcome, real};
use crate::wait::deadline::Deadline;
use crate::wait::yield_policy::YieldPolicy;

/// Events that one call tells, at most; the rest is told by the next one.
const EVENTS_MAX: usize = 128;

/// Room for more events than these is refused (`EP_MAX_EVENTS` of Linux).
const ROOM_MAX: usize = c_int::MAX as usize / size_of::<epoll_event>();

/// A look without a poller to wake the sleeper.
const BLIND_LOOK_MS: c_int = 1;

/// Waits for events.
///
/// # Safety
/// Writing `room` events at `events` is the program's wish; `mask` is null or a set of signals.
pub(crate) unsafe fn wait(
    fd: c_int,
    held: &Held,
    events: *mut epoll_event,
    room: c_int,
    deadline: Deadline,
    mask: *const sigset_t,
) -> Result<c_int, Errno> {
    let set = Set::of(held).ok_or(Errno::INVAL)?;
    let room = usize::try_from(room).ok().filter(|room| (1..=ROOM_MAX).contains(room));
    let room = room.ok_or(Errno::INVAL)?.min(EVENTS_MAX);
    faults::watch();
    set.ask_inner();
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
    if let Look::Ours(count) = set.look(fd, found)? {
        if count > 0 {
            return Ok(count);
        }
    } else {
        // The kernel's first, in a part of the room: members of ours that always have something to
        // tell must not hide them.
        let part = found.len().div_ceil(2);
        let kernels = kernel(set, fd, &mut found[..part], 0, std::ptr::null())?.count;
        let count = kernels + set.gather(fd, &mut found[kernels..])?;
        if count > 0 {
            return Ok(count);
        }
    }
    if deadline.is_now() {
        return Ok(kernel(set, fd, found, 0, std::ptr::null())?.count);
    }
    let mut yield_policy = YieldPolicy::new();
    while yield_policy.may_yield() {
        std::thread::yield_now();
        let count = set.gather(fd, found)?;
        if count > 0 {
            return Ok(count);
        }
    }
    loop {
        let most = again::look();
        set.sleepers.fetch_add(1, Ordering::SeqCst);
        let slept = set.prepare(fd).and_then(|prepared| {
            let left = deadline.or_after(most).milliseconds_left();
            let timeout = match prepared {
                Prepared::Sleep => left,
                Prepared::LookAgain => 0,
                Prepared::Blind if left < 0 => BLIND_LOOK_MS,
                Prepared::Blind => left.min(BLIND_LOOK_MS),
            };
            kernel(set, fd, found, timeout, mask)
        });
        set.sleepers.fetch_sub(1, Ordering::SeqCst);
        set.awake(slept.as_ref().is_ok_and(|slept| slept.was_called))?;
        let kernels = slept?.count;
        let count = kernels + set.gather(fd, &mut found[kernels..])?;
        if count > 0 || deadline.is_over() {
            set.pass_on()?;
            return Ok(count);
        }
    }
}

/// What the kernel's set had.
struct Kernels {
    /// Events that are the program's to know.
    count: usize,
    /// The poller was among those that have something.
    was_called: bool,
}

/// Waits in the kernel's set.
fn kernel(
    set: &Set,
    fd: c_int,
    found: &mut [epoll_event],
    timeout: c_int,
    mask: *const sigset_t,
) -> Result<Kernels, Errno> {
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
        return Ok(Kernels { count: 0, was_called: false });
    }
    sort(set, &mut found[..count])
}

/// Leaves of the kernel set's events, which a call has written for the program before the set had
/// members of ours, those that are the program's to know; how many.
///
/// # Safety
/// That many events are there.
pub(crate) unsafe fn sort_out(
    held: &Held,
    events: *mut epoll_event,
    count: c_int,
) -> Result<c_int, Errno> {
    let set = Set::of(held).ok_or(Errno::INVAL)?;
    faults::watch();
    let mut left = 0;
    let mut done = 0;
    let mut found = [epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
    while done < count as usize {
        let part = &mut found[..EVENTS_MAX.min(count as usize - done)];
        let bytes = size_of_val(part);
        // SAFETY: the caller's promise.
        unsafe { copy::copy(part.as_mut_ptr().cast(), events.add(done).cast(), bytes)? };
        done += part.len();
        let kept = sort(set, part)?.count;
        let bytes = kept * size_of::<epoll_event>();
        // SAFETY: the caller's promise: not more than were there.
        unsafe { copy::copy(events.add(left).cast(), part.as_ptr().cast(), bytes)? };
        left += kept;
    }
    Ok(left as c_int)
}

/// Leaves of the kernel set's events those that are the program's to know, in their order.
fn sort(set: &Set, found: &mut [epoll_event]) -> Result<Kernels, Errno> {
    let mut kernels = Kernels { count: 0, was_called: false };
    let mut state = set.lock()?;
    state.calls = 0;
    for index in 0..found.len() {
        let event = found[index];
        let told = match Set::source(&state, &event) {
            Source::Kernel => event,
            Source::Poller => {
                kernels.was_called = true;
                continue;
            }
            Source::Nobody => continue,
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
        found[kernels.count] = told;
        kernels.count += 1;
    }
    Ok(kernels)
}
