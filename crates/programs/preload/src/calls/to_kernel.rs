//! Connections that the daemon has given to the kernel get the kernel's sockets.
//!
//! Those are new ones, which the daemon has sent to each process that had the old one: at every
//! number of that the new one takes its place, with the flags of the number and the interest of its
//! sets. A number is [held back](descriptors::begin_move) meanwhile, so that none is closed, and
//! given out for another file, between the look at it and the change.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};

use calisto_client::sockets::{Given, is_confined};
use libc::c_int;

use crate::calls::{alarm, inherit};
use crate::entry::descriptors::{self, Found};
use crate::entry::file::Kind;
use crate::entry::{Held, own_code};
use crate::system::{fork, kernel_socket, real};
use crate::wait::epoll;

/// New sockets that are taken at once: the process needs so many descriptors more than it has.
const TAKEN_MAX: usize = 16;

/// The process that has a thread here, or had one when it was forked.
static MOVER: AtomicU32 = AtomicU32::new(0);

/// The connection of a number was given to the kernel: returns when the number is the kernel's.
/// What comes for other numbers meanwhile is theirs.
pub(crate) fn leave(fd: c_int, held: &Held) {
    own_code::run(|| {
        while descriptors::is_still(fd, held) {
            let (this, of) = (fork::process(), MOVER.load(Ordering::Relaxed));
            let is_free = of != this
                && MOVER.compare_exchange(of, this, Ordering::Acquire, Ordering::Relaxed).is_ok();
            if !is_free {
                std::thread::yield_now();
                continue;
            }
            if descriptors::is_still(fd, held) {
                take(held);
            }
            MOVER.store(0, Ordering::Release);
        }
    });
}

/// Takes what has come; what can come no more is lost, and its numbers keep a socket that is not
/// connected.
fn take(wanted: &Held) {
    let Some(file) = wanted.file() else { return };
    let given =
        if is_confined() { Vec::new() } else { file.socket.session().take_given(TAKEN_MAX) };
    if given.is_empty() {
        for fd in descriptors::numbers_of(wanted) {
            put(fd, Some(wanted), None);
        }
        return;
    }
    for fd in descriptors::ours() {
        let (held, cookie) = match descriptors::look(fd) {
            Some(Found::Ours(held)) => {
                let Some(file) = held.file().filter(|file| file.kind == Kind::Stream) else {
                    continue;
                };
                if !file.socket.is_kernels() {
                    continue;
                }
                let cookie = file.cookie(|| kernel_socket::cookie(fd));
                (Some(held), Some(cookie))
            }
            // One from elsewhere, of which no daemon can be asked any more.
            None => (None, kernel_socket::cookie(fd)),
            Some(_) => continue,
        };
        if let Some(given) = given.iter().find(|given| Some(given.cookie) == cookie) {
            put(fd, held.as_ref(), Some(given));
        }
    }
}

/// Gives a number its new file.
fn put(fd: c_int, held: Option<&Held>, given: Option<&Given>) {
    if !descriptors::begin_move(fd, held) {
        return;
    }
    let file = held.and_then(Held::file);
    if let Some(given) = given {
        let new = given.socket.as_raw_fd();
        alarm::copy(fd, new);
        file.iter().for_each(|file| inherit::to_kernel(new, file));
        // SAFETY: plain numbers, both open. It takes no argument.
        unsafe {
            let is_marked = real::fcntl(fd, libc::F_GETFD, 0) & libc::FD_CLOEXEC != 0;
            real::dup3(new, fd, if is_marked { libc::O_CLOEXEC } else { 0 });
        }
    }
    file.iter().for_each(|file| {
        file.set_renewed();
        file.set_alarm(false, || None);
    });
    held.iter().for_each(|held| epoll::moves_from(fd, held));
    let was_last = descriptors::end_move(fd, held);
    if let Some(held) = held.filter(|_| was_last) {
        held.end();
    }
}
