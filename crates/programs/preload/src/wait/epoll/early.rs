//! Members that a set has had since before they were ours: a socket is often added to its set
//! first, and then bound, connected or told to listen.
//!
//! What is remembered of such a member is what the program said last of it. It is a hint: the
//! number may have got another file since, and the set's too. So a member is moved only when the
//! kernel's set still has it, which taking it out there proves.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, epoll_event};

use super::kernel_set::control;
use super::set::Set;
use super::sets::{count, set_of};
use crate::entry::Held;
use crate::entry::descriptors::{self, Found};
use crate::process::lookup;
use crate::system::lock::Lock;
use crate::system::{fork, kernel_socket};

/// By the socket's number.
static EARLY: Lock<BTreeMap<c_int, Vec<Early>>> = Lock::new(BTreeMap::new());

/// Whether there ever was one.
static ANY: AtomicBool = AtomicBool::new(false);

/// How many sets of one socket are remembered; in further ones it is the kernel's, and silent.
const SETS_MAX: usize = 16;

/// What the program said of a member.
struct Early {
    set: c_int,
    event: epoll_event,
}

/// A set of the kernel has done `operation` for a number that is not ours.
pub(crate) fn note(set: c_int, operation: c_int, fd: c_int, event: Option<epoll_event>) {
    let is_new = operation == libc::EPOLL_CTL_ADD;
    if fork::is_borrowed()
        || !is_new && !ANY.load(Ordering::Relaxed)
        || is_new && kernel_socket::kind_of(fd).is_none()
    {
        return;
    }
    ANY.store(true, Ordering::Relaxed);
    let numbers = numbers_of_set(set);
    let Some(mut all) = EARLY.lock() else { return };
    let known = all.entry(fd).or_default();
    known.retain(|early| !numbers.contains(&early.set));
    if let Some(event) = event.filter(|_| operation != libc::EPOLL_CTL_DEL) {
        let room = SETS_MAX.saturating_sub(known.len());
        known.extend(numbers.into_iter().take(room).map(|set| Early { set, event }));
    }
    if known.is_empty() {
        all.remove(&fd);
    }
}

/// All numbers of a set, that one first: one that was duplicated may be closed by the other.
fn numbers_of_set(set: c_int) -> Vec<c_int> {
    let mut numbers = vec![set];
    if let Found::Ours(held) = descriptors::find_quietly(set) {
        numbers.extend(descriptors::numbers_of(&held).filter(|&number| number != set));
    }
    numbers
}

/// A set has got one more number: its members are found by that one too.
pub(crate) fn duplicated(set: c_int, made: c_int) {
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    let Some(mut all) = EARLY.lock() else { return };
    for known in all.values_mut() {
        known.retain(|early| early.set != made);
        let event = known.iter().find(|early| early.set == set).map(|early| early.event);
        if let Some(event) = event.filter(|_| known.len() < SETS_MAX) {
            known.push(Early { set: made, event });
        }
    }
}

/// A socket has become ours: it is a member of ours from now on wherever it was one of the
/// kernel's.
pub(crate) fn moves(fd: c_int, held: &Held) {
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    let Some(known) = EARLY.lock().and_then(|mut all| all.remove(&fd)) else { return };
    for Early { set, event } in known {
        if control(set, libc::EPOLL_CTL_DEL, fd, None).is_err() {
            continue;
        }
        count(set, libc::EPOLL_CTL_DEL, 0);
        let moved = set_of(set).is_some_and(|set_held| {
            let inner = Set::of(&set_held);
            inner.is_some_and(|inner| inner.add((set, &set_held), fd, held, event).is_ok())
        });
        if !moved && control(set, libc::EPOLL_CTL_ADD, fd, Some(event)).is_ok() {
            count(set, libc::EPOLL_CTL_ADD, 0);
        }
    }
}

/// A socket is about to be the kernel's again, with the same number: an attempt to connect has
/// failed, or it is offered anew. It stays a member where it is one.
pub(crate) fn moves_back(fd: c_int) {
    lookup::socket(fd).iter().for_each(|held| moves_from(fd, held));
}

/// The same of a number that is no longer found, and had this entry.
pub(crate) fn moves_from(fd: c_int, held: &Held) {
    let Some(file) = held.file() else { return };
    for set_held in file.memberships.sets().filter_map(Held::of_address) {
        let Some(set) = descriptors::number_of(&set_held) else { continue };
        let taken = Set::of(&set_held).and_then(|inner| inner.take_out(set, fd, held));
        if let Some(event) = taken
            && control(set, libc::EPOLL_CTL_ADD, fd, Some(event)).is_ok()
        {
            count(set, libc::EPOLL_CTL_ADD, 0);
            note(set, libc::EPOLL_CTL_ADD, fd, Some(event));
        }
    }
}
