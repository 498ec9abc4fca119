//! More numbers for an open file, and the flags of both.

use std::sync::atomic::{Ordering, fence};

use libc::c_int;
use rustix::io::Errno;

use crate::calls::{alarm, close, stdio, to_kernel, twins};
use crate::entry::descriptors::{self, Found};
use crate::entry::file::Kind;
use crate::entry::{Held, own_code};
use crate::process::lookup;
use crate::system::{fork, outcome, real};
use crate::wait::epoll;

/// Has the kernel make a number of `fd`, which names the same file then: also if its connection was
/// given to the kernel before, or is at the same time.
fn duplicate(fd: c_int, make: impl FnOnce() -> c_int) -> c_int {
    if fork::is_borrowed() || descriptors::is_plain(fd) {
        return follow(fd, make());
    }
    lookup::leave(fd);
    let before = descriptors::look(fd);
    let made = follow(fd, make());
    let may_have_changed = match &before {
        Some(Found::Ours(held)) => held.file().is_some_and(|file| file.socket.is_kernels()),
        Some(_) => false,
        None => true,
    };
    if made >= 0 && may_have_changed {
        outcome::unheard(|| to_kernel::keep_alike(fd, made));
    }
    made
}

/// Lets a number that the kernel has just made of `fd` name the same file.
fn follow(fd: c_int, made: c_int) -> c_int {
    if made >= 0 && !fork::is_borrowed() {
        descriptors::is_new(made);
        match lookup::find(fd) {
            Found::Ours(held) => {
                descriptors::share(&held, made);
                if epoll::Set::of(&held).is_some() {
                    epoll::early::duplicated(fd, made);
                }
            }
            // The first member of ours may come by either number, and both tell of it.
            Found::KernelSet => {
                match epoll::sets::set_of(fd) {
                    Some(held) => descriptors::share(&held, made),
                    None => descriptors::set_kernel_set(made),
                }
                epoll::early::duplicated(fd, made);
            }
            Found::Plain if descriptors::is_kernels(fd) => descriptors::set_kernels(made),
            Found::Plain => twins::note(fd, made),
            Found::Internal => {}
        }
        stdio::stand_in(made);
    }
    made
}

/// dup(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn dup(fd: c_int) -> c_int {
    if is_hidden(fd) {
        return outcome::failed(Errno::BADF);
    }
    // SAFETY: a plain number.
    duplicate(fd, || unsafe { real::dup(fd) })
}

/// dup2(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn dup2(fd: c_int, to: c_int) -> c_int {
    // SAFETY: plain numbers.
    unsafe { onto(fd, to, || real::dup2(fd, to)) }
}

/// dup3(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    if flags & !libc::O_CLOEXEC != 0 {
        // Refused, it leaves both as they are.
        // SAFETY: plain numbers.
        return unsafe { real::dup3(fd, to, flags) };
    }
    // SAFETY: plain numbers.
    unsafe { onto(fd, to, || real::dup3(fd, to, flags)) }
}

/// Whether a descriptor is one that the program does not know of.
fn is_hidden(fd: c_int) -> bool {
    matches!(descriptors::find_quietly(fd), Found::Internal) && !own_code::is_running()
}

/// A duplicate at a number that is closed first if it is open.
unsafe fn onto(fd: c_int, to: c_int, make: impl FnOnce() -> c_int) -> c_int {
    if fork::is_borrowed() || fd == to {
        return make();
    }
    if descriptors::is_plain(fd) && descriptors::is_plain(to) {
        return follow(fd, make());
    }
    if is_hidden(fd) {
        return outcome::failed(Errno::BADF);
    }
    if is_hidden(to) {
        // It cannot be moved while other threads may be using it.
        return outcome::failed(Errno::BUSY);
    }
    // SAFETY: it takes no argument. Only what is open can be duplicated; nothing is closed
    // otherwise.
    if unsafe { real::fcntl(fd, libc::F_GETFD, 0) } < 0 {
        return make();
    }
    lookup::leave(to);
    // Who waits on it is woken once the new file stands there.
    let removed = descriptors::remove(to);
    let Some((held, true)) = removed else { return duplicate(fd, make) };
    // What lingers does so once the new file stands there, as in `do_dup2` of Linux.
    let kept = outcome::unheard(|| close::keep_lingering(to, &held));
    if kept.is_none() {
        outcome::unheard(|| close::prepare(&held));
    }
    let made = duplicate(fd, make);
    outcome::unheard(|| {
        if let Some(kept) = kept {
            close::end_lingering(kept, &held);
        }
        close::end(&held);
    });
    made
}

/// fcntl(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    if is_hidden(fd) {
        return outcome::failed(Errno::BADF);
    }
    if command == libc::F_DUPFD || command == libc::F_DUPFD_CLOEXEC {
        // SAFETY: plain numbers.
        return duplicate(fd, || unsafe { real::fcntl(fd, command, argument) });
    }
    if descriptors::is_plain(fd) {
        // SAFETY: the caller's arguments.
        return unsafe { real::fcntl(fd, command, argument) };
    }
    match lookup::socket(fd) {
        // SAFETY: the caller's arguments.
        Some(held) => unsafe { of_socket(&held, fd, command, argument) },
        // SAFETY: the caller's arguments.
        None => unsafe { real::fcntl(fd, command, argument) },
    }
}

unsafe fn of_socket(held: &Held, fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller's arguments.
    let kernel = |argument| unsafe { real::fcntl(fd, command, argument) };
    let Some(file) = held.file() else { return kernel(argument) };
    match command {
        libc::F_GETFL => {
            let flags = kernel(argument);
            if flags < 0 {
                return flags;
            }
            let without = flags & !libc::O_NONBLOCK;
            if file.is_nonblocking() { without | libc::O_NONBLOCK } else { without }
        }
        libc::F_SETFL => {
            let flags = argument as c_int;
            let kept = if file.kind == Kind::Listener { flags | libc::O_NONBLOCK } else { flags };
            let result = kernel(kept as usize);
            if result == 0 {
                file.set_nonblocking(flags & libc::O_NONBLOCK != 0);
                alarm::follow(fd, held);
                // The daemon hears it while it gives the connection to the kernel, or is seen here.
                fence(Ordering::SeqCst);
                if file.is_to_leave() {
                    lookup::leave(fd);
                    return kernel(argument);
                }
            }
            result
        }
        _ if alarm::is_about_it(command) => {
            let result = kernel(argument);
            alarm::follow(fd, held);
            result
        }
        _ => kernel(argument),
    }
}
