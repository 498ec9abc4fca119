//! The kernel's socket that goes on with one connection.
//!
//! It is a new one, which no program has before the connection stands: while a socket is repaired,
//! whoever has it may bind, connect and have it listen by rights that are only the kernel's.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType};
use shm::sockets::{Asks, SlotOption, SlotWords, release, seize};
use stack::Inherited;
use sys::tcp_repair::{Record as KernelRecord, Repaired, Window};
use sys::{SysError, socket, socket_options};
use tcp::Repair;

use super::aside::{Aside, Passed};
use super::raw_segments::RawSegments;
use super::shares::ROOT;

/// A segment that comes while a socket is made ready can spoil that; nobody has heard of it then.
const TRIES: usize = 5;

/// Whoever is kept by a socket of a program is waited for this long. One takes some microseconds.
const MADE_WITHIN: Duration = Duration::from_millis(50);

/// A socket of the family that the connection has.
pub(crate) fn of_nobody(repair: &Repair) -> Result<OwnedFd, SysError> {
    made(if repair.key.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET })
}

/// A socket for the place of `old`, a program's of user `uid`: of its family, its user's, and with
/// its options. Nobody but this thread has it.
///
/// A process may have executed a program with another user's rights, and whoever speaks for it here
/// may name that one's sockets. What they are allowed is not the user's: only root's programs have
/// sockets of others.
///
/// To ask the old one takes as long as its program likes: see [`all_in_place_of`].
///
/// # Errors
/// One like that cannot be had: the old one is another user's, of another network namespace, or has
/// what only the kernel can honour; or CAP_CHOWN is missing.
fn in_place_of(old: BorrowedFd<'_>, uid: u32) -> Result<OwnedFd, SysError> {
    let failed = |errno, advice| SysError::new("make a socket in place of another", errno, advice);
    let user = socket::user_of(old)?;
    if uid != ROOT && user != uid {
        return Err(failed(Errno::PERM, "it is another user's"));
    }
    let is_v6 = socket::kind_of(old)?.is_ipv6();
    let new = made(if is_v6 { AddressFamily::INET6 } else { AddressFamily::INET })?;
    if socket::netns_cookie_of(old)? != socket::netns_cookie_of(new.as_fd())? {
        return Err(failed(Errno::XDEV, "it is of another network namespace"));
    }
    if socket_options::kernel_only(old)?.is_some() {
        return Err(failed(Errno::OPNOTSUPP, "it has an option that only it can have"));
    }
    socket_options::copy(old, new.as_fd())?;
    if user != socket::user_of(new.as_fd())? {
        let user = Some(rustix::fs::Uid::from_raw(user));
        rustix::fs::fchown(&new, user, None)
            .map_err(|errno| failed(errno, "CAP_CHOWN is needed"))?;
    }
    Ok(new)
}

/// Making one takes this long before it is the program that is waited for. Some tens of
/// microseconds are usual, and ten thousand honest connections must not use up their user's time.
const MADE_ANYWAY: Duration = Duration::from_micros(250);

/// How much of `elapsed` a user's programs have kept whoever made `count` sockets in their places.
pub(crate) fn kept(elapsed: Duration, count: usize) -> Duration {
    elapsed.saturating_sub(MADE_ANYWAY * u32::try_from(count).unwrap_or(u32::MAX))
}

/// Sockets for the places of all of these, which are of one user's programs, as far as these let
/// them be asked until a time. None: this one did not. Nobody has the new ones but who calls.
pub(crate) fn all_in_place_of(
    aside: &Aside,
    old: &[Passed],
    user: u32,
    until: Instant,
) -> Vec<Option<Result<OwnedFd, SysError>>> {
    let mut all = Vec::new();
    while all.len() < old.len() {
        let left: Vec<Passed> = old[all.len()..].to_vec();
        let made = Arc::new(Mutex::new(Some(Vec::new())));
        let theirs = Arc::clone(&made);
        let make = move || {
            for old in left {
                let new = in_place_of(old.as_fd(), user);
                match &mut *locked(&theirs) {
                    Some(made) => made.push(Some(new)),
                    // It was late, and another thread goes on.
                    None => return,
                }
            }
        };
        let within = MADE_WITHIN.min(until.saturating_duration_since(Instant::now()));
        if !within.is_zero() {
            let _ = aside.ask(user, within, make);
        }
        let made = locked(&made).take().unwrap_or_default();
        match made.is_empty() {
            true => all.push(None),
            false => all.extend(made),
        }
    }
    all
}

/// A thread that has panicked has left nothing half-done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program was given `socket` for its own. What it has wanted of that meanwhile is done, by a
/// thread beside: from now on the socket's lock is the program's as well.
pub(crate) fn catch_up(aside: &Aside, user: u32, socket: &Passed, words: &SlotWords) {
    let (asks, linger) = (words.asks(), words.option(SlotOption::Linger));
    let is_nonblocking = is_nonblocking(words);
    // To read them takes no lock.
    let flags = rustix::fs::fcntl_getfl(&**socket).unwrap_or(OFlags::empty());
    if asks.has(Asks::CLOSE | Asks::ABORT) || flags.contains(OFlags::NONBLOCK) != is_nonblocking {
        let socket = Passed::clone(socket);
        aside.begin(user, move || {
            end_as_asked(asks, linger, socket.as_fd());
            let _ = set_nonblocking(&socket, is_nonblocking);
        });
    }
}

/// Says whether its calls fail instead of waiting.
pub(crate) fn set_nonblocking(socket: &OwnedFd, is_on: bool) -> Result<(), SysError> {
    let set = || {
        let flags = rustix::fs::fcntl_getfl(socket)?;
        match flags.contains(OFlags::NONBLOCK) == is_on {
            true => Ok(()),
            false => rustix::fs::fcntl_setfl(socket, flags ^ OFlags::NONBLOCK),
        }
    };
    set().map_err(|errno| SysError::new("set a socket's flags", errno, ""))
}

fn made(family: AddressFamily) -> Result<OwnedFd, SysError> {
    rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|errno| SysError::new("make a socket", errno, ""))
}

pub(crate) fn follows(words: &SlotWords) -> bool {
    words.follows.load(Ordering::Acquire) != 0
}

/// Keeps its program from copying into its rings and out of them; false: it is in the middle of
/// that.
pub(crate) fn seize_both(words: &SlotWords) -> bool {
    if !seize(&words.rx_lock) {
        return false;
    }
    let is_seized = seize(&words.tx_lock);
    if !is_seized {
        release(&words.rx_lock);
    }
    is_seized
}

pub(crate) fn release_both(words: &SlotWords) {
    release(&words.rx_lock);
    release(&words.tx_lock);
}

/// Has `socket` go on with a connection. `is_named` is called when the kernel knows its name. The
/// end of a peer is on its way then, if it is over: see [`RawSegments::await_ends`].
pub(crate) fn give(
    connection: &Inherited,
    asks: Asks,
    socket: &OwnedFd,
    raw_segments: &RawSegments,
    is_named: impl FnOnce(),
) -> Result<(), SysError> {
    let Inherited { repair, was_opened, unread, queued } = connection;
    let (sent, unsent) = queued.split_at((repair.sent_bytes as usize).min(queued.len()));
    let record = record(repair, unread.len(), queued.len(), *was_opened);
    let mut tries = TRIES;
    let repaired = loop {
        tries -= 1;
        match Repaired::begin(socket.as_fd(), &record, unread, sent) {
            Ok(repaired) => break repaired,
            Err(error) if tries == 0 => return Err(error),
            Err(_) => {}
        }
    };
    is_named();
    // Before what was never sent, so that the peer hears it in order.
    raw_segments.send_again(repair, sent);
    repaired.go_on(unsent)?;
    if repair.has_peer_closed {
        raw_segments.tell_end(repair)?;
    }
    // One that its peer has reset by now is told so by the next call.
    if repair.is_shut || asks.has(Asks::SHUT_WRITE) {
        let _ = rustix::net::shutdown(socket, Shutdown::Write);
    }
    if asks.has(Asks::SHUT_READ) {
        let _ = rustix::net::shutdown(socket, Shutdown::Read);
    }
    Ok(())
}

/// What the kernel is to know.
fn record(repair: &Repair, unread: usize, queued: usize, was_opened: bool) -> KernelRecord {
    let window = &repair.window;
    KernelRecord {
        local: repair.key.destination(),
        remote: repair.key.source(),
        send_first: repair.send_first.0,
        receive_first: repair.receive_first.0,
        mss: repair.mss,
        shifts: repair.shifts,
        sack: repair.sack,
        timestamp: repair.timestamp,
        window: Window {
            snd_wl1: window.snd_wl1.0,
            snd_wnd: window.snd_wnd,
            max_window: window.snd_wnd_max,
            rcv_wnd: window.rcv_wnd,
            rcv_wup: window.rcv_wup.0,
        },
        room: [unread + window.rcv_wnd as usize, queued],
        // A listener may come back beside the connections that it has accepted.
        reuses_address: !was_opened,
    }
}

/// A program has closed its connection since the worker's last look: nobody else hears of that, and
/// the socket that the program was sent may lie there for as long as it lives.
fn end_as_asked(asks: Asks, linger: u32, socket: BorrowedFd<'_>) {
    // SO_LINGER without any time.
    let is_reset = asks.has(Asks::ABORT) || linger == 1;
    // One that its peer has reset by now is over anyway.
    if asks.has(Asks::CLOSE | Asks::ABORT) && is_reset {
        let _ = rustix::net::connect_unspec(socket);
    } else if asks.has(Asks::CLOSE) {
        let _ = rustix::net::shutdown(socket, Shutdown::Both);
    }
}

/// Whether its program's calls on it do not wait.
pub(crate) fn is_nonblocking(words: &SlotWords) -> bool {
    words.file_flags.load(Ordering::Relaxed) & OFlags::NONBLOCK.bits() != 0
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use sys::held_memory::HeldMemory;

    use super::*;

    /// Of linux/socket.h: more of the datagram comes.
    const MSG_MORE: i32 = 0x8000;

    #[test]
    fn many_sockets_that_are_made_in_their_time_use_up_none_of_their_programs_and_one_that_is_kept_does()
     {
        let honest = Duration::from_micros(240) * 10_000;
        assert_eq!(kept(honest, 10_000), Duration::ZERO);
        let late = Duration::from_millis(50);
        assert!(kept(late, 1) > Duration::from_millis(49), "{:?}", kept(late, 1));
    }

    #[test]
    fn a_socket_of_another_user_is_gone_on_with_for_roots_programs_only() {
        let nobody = 65_534;
        let [roots, nobodys] = [(); 2].map(|()| made(AddressFamily::INET).expect("it is made"));
        let owner = Some(rustix::fs::Uid::from_raw(nobody));
        rustix::fs::fchown(&nobodys, owner, None).expect("root may");
        for (old, uid, expected) in [
            (&roots, ROOT, Ok(ROOT)),
            (&nobodys, ROOT, Ok(nobody)),
            (&nobodys, nobody, Ok(nobody)),
            (&roots, nobody, Err(Errno::PERM)),
            (&nobodys, nobody - 1, Err(Errno::PERM)),
        ] {
            let new = in_place_of(old.as_fd(), uid);
            let user = new.map(|new| socket::user_of(new.as_fd()).expect("it is a socket"));
            assert_eq!(user.map_err(|error| error.errno()), expected);
        }
    }

    #[test]
    fn a_socket_that_its_program_keeps_from_being_asked_keeps_no_others_from_their_places() {
        let aside = Aside::start().expect("threads are left");
        let [one, kept, three] = [(); 3]
            .map(|()| Passed::new(UdpSocket::bind("127.0.0.1:0").expect("a port is free").into()));
        let here = socket::local_address(kept.as_fd()).expect("it is bound");
        rustix::net::connect(&*kept, &here).expect("it is UDP");
        let memory = HeldMemory::new().expect("root may");
        let held = memory.send(kept.try_clone().expect("descriptors are left"), MSG_MORE);
        let soon = Instant::now() + Duration::from_secs(60);
        let made = all_in_place_of(&aside, &[one, kept, three], ROOT, soon);
        drop(memory);
        held.join().expect("it does not panic");
        assert_eq!(made.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn what_a_program_has_closed_meanwhile_ends_for_its_peer_as_it_wished() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
        let here = listener.local_addr().expect("it is bound");
        for (asks, linger, expected) in [
            (Asks::CLOSE, 0, Ok(0)),
            (Asks::CLOSE, 1, Err(ErrorKind::ConnectionReset)),
            (Asks::CLOSE | Asks::ABORT, 0, Err(ErrorKind::ConnectionReset)),
            (Asks::SHUT_READ, 1, Err(ErrorKind::WouldBlock)),
        ] {
            let mut peer = TcpStream::connect(here).expect("it listens");
            let (socket, _) = listener.accept().expect("it is connected");
            end_as_asked(Asks(asks), linger, socket.as_fd());
            // Of the last nothing comes.
            peer.set_nonblocking(asks == Asks::SHUT_READ).expect("a socket");
            let heard = peer.read(&mut [0; 1]).map_err(|error| error.kind());
            assert_eq!(heard, expected, "{asks} {linger}");
        }
    }
}
