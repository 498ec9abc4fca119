//! Connections that the daemon has given to the kernel get the kernel's sockets.
//!
//! Those are new ones, which the daemon has sent to each process that had the old one: at every
//! number of that the new one takes its place, with the flags of the number and the interest of its
//! sets. A number is [held back](descriptors::begin_move) meanwhile, so that none is closed, and
//! given out for another file, between the look at it and the change.

use std::os::fd::AsRawFd;
use std::sync::atomic::{Ordering, fence};

use calisto_client::sockets::{GIVEN_WITHIN, Given, Session, is_confined};
use libc::c_int;

use crate::calls::{alarm, inherit};
use crate::entry::descriptors::{self, Found};
use crate::entry::file::Kind;
use crate::entry::{Held, own_code};
use crate::system::{fork, kernel_socket, mover, real};
use crate::wait::deadline::Deadline;
use crate::wait::epoll;

/// New sockets that are taken at once: the process needs this many descriptors more than it has.
const TAKEN_MAX: usize = 16;

/// The connection of a number was given to the kernel: returns when the number is the kernel's.
/// What comes for other numbers meanwhile is theirs.
pub(crate) fn leave(fd: c_int, held: &Held) {
    let deadline = Deadline::after(GIVEN_WITHIN);
    own_code::run(|| {
        while descriptors::is_still(fd, held) {
            mover::alone(|| {
                if descriptors::is_still(fd, held) {
                    take(held, deadline);
                }
            });
        }
    });
}

/// Takes what has come; what can come no more is lost, and its numbers keep a socket that is not
/// connected.
fn take(wanted: &Held, deadline: Deadline) {
    let Some(file) = wanted.file() else { return };
    let session = file.socket.session();
    let given = if is_confined() { Vec::new() } else { session.take_given(TAKEN_MAX) };
    if given.is_empty() || deadline.is_over() {
        session.give_back(given);
        for fd in descriptors::numbers_of(wanted) {
            put(fd, Some(wanted), None);
        }
        return;
    }
    let kept = settle(given);
    session.give_back(kept);
}

/// A number was the last of this process that stood for a connection. If that is given to the
/// kernel at the same time, its new socket is closed too, which lies there for no number.
pub(crate) fn closed(held: &Held) {
    let Some(file) = held.file().filter(|file| file.kind == Kind::Stream) else { return };
    // What the close has asked for is seen by the daemon, or its word here.
    fence(Ordering::SeqCst);
    if !file.is_to_leave() || own_code::is_running() || fork::is_borrowed() || is_confined() {
        return;
    }
    sweep(file.socket.session());
}

/// Takes what has come so far, for whatever number: what has none is closed.
pub(crate) fn sweep(session: &Session) {
    own_code::run(|| {
        mover::alone(|| {
            let mut kept = Vec::new();
            loop {
                let (given, _) = session.given_so_far(TAKEN_MAX);
                if given.is_empty() {
                    break;
                }
                kept.extend(settle(given));
            }
            session.give_back(kept);
        });
    });
}

/// Gives their numbers to those that have come: what is left is of numbers whose connections are
/// not said to be the kernel's yet. What no number of this process names was closed meanwhile.
fn settle(given: Vec<Given>) -> Vec<Given> {
    let mut has_number = vec![false; given.len()];
    let mut is_taken = vec![false; given.len()];
    for fd in descriptors::ours() {
        let held = match descriptors::look(fd) {
            Some(Found::Ours(held)) => Some(held),
            // One from elsewhere, of which no daemon can be asked any more.
            None => None,
            Some(_) => continue,
        };
        let file = held.as_ref().and_then(Held::file);
        if held.is_some() && file.is_none_or(|file| file.kind != Kind::Stream) {
            continue;
        }
        let cookie = match file {
            Some(file) => file.cookie(|| kernel_socket::cookie(fd)),
            None => kernel_socket::cookie(fd).unwrap_or(0),
        };
        let Some(at) = given.iter().position(|given| given.cookie == cookie) else { continue };
        has_number[at] = true;
        if file.is_none_or(|file| file.socket.is_kernels()) {
            is_taken[at] |= put(fd, held.as_ref(), Some(&given[at]));
        }
    }
    let mut at = 0..;
    let is_to_keep = |_: &Given| at.next().is_some_and(|at| has_number[at] && !is_taken[at]);
    given.into_iter().filter(is_to_keep).collect()
}

/// Gives a number its new file; false: it is another one's by now.
fn put(fd: c_int, held: Option<&Held>, given: Option<&Given>) -> bool {
    if !descriptors::begin_move(fd, held) {
        return false;
    }
    if given.is_some_and(|given| kernel_socket::cookie(fd) != Some(given.cookie)) {
        // It was closed behind our back, and is another file's by now.
        end_move(fd, held);
        return false;
    }
    let file = held.and_then(Held::file);
    if let Some(given) = given {
        let new = given.socket.as_raw_fd();
        alarm::copy(fd, new);
        file.iter().for_each(|file| inherit::to_kernel(new, file));
        put_file(new, fd);
    }
    file.iter().for_each(|file| {
        file.set_renewed();
        file.set_alarm(false, || None);
    });
    held.iter().for_each(|held| epoll::moves_from(fd, held));
    end_move(fd, held);
    true
}

fn end_move(fd: c_int, held: Option<&Held>) {
    let was_last = descriptors::end_move(fd, held);
    if let Some(held) = held.filter(|_| was_last) {
        held.end();
    }
}

/// Puts the file of one number at another, which stays marked to be closed by exec, or not.
fn put_file(from: c_int, to: c_int) {
    // SAFETY: plain numbers, both open. It takes no argument.
    unsafe {
        let is_marked = real::fcntl(to, libc::F_GETFD, 0) & libc::FD_CLOEXEC != 0;
        real::dup3(from, to, if is_marked { libc::O_CLOEXEC } else { 0 });
    }
}

/// `made` was made of `fd`, whose connection has been given to the kernel since or meanwhile: both
/// name the file that `fd` has now.
pub(crate) fn keep_alike(fd: c_int, made: c_int) {
    if own_code::is_running() {
        return;
    }
    own_code::run(|| {
        mover::alone(|| {
            let cookies = [fd, made].map(kernel_socket::cookie);
            if cookies[0] == cookies[1] || cookies.contains(&None) {
                return;
            }
            let removed = descriptors::remove(made);
            put_file(fd, made);
            if let Some((held, true)) = removed {
                held.end();
            }
        });
    });
}
