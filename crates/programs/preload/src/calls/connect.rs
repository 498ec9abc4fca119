//! connect(2): by the data plane where it leads there, else by the kernel.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use calisto_client::sockets::{Outcome, Readiness};
use libc::{c_int, sockaddr, socklen_t};
use rustix::io::Errno;

use crate::calls::{alarm, fallback, inherit, listen, twins, udp};
use crate::entry::file::{File, Kind};
use crate::entry::{Body, Held, descriptors, own_code};
use crate::process::{lookup, say, session};
use crate::system::{address, copy, faults, fork, kernel_socket, outcome, real};
use crate::wait::deadline::Deadline;
use crate::wait::{self, Ended};

/// connect(2).
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn connect(fd: c_int, address: *const sockaddr, bytes: socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { decide(fd, address, bytes) } {
        Some(result) => outcome::done(result),
        // SAFETY: the caller's arguments.
        None => unsafe { real::connect(fd, address, bytes) },
    }
}

/// `None`: the kernel's.
unsafe fn decide(
    fd: c_int,
    address: *const sockaddr,
    bytes: socklen_t,
) -> Option<Result<(), Errno>> {
    if let Some(held) = lookup::socket(fd) {
        if fork::is_borrowed() {
            // What the number is to the parent stays so.
            return None;
        }
        let file = held.file()?;
        // SAFETY: the caller's promise.
        if let Err(errno) = unsafe { address::judge(address, bytes) } {
            return Some(Err(errno));
        }
        if file.kind == Kind::Datagram {
            // SAFETY: the caller's promise.
            return unsafe { udp::connect(fd, &held, address, bytes) };
        }
        // SAFETY: the caller's promise.
        return unsafe { again(fd, &held, address, bytes) };
    }
    if descriptors::is_fresh(fd) {
        // It gets its port now, whoever serves it.
        descriptors::is_new(fd);
    }
    if !descriptors::is_plain(fd) {
        outcome::unheard(|| fallback::tell(fd));
        return None;
    }
    let (socket_family, is_stream) = kernel_socket::kind_of(fd)?;
    faults::watch();
    // What cannot be read, or is another family's, is the kernel's to refuse.
    if bytes < size_of::<libc::sa_family_t>() as socklen_t {
        return None;
    }
    // SAFETY: the caller's promise.
    let asked_family = unsafe { copy::get(address.cast::<libc::sa_family_t>()) }.ok()?;
    if c_int::from(asked_family) != socket_family {
        return None;
    }
    // SAFETY: the caller's promise.
    let remote = unsafe { address::read(address, bytes) }.ok()??;
    if address::is_hopeless(remote) || fork::is_borrowed() {
        return None;
    }
    if is_stream {
        open(fd, socket_family, remote)
    } else {
        udp::connected(fd, socket_family, remote)
    }
}

fn open(fd: c_int, family: c_int, remote: SocketAddr) -> Option<Result<(), Errno>> {
    let session = session::get()?;
    if fallback::is_kept(session, fd) {
        return None;
    }
    // SAFETY: it was a socket a moment ago; a program that closes it meanwhile has what it asked
    // for.
    let descriptor = unsafe { BorrowedFd::borrow_raw(fd) };
    let socket = match own_code::run(|| session.connect(descriptor, remote)) {
        Ok(Outcome::Ours(socket)) => socket,
        Ok(Outcome::Kernel(reason)) => {
            say::fallback(reason);
            return None;
        }
        Ok(Outcome::Errno(errno)) => return Some(Err(errno)),
        Err(error) => {
            say::no_daemon(&error);
            return None;
        }
    };
    session::note_region_of(&socket);
    let file = File::new(socket, Kind::Stream, family);
    file.set_opening(true);
    let is_nonblocking = kernel_socket::is_nonblocking(fd);
    file.set_nonblocking(is_nonblocking);
    inherit::from_kernel(fd, &file);
    let held = descriptors::install(fd, Body::Socket(file))?;
    twins::follow(fd, &held);
    alarm::follow(fd, &held);
    Some(if is_nonblocking { Err(Errno::INPROGRESS) } else { finish(fd, &held) })
}

/// Waits until the connection stands, or is known not to.
fn finish(fd: c_int, held: &Held) -> Result<(), Errno> {
    let file = held.file().ok_or(Errno::BADF)?;
    let deadline = Deadline::of_option(file.send_timeout());
    loop {
        match conclude(fd, file) {
            Err(Errno::AGAIN) => {}
            told => return told,
        }
        match wait::on(fd, held, Readiness::OUT, deadline)? {
            Ended::Look => {}
            Ended::TimedOut => return Err(Errno::INPROGRESS),
            Ended::Replaced => return Err(Errno::BADF),
        }
    }
}

/// The end of an attempt: the connection, or what became of it, told once. EAGAIN: there is no end
/// yet.
fn conclude(fd: c_int, file: &File) -> Result<(), Errno> {
    let told = file.socket.connected();
    if told == Err(Errno::AGAIN) {
        return told;
    }
    file.set_opening(false);
    if told.is_err() {
        // The descriptor may connect again, to somewhere else perhaps.
        forget(fd);
    }
    told
}

/// The descriptor is the kernel's unconnected socket again.
fn forget(fd: c_int) {
    twins::let_go(fd);
    if let Some((held, true)) = descriptors::remove(fd) {
        if let Some(file) = held.file() {
            file.socket.abort();
        }
        held.end();
    }
}

/// connect(2) on what has been connected, or listens.
unsafe fn again(
    fd: c_int,
    held: &Held,
    address: *const sockaddr,
    bytes: socklen_t,
) -> Option<Result<(), Errno>> {
    let file = held.file()?;
    if bytes < size_of::<libc::sa_family_t>() as socklen_t {
        return Some(Err(Errno::INVAL));
    }
    // SAFETY: the caller's promise.
    let family = match unsafe { copy::get(address.cast::<libc::sa_family_t>()) } {
        Ok(family) => c_int::from(family),
        Err(errno) => return Some(Err(errno)),
    };
    if family == libc::AF_UNSPEC {
        // It disconnects; the kernel's socket never was connected, or listens, which ends by that.
        match file.kind {
            Kind::Listener => listen::give_up(fd, held),
            Kind::Stream | Kind::Datagram => forget(fd),
        }
        return None;
    }
    if file.kind == Kind::Listener {
        return Some(Err(Errno::ISCONN));
    }
    if file.socket.was_given_up() {
        // Of a shut attempt nothing is left (`inet_shutdown`): this is another one.
        forget(fd);
        // SAFETY: the caller's promise.
        return unsafe { decide(fd, address, bytes) };
    }
    Some(if !file.is_opening() {
        Err(Errno::ISCONN)
    } else if file.is_nonblocking() {
        match conclude(fd, file) {
            Err(Errno::AGAIN) => Err(Errno::ALREADY),
            told => told,
        }
    } else {
        // A call that has asked before and waits again until the time is up is told so.
        finish(fd, held).map_err(|errno| match errno {
            Errno::INPROGRESS => Errno::ALREADY,
            other => other,
        })
    })
}
