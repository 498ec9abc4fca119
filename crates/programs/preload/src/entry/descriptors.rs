//! What each descriptor number of this process is to us: a word per number, read without a lock.

use std::sync::atomic::{AtomicUsize, Ordering};

use libc::c_int;

use crate::entry::{Body, Held, own_code};
use crate::system::fork;

/// Descriptors from this number on are the kernel's, always: no program that the data plane serves
/// has that many.
pub(crate) const DESCRIPTORS_MAX: usize = 1 << 20;

/// 8 MiB of addresses, of which only the pages that are used cost memory.
static WORDS: [AtomicUsize; DESCRIPTORS_MAX] = [const { AtomicUsize::new(PLAIN) }; DESCRIPTORS_MAX];

/// A descriptor that we have nothing to do with.
const PLAIN: usize = 0;
/// One of our own, which the program knows nothing of.
const INTERNAL: usize = 1;
/// A socket that came from another process or program and may be one of the data plane's.
const UNKNOWN: usize = 2;
/// A set of epoll(7) without members of ours.
const SET: usize = 3;
/// A UDP socket without a port: the data plane's once it has one.
const FRESH: usize = 4;
/// An internet socket that stays the kernel's, for an option that it has.
const KERNELS: usize = 5;
/// A socket that is just getting another open file: who looks waits for that.
const MOVING: usize = 6;
/// Words from here on are addresses of entries.
const FIRST_ADDRESS: usize = 64;

/// What a number is.
pub(crate) enum Found {
    /// The kernel's.
    Plain,
    /// Ours, and the program does not know of it.
    Internal,
    /// A set of epoll(7) that has only the kernel's members.
    KernelSet,
    /// Something with an entry.
    Ours(Held),
}

fn word_of(fd: c_int) -> Option<&'static AtomicUsize> {
    // A negative number becomes one beyond the array, and the kernel's to refuse.
    WORDS.get(fd as usize)
}

/// Whether a descriptor is the kernel's alone.
#[inline]
pub(crate) fn is_plain(fd: c_int) -> bool {
    word_of(fd).is_none_or(|word| word.load(Ordering::Acquire) == PLAIN)
}

/// Whether a descriptor is a UDP socket that has no port yet, as far as is known here.
#[inline]
pub(crate) fn is_fresh(fd: c_int) -> bool {
    word_of(fd).is_some_and(|word| word.load(Ordering::Acquire) == FRESH)
}

/// What a descriptor is; `None` for a socket from elsewhere of which the daemon has not been asked.
#[inline]
pub(crate) fn look(fd: c_int) -> Option<Found> {
    let Some(place) = word_of(fd) else { return Some(Found::Plain) };
    loop {
        match place.load(Ordering::Acquire) {
            PLAIN | FRESH | KERNELS => return Some(Found::Plain),
            INTERNAL => return Some(Found::Internal),
            SET => return Some(Found::KernelSet),
            UNKNOWN => return None,
            MOVING if own_code::is_running() => return Some(Found::Plain),
            MOVING => std::thread::yield_now(),
            address => {
                let held = Held::of_address(address);
                // The number may have got another file meanwhile, and the entry another use.
                if place.load(Ordering::Acquire) == address
                    && let Some(held) = held
                {
                    return Some(Found::Ours(held));
                }
            }
        }
    }
}

/// What a descriptor is; a socket from elsewhere counts as the kernel's, and is not asked.
pub(crate) fn find_quietly(fd: c_int) -> Found {
    look(fd).unwrap_or(Found::Plain)
}

/// A number that names this entry, if there is one: a look through all of them.
pub(crate) fn number_of(held: &Held) -> Option<c_int> {
    numbers_of(held).next()
}

/// The numbers that name this entry: a look through all of them.
pub(crate) fn numbers_of(held: &Held) -> impl Iterator<Item = c_int> {
    let end = SPECIAL_END.load(Ordering::Relaxed);
    let numbers = WORDS[..end].iter().enumerate();
    let is_its = |word: usize| word == held.address();
    numbers.filter(move |(_, word)| is_its(word.load(Ordering::Acquire))).map(|(at, _)| at as c_int)
}

/// Whether a number still names this entry.
pub(crate) fn is_still(fd: c_int, held: &Held) -> bool {
    word_of(fd).is_some_and(|place| place.load(Ordering::Acquire) == held.address())
}

/// Says what the daemon has answered about a socket from elsewhere; nothing: it is the kernel's.
pub(crate) fn settle(fd: c_int, found: Option<Body>) {
    let Some(place) = word_of(fd) else { return };
    let word = found.map_or(PLAIN, |body| Held::new(body).into_address());
    if place.compare_exchange(UNKNOWN, word, Ordering::AcqRel, Ordering::Relaxed).is_err()
        && word != PLAIN
    {
        // Another thread was first, or the number was closed.
        drop(Held::of_number(word));
    }
}

/// Gives a number an entry of its own; nothing if the number is too high. What it was before is
/// forgotten.
pub(crate) fn install(fd: c_int, body: Body) -> Option<Held> {
    let place = word_of(fd)?;
    note_special(fd);
    let held = Held::new(body);
    let word = held.clone().into_address();
    retire(place.swap(word, Ordering::AcqRel));
    Some(held)
}

/// Lets one more number name an entry.
pub(crate) fn share(held: &Held, fd: c_int) {
    if let Some(place) = word_of(fd) {
        note_special(fd);
        held.add_number();
        retire(place.swap(held.clone().into_address(), Ordering::AcqRel));
    }
}

/// A number's entry is no longer the number's: the entry, and whether this was its last number.
pub(crate) fn remove(fd: c_int) -> Option<(Held, bool)> {
    let place = word_of(fd)?;
    loop {
        let word = place.load(Ordering::Acquire);
        if word == MOVING && !own_code::is_running() {
            std::thread::yield_now();
        } else if place.compare_exchange(word, PLAIN, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return (word >= FIRST_ADDRESS).then(|| Held::of_number(word));
        }
    }
}

/// Keeps everybody from a number while it gets another open file: one that names this entry, or
/// one from elsewhere of which the daemon has not been asked. False: it is neither any more.
pub(crate) fn begin_move(fd: c_int, held: Option<&Held>) -> bool {
    let word = held.map_or(UNKNOWN, Held::address);
    word_of(fd).is_some_and(|place| {
        place.compare_exchange(word, MOVING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    })
}

/// The number has its new file, which is the kernel's. Whether this was the entry's last number.
pub(crate) fn end_move(fd: c_int, held: Option<&Held>) -> bool {
    if let Some(place) = word_of(fd) {
        place.store(PLAIN, Ordering::Release);
    }
    held.is_some_and(|held| Held::of_number(held.address()).1)
}

/// The kernel has given out a number: whatever we thought that it was, it was closed behind our
/// back. Not so in a child of vfork, which has numbers of its own: those here are its parent's.
pub(crate) fn is_new(fd: c_int) {
    if let Some(place) = word_of(fd)
        && place.load(Ordering::Relaxed) != PLAIN
        && !fork::shares_memory()
    {
        retire(place.swap(PLAIN, Ordering::AcqRel));
    }
}

fn retire(word: usize) {
    if word >= FIRST_ADDRESS {
        let (held, was_last) = Held::of_number(word);
        if was_last {
            held.end();
        }
    }
}

/// Marks a descriptor as one that the program does not know of.
pub(crate) fn set_internal(fd: c_int) {
    mark(fd, INTERNAL);
}

/// Marks a socket that came from elsewhere.
pub(crate) fn set_unknown(fd: c_int) {
    mark(fd, UNKNOWN);
}

/// Marks a UDP socket that has no port yet.
pub(crate) fn set_fresh(fd: c_int) {
    mark(fd, FRESH);
}

/// Marks a socket that stays the kernel's.
pub(crate) fn set_kernels(fd: c_int) {
    mark(fd, KERNELS);
}

/// Whether a socket was marked so.
pub(crate) fn is_kernels(fd: c_int) -> bool {
    word_of(fd).is_some_and(|word| word.load(Ordering::Acquire) == KERNELS)
}

/// Marks a set of epoll(7).
pub(crate) fn set_kernel_set(fd: c_int) {
    mark(fd, SET);
}

fn mark(fd: c_int, word: usize) {
    if let Some(place) = word_of(fd) {
        retire(place.swap(word, Ordering::AcqRel));
        note_special(fd);
    }
}

/// One more than the highest number that ever was anything to us.
static SPECIAL_END: AtomicUsize = AtomicUsize::new(0);

fn note_special(fd: c_int) {
    SPECIAL_END.fetch_max(fd as usize + 1, Ordering::Relaxed);
}

/// One more than the highest number that ever was anything to us.
pub(crate) fn special_end() -> usize {
    SPECIAL_END.load(Ordering::Relaxed)
}

/// Whether any number ever was anything to us.
pub(crate) fn any_special() -> bool {
    SPECIAL_END.load(Ordering::Relaxed) != 0
}

/// The numbers of sockets that are ours, or may be: one from elsewhere is not asked.
pub(crate) fn ours() -> impl Iterator<Item = c_int> {
    let end = SPECIAL_END.load(Ordering::Relaxed);
    (0..end as c_int).filter(|&fd| {
        WORDS[fd as usize].load(Ordering::Relaxed) == UNKNOWN
            || matches!(find_quietly(fd), Found::Ours(held) if held.file().is_some())
    })
}

/// The internal descriptors and those with entries between `first` and `last`, lowest first.
pub(crate) fn special(first: usize, last: usize) -> impl Iterator<Item = (c_int, bool)> {
    let end = last.saturating_add(1).min(SPECIAL_END.load(Ordering::Relaxed));
    (first.min(end)..end).filter_map(|fd| {
        let word = WORDS[fd].load(Ordering::Relaxed);
        (word != PLAIN).then_some((fd as c_int, word == INTERNAL))
    })
}
