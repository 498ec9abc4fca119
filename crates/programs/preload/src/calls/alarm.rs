//! O_ASYNC and F_SETOWN of fcntl(2): SIGIO when a connection has news, SIGURG when urgent data
//! come.
//!
//! The kernel's socket of a connection remembers what the program has asked for and has no news of
//! its own. So a thread watches the connection, for as long as there is somebody to be told, and
//! sends what the kernel would. Listeners and UDP sockets are watched likewise; of what comes to
//! their kernel halves the kernel tells.

use std::cell::Cell;

use calisto_client::sockets::{Readiness, Watcher};
use libc::{c_int, c_ulong};

use crate::entry::file::{File, Kind};
use crate::entry::{Held, descriptors, own_code};
use crate::system::{fork, real};

/// Of linux/fcntl.h, which libc has not for every machine.
const F_SETSIG: c_int = 10;
const F_GETSIG: c_int = 11;
const F_SETOWN_EX: c_int = 15;
const F_GETOWN_EX: c_int = 16;
/// Of asm-generic/sockios.h.
const FIOSETOWN: c_ulong = 0x8901;
const SIOCSPGRP: c_ulong = 0x8902;

/// What an owner is: `struct f_owner_ex` of linux/fcntl.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Owner {
    kind: c_int,
    number: libc::pid_t,
}

const OWNER_THREAD: c_int = 0;
const OWNER_GROUP: c_int = 2;

/// Whether a call of fcntl(2) may change who is told of news.
pub(crate) fn is_about_it(command: c_int) -> bool {
    [libc::F_SETFL, libc::F_SETOWN, F_SETOWN_EX, F_SETSIG].contains(&command)
}

/// The same of ioctl(2).
pub(crate) fn is_request_about_it(request: c_ulong) -> bool {
    [libc::FIOASYNC, FIOSETOWN, SIOCSPGRP].contains(&request)
}

/// The kernel has been told, or the socket has become ours: has the thread that is needed, or none.
pub(crate) fn follow(fd: c_int, held: &Held) {
    let Some(file) = held.file() else { return };
    let is_wanted = owner_of(fd).number != 0 && !fork::is_borrowed();
    if !is_wanted && !file.has_alarm() {
        return;
    }
    let address = held.address();
    let seen = Cell::new(Seen::now(file));
    file.set_alarm(is_wanted, || {
        own_code::run(|| {
            Watcher::start(file.socket.clone(), move || {
                let Some(held) = Held::of_address(address) else { return };
                let Some(fd) = descriptors::number_of(&held) else { return };
                let Some(file) = held.file() else { return };
                let (before, now) = (seen.get(), Seen::now(file));
                seen.set(now);
                tell(fd, now.news(before));
            })
        })
    });
}

/// Has the kernel tell of the news of one socket whom it was to tell of those of another, unless it
/// tells somebody already.
pub(crate) fn copy(from: c_int, to: c_int) {
    let owner = owner_of(from);
    if owner.number == 0 || owner_of(to).number != 0 {
        return;
    }
    // SAFETY: numbers, and an owner that lives as long as the call.
    unsafe {
        real::fcntl(to, F_SETOWN_EX, (&raw const owner).expose_provenance());
        real::fcntl(to, F_SETSIG, real::fcntl(from, F_GETSIG, 0).max(0) as usize);
        if real::fcntl(from, libc::F_GETFL, 0) & libc::O_ASYNC != 0 {
            let flags = real::fcntl(to, libc::F_GETFL, 0);
            real::fcntl(to, libc::F_SETFL, (flags | libc::O_ASYNC) as usize);
        }
    }
}

/// What of a socket is compared from look to look.
#[derive(Clone, Copy)]
struct Seen {
    ready: Readiness,
    came: u64,
    urgent: u64,
}

/// What is to be told of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct News {
    /// The bits that a socket has gained, and [`Readiness::IN`] for more bytes.
    ready: u32,
    is_urgent: bool,
}

impl Seen {
    fn now(file: &File) -> Self {
        let (came, urgent) = match file.kind {
            Kind::Stream => file.socket.came(),
            Kind::Listener | Kind::Datagram => (0, 0),
        };
        Self { ready: file.readiness(), came, urgent }
    }

    fn news(self, before: Self) -> News {
        let gained = self.ready.bits() & !before.ready.bits();
        let more = if self.came != before.came { Readiness::IN.bits() } else { 0 };
        News { ready: gained | more, is_urgent: self.urgent > before.urgent }
    }
}

/// Sends the signals that are wanted.
fn tell(fd: c_int, news: News) {
    let Owner { kind, number } = owner_of(fd);
    if number == 0 {
        return;
    }
    if news.is_urgent {
        send(kind, number, libc::SIGURG);
    }
    // SAFETY: it takes no argument.
    let is_async = unsafe { real::fcntl(fd, libc::F_GETFL, 0) } & libc::O_ASYNC != 0;
    if news.ready == 0 || !is_async {
        return;
    }
    // SAFETY: likewise.
    let chosen = unsafe { real::fcntl(fd, F_GETSIG, 0) };
    if chosen <= 0 {
        send(kind, number, libc::SIGIO);
        return;
    }
    for (bits, band) in BANDS {
        if news.ready & bits != 0 && !send_with(kind, number, chosen, (band, fd)) {
            send(kind, number, chosen);
            return;
        }
    }
}

/// What a signal of the program's choice says of the news: `si_band` of fcntl(2), F_SETSIG
/// (`send_sigio_to_task`).
const BANDS: [(u32, i16); 4] = [
    (Readiness::IN.bits() | Readiness::RDHUP.bits(), libc::POLLIN | libc::POLLRDNORM),
    (Readiness::OUT.bits(), libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND),
    (Readiness::ERR.bits(), libc::POLLERR),
    (Readiness::HUP.bits(), libc::POLLHUP | libc::POLLERR),
];

/// `si_code` of a signal about a descriptor that a process sends: the kernel lets no thread say
/// POLL_IN and the like to another one.
const SI_SIGIO: c_int = -5;

/// `siginfo_t` of a signal about a descriptor.
#[repr(C)]
struct About {
    signal: c_int,
    error: c_int,
    code: c_int,
    padding: c_int,
    band: libc::c_long,
    fd: c_int,
    rest: [u8; 100],
}

const _: () = assert!(size_of::<About>() == size_of::<libc::siginfo_t>());

/// Sends a signal that says of which descriptor it tells, and what; false: to a group there is no
/// such call.
fn send_with(kind: c_int, number: libc::pid_t, signal: c_int, (band, fd): (i16, c_int)) -> bool {
    let process = fork::process() as libc::pid_t;
    let (code, band) = (SI_SIGIO, band.into());
    let about = About { signal, error: 0, code, padding: 0, band, fd, rest: [0; 100] };
    let about = &raw const about;
    // SAFETY: plain numbers, and what the call reads.
    let result = unsafe {
        match kind {
            OWNER_THREAD => {
                libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, number, signal, about)
            }
            OWNER_GROUP => return false,
            _ => libc::syscall(libc::SYS_rt_sigqueueinfo, number, signal, about),
        }
    };
    result == 0
}

/// Who is told of a socket's news; number 0: nobody.
fn owner_of(fd: c_int) -> Owner {
    let mut owner = Owner::default();
    // SAFETY: there is a place for the answer.
    unsafe { real::fcntl(fd, F_GETOWN_EX, (&raw mut owner).expose_provenance()) };
    owner
}

fn send(kind: c_int, number: libc::pid_t, signal: c_int) {
    // SAFETY: plain numbers. Who is not there, or may not be told, is not.
    unsafe {
        match kind {
            OWNER_THREAD => {
                let process = fork::process() as libc::pid_t;
                libc::syscall(libc::SYS_tgkill, process, number, signal);
            }
            OWNER_GROUP => _ = libc::kill(-number, signal),
            _ => _ = libc::kill(number, signal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_is_what_was_not_there_before() {
        let quiet = Seen { ready: Readiness::OUT, came: 5, urgent: 0 };
        let none = News { ready: 0, is_urgent: false };
        assert_eq!(quiet.news(quiet), none);
        let read = Seen { ready: Readiness::OUT | Readiness::IN, ..quiet };
        assert_eq!(read.news(quiet).ready, Readiness::IN.bits());
        assert_eq!(quiet.news(read), none, "what is gone is no news");
        let more = Seen { came: 9, ..read };
        assert_eq!(more.news(read), News { ready: Readiness::IN.bits(), is_urgent: false });
        assert!(Seen { urgent: 10, ..more }.news(more).is_urgent);
    }
}
