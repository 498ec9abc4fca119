//! select(2): the same as poll(2), with sets of bits for lists.

use calisto_client::sockets::is_confined;
use libc::{c_int, fd_set, sigset_t, timespec, timeval};
use rustix::io::Errno;
use smallvec::{SmallVec, smallvec};

use crate::entry::descriptors;
use crate::system::{copy, descriptor_table, faults, outcome, real};
use crate::wait::deadline::Deadline;
use crate::wait::list::{List, Wanted};

/// A word of the kernel's sets.
const WORD: usize = u64::BITS as usize;

/// What select calls readable, writable and exceptional, in bits of poll(2).
const ASKED: [i16; 3] =
    [libc::POLLIN | libc::POLLRDNORM, libc::POLLOUT | libc::POLLWRNORM, libc::POLLPRI];
const TOLD: [i16; 3] = [
    libc::POLLIN | libc::POLLRDNORM | libc::POLLHUP | libc::POLLERR,
    libc::POLLOUT | libc::POLLWRNORM | libc::POLLERR,
    libc::POLLPRI,
];

/// The three sets of a call: reading, writing, exceptions.
pub(crate) type Sets = [*mut fd_set; 3];

/// select(2). As Linux's, it leaves the time that was left.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: the caller's arguments.
    let by_kernel = || unsafe { real::select(count, read, write, except, timeout) };
    // SAFETY: the caller's promise.
    unsafe { select_or(count, [read, write, except], timeout, by_kernel) }
}

/// The same, with how the kernel is asked where none of the descriptors is ours: libc reads the
/// time itself, and a program that asks by number may have it where it cannot be read.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn select_or(
    count: c_int,
    sets: Sets,
    timeout: *mut timeval,
    by_kernel: impl FnOnce() -> c_int,
) -> c_int {
    let count = looked_at(count);
    // SAFETY: the caller's promise.
    let Some(wanted) = (unsafe { with_ours(count, sets) }) else { return by_kernel() };
    // SAFETY: the caller's promise.
    let result = unsafe { Deadline::after_timeval(timeout) }.and_then(|deadline| {
        // SAFETY: the caller's promise.
        let result = unsafe { serve(&wanted, count, sets, deadline, std::ptr::null()) };
        if let Some(left) = deadline.left().filter(|_| !timeout.is_null()) {
            let left =
                timeval { tv_sec: left.as_secs() as _, tv_usec: left.subsec_micros().into() };
            // SAFETY: the caller's promise. A program that keeps it where it cannot be written is
            // not told, as with Linux.
            let _ = unsafe { copy::put(timeout, &left) };
        }
        result
    });
    outcome::number(result)
}

/// pselect(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's arguments.
    let by_kernel = || unsafe { real::pselect(count, read, write, except, timeout, mask) };
    // SAFETY: the caller's promise.
    unsafe { pselect_or(count, [read, write, except], timeout, mask, by_kernel) }
}

/// The same, with how the kernel is asked: see [`select_or`].
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn pselect_or(
    count: c_int,
    sets: Sets,
    timeout: *const timespec,
    mask: *const sigset_t,
    by_kernel: impl FnOnce() -> c_int,
) -> c_int {
    let count = looked_at(count);
    // SAFETY: the caller's promise.
    let Some(wanted) = (unsafe { with_ours(count, sets) }) else { return by_kernel() };
    // SAFETY: the caller's promise.
    let result = unsafe { Deadline::after_timespec(timeout) }.and_then(|deadline| {
        // SAFETY: the caller's promise.
        unsafe { serve(&wanted, count, sets, deadline, mask) }
    });
    outcome::number(result)
}

/// How many numbers of a call that names `count` the kernel looks at: none beyond the table of
/// descriptors, whatever the program says (`core_sys_select`). Programs say what they may have open
/// (`select(getdtablesize(), …)`) of sets of FD_SETSIZE numbers: what stands behind those is not
/// theirs to be read, let alone to be written.
fn looked_at(count: c_int) -> c_int {
    if count <= FD_SETSIZE || !descriptors::any_special() {
        return count;
    }
    let known = if is_confined() { None } else { outcome::unheard(descriptor_table::room) };
    let room = known.unwrap_or_else(|| descriptors::special_end().max(FD_SETSIZE as usize));
    count.min(c_int::try_from(room).unwrap_or(c_int::MAX))
}

/// The numbers of a set as every C library declares it.
const FD_SETSIZE: c_int = libc::FD_SETSIZE as c_int;

/// The descriptors that the sets name and what is asked of each; `None` if none is ours, or the
/// sets cannot be read, which the kernel will say.
unsafe fn with_ours(count: c_int, sets: Sets) -> Option<Wanted> {
    if !descriptors::any_special() {
        return None;
    }
    faults::watch();
    let words = usize::try_from(count).ok()?.min(descriptors::DESCRIPTORS_MAX).div_ceil(WORD);
    let mut wanted = Wanted::new();
    let mut has_ours = false;
    for word in 0..words {
        let mut bits = [0_u64; 3];
        for (set, bits) in sets.iter().zip(&mut bits) {
            if !set.is_null() {
                // SAFETY: the caller's promise: a set has a bit for each of `count` descriptors.
                *bits = unsafe { copy::get(set.cast::<u64>().add(word)) }.ok()?;
            }
        }
        let mut any = bits[0] | bits[1] | bits[2];
        while any != 0 {
            let bit = any.trailing_zeros() as usize;
            any &= any - 1;
            let fd = word * WORD + bit;
            if fd >= count as usize {
                break;
            }
            let asked = |index: usize| if bits[index] >> bit & 1 != 0 { ASKED[index] } else { 0 };
            has_ours |= !descriptors::is_plain(fd as c_int);
            wanted.push((fd as c_int, asked(0) | asked(1) | asked(2)));
        }
    }
    has_ours.then_some(wanted)
}

unsafe fn serve(
    wanted: &[(c_int, i16)],
    count: c_int,
    sets: Sets,
    deadline: Deadline,
    mask: *const sigset_t,
) -> Result<c_int, Errno> {
    let mut list = List::new(wanted.iter().copied());
    list.wait(deadline, mask)?;
    if list.kernel.iter().any(|place| place.revents & libc::POLLNVAL != 0) {
        return Err(Errno::BADF);
    }
    let words = (count as usize).min(descriptors::DESCRIPTORS_MAX).div_ceil(WORD);
    let mut found = 0;
    for (set, (asked, told)) in sets.into_iter().zip(ASKED.into_iter().zip(TOLD)) {
        if set.is_null() {
            continue;
        }
        let mut bits: SmallVec<[u64; FD_SETSIZE as usize / WORD]> = smallvec![0; words];
        for (&(fd, events), place) in wanted.iter().zip(&list.kernel) {
            if events & asked != 0 && place.revents & told != 0 {
                bits[fd as usize / WORD] |= 1 << (fd as usize % WORD);
                found += 1;
            }
        }
        // SAFETY: the caller's promise; `bits` has that many words.
        unsafe { copy::copy(set.cast(), bits.as_ptr().cast(), words * size_of::<u64>())? };
    }
    Ok(found)
}
