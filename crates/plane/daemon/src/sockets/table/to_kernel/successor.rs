//! The kernel's socket that goes on with one connection.
//!
//! It is a new one, which no program has before the connection stands: while a socket is repaired,
//! whoever has it may bind, connect and have it listen by rights that are only the kernel's.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType};
use shm::sockets::{Asks, SlotWords, release, seize};
use stack::LetGo;
use sys::tcp_repair::{Record as KernelRecord, Repaired, Window};
use sys::{SysError, socket, socket_options};
use tcp::Repair;

use super::super::super::peer_ends::PeerEnds;

/// A segment that comes while a socket is made ready can spoil that; nobody has heard of it then.
const TRIES: usize = 5;

/// A socket of the family that the connection has.
pub(super) fn of_nobody(repair: &Repair) -> Result<OwnedFd, SysError> {
    made(if repair.key.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET })
}

/// A socket for the place of `old`, a program's: of its family, its user's, and with its options.
/// Nobody but this thread has it.
///
/// # Errors
/// One like that cannot be had: the old one is of another network namespace, or has what only the
/// kernel can honour; or CAP_CHOWN is missing.
pub(super) fn in_place_of(old: BorrowedFd<'_>) -> Result<OwnedFd, SysError> {
    let failed = |errno, advice| SysError::new("make a socket in place of another", errno, advice);
    let is_v6 = socket::kind_of(old)?.is_ipv6();
    let new = made(if is_v6 { AddressFamily::INET6 } else { AddressFamily::INET })?;
    if socket::netns_cookie_of(old)? != socket::netns_cookie_of(new.as_fd())? {
        return Err(failed(Errno::XDEV, "it is of another network namespace"));
    }
    if socket_options::kernel_only(old)?.is_some() {
        return Err(failed(Errno::OPNOTSUPP, "it has an option that only it can have"));
    }
    socket_options::copy(old, new.as_fd())?;
    let user = socket::user_of(old)?;
    if user != socket::user_of(new.as_fd())? {
        let user = Some(rustix::fs::Uid::from_raw(user));
        rustix::fs::fchown(&new, user, None)
            .map_err(|errno| failed(errno, "CAP_CHOWN is needed"))?;
    }
    Ok(new)
}

/// Says whether its calls fail instead of waiting.
pub(super) fn set_nonblocking(socket: &OwnedFd, is_on: bool) -> Result<(), SysError> {
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

pub(super) fn follows(words: &SlotWords) -> bool {
    words.follows.load(Ordering::Acquire) != 0
}

/// Keeps its program from copying into its rings and out of them; false: it is in the middle of
/// that.
pub(super) fn seize_both(words: &SlotWords) -> bool {
    if !seize(&words.rx_lock) {
        return false;
    }
    let is_seized = seize(&words.tx_lock);
    if !is_seized {
        release(&words.rx_lock);
    }
    is_seized
}

pub(super) fn release_both(words: &SlotWords) {
    release(&words.rx_lock);
    release(&words.tx_lock);
}

/// Has `socket` go on with a connection. `is_named` is called when the kernel knows its name. The
/// end of a peer is on its way then, if it is over: see [`PeerEnds::await_all`].
pub(super) fn give(
    let_go: &LetGo,
    asks: Asks,
    socket: &OwnedFd,
    peer_ends: &PeerEnds,
    is_named: impl FnOnce(),
) -> Result<(), SysError> {
    let repair = &let_go.repair;
    let (unread, queued) = (let_go.unread(), let_go.queued());
    let (sent, unsent) = queued.split_at((repair.sent_bytes as usize).min(queued.len()));
    let record = record(repair, unread.len(), queued.len(), let_go.was_opened);
    let mut tries = TRIES;
    let repaired = loop {
        tries -= 1;
        match Repaired::begin(socket.as_fd(), &record, &unread, sent) {
            Ok(repaired) => break repaired,
            Err(error) if tries == 0 => return Err(error),
            Err(_) => {}
        }
    };
    is_named();
    repaired.go_on(unsent)?;
    if repair.has_peer_closed {
        peer_ends.tell(repair)?;
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
