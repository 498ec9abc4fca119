//! After the daemon has ended, and when there is another one.
//!
//! Listeners and UDP sockets live on by their kernel halves when the daemon ends, and are offered
//! to the next one as soon as this process has attached to that: at its next new socket, or when a
//! thread that waits looks for a daemon, once in [`LOOK_EVERY`] and only while there is none. So it
//! takes no thread, and costs a process that has lost nothing two loads for each call that waits.
//! A connection that the daemon gives to the kernel, when it ends or while it lives, leaves by the
//! same way: its numbers are the kernel's from the next call on, or wake-up.
//! Where an operator has detached the program, or the daemon has put it out, nobody looks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::Nanos;
use calisto_client::sockets::Session;
use libc::c_int;

use crate::entry::descriptors::{self, Found};
use crate::entry::file::{File, Kind};
use crate::entry::{Held, own_code};
use crate::process::session;
use crate::system::fork;

/// How long after a look for the daemon the next one is. A call that waits returns to look, so it
/// wakes up as often while there is no daemon.
const LOOK_EVERY: Nanos = Nanos::from_secs(1);

/// When the next look is due, in nanoseconds.
static NEXT_LOOK: AtomicU64 = AtomicU64::new(0);

/// Whether something was lost, as far as the last look has seen.
static HAS_LOST: AtomicBool = AtomicBool::new(false);

/// What is done with sockets whose daemon has ended: the code of the calls by which they became
/// ours knows.
struct Ways {
    /// Offers a socket anew.
    renew: fn(c_int, &File),
    /// Takes a connection to the kernel.
    leave: fn(c_int, &Held),
    /// Takes what the daemon has sent, and closes what no descriptor has.
    sweep: fn(&Session),
}

static WAYS: OnceLock<Ways> = OnceLock::new();

/// Says how sockets are offered anew, and how they leave, before there is one that could.
pub(crate) fn renew_by(renew: fn(c_int, &File), leave: fn(c_int, &Held), sweep: fn(&Session)) {
    if WAYS.get().is_none() {
        let _ = WAYS.set(Ways { renew, leave, sweep });
        session::after_attaching_anew(offer_lost);
        fork::before_each(leave_all);
    }
}

/// How long a thread that is about to wait may, without looking for the daemon; `None`: as long as
/// it likes. Looks now if that is due, and offers what was lost if the daemon is there.
#[inline]
pub(crate) fn look() -> Option<Duration> {
    let session = session::current()?;
    if session.has_ended() { look_for_another(session) } else { None }
}

#[cold]
fn look_for_another(old: &Session) -> Option<Duration> {
    if !session::daemon_has_ended(old) || own_code::is_running() || fork::is_borrowed() {
        return None;
    }
    let now = sys::clock::now();
    let due = NEXT_LOOK.load(Ordering::Relaxed);
    let next = (now + LOOK_EVERY).0;
    if now.0 >= due
        && NEXT_LOOK.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    {
        // Connections that were closed while they were given to the kernel would stay open.
        WAYS.get().iter().for_each(|ways| (ways.sweep)(old));
        let has_lost = lost().next().is_some();
        HAS_LOST.store(has_lost, Ordering::Relaxed);
        if has_lost && session::get().is_some() {
            return None;
        }
    }
    HAS_LOST.load(Ordering::Relaxed).then(|| LOOK_EVERY.into())
}

/// The connection of a number was given to the kernel: from now on the number is the kernel's.
/// False: not now, in the middle of our own code or of a vfork.
#[cold]
pub(crate) fn leave(fd: c_int, held: &Held) -> bool {
    if own_code::is_running() || fork::is_borrowed() {
        return false;
    }
    let Some(Ways { leave, .. }) = WAYS.get() else { return false };
    leave(fd, held);
    true
}

/// All connections that were given to the kernel leave now: another process is about to be made,
/// or another program begins, and would have the files that they had.
pub(crate) fn leave_all() {
    if own_code::is_running() || fork::is_borrowed() {
        return;
    }
    let Some(Ways { leave, .. }) = WAYS.get() else { return };
    for fd in descriptors::ours() {
        if let Found::Ours(held) = descriptors::find_quietly(fd)
            && held.file().is_some_and(File::is_to_leave)
        {
            leave(fd, &held);
        }
    }
}

/// The process has attached anew: what the daemon before has served is offered.
fn offer_lost() {
    let Some(Ways { renew, .. }) = WAYS.get() else { return };
    let all: Vec<c_int> = lost().map(|(fd, _)| fd).collect();
    for fd in all {
        // One of several numbers of a socket may have taken the others along.
        if let Some(held) = lost_at(fd)
            && let Some(file) = held.file()
        {
            renew(fd, file);
        }
    }
}

fn lost() -> impl Iterator<Item = (c_int, Held)> {
    descriptors::ours().filter_map(|fd| Some((fd, lost_at(fd)?)))
}

fn lost_at(fd: c_int) -> Option<Held> {
    let Found::Ours(held) = descriptors::find_quietly(fd) else { return None };
    held.file().is_some_and(can_be_offered).then_some(held)
}

/// A connected UDP socket is its peer's, whom only the old one knows.
fn can_be_offered(file: &File) -> bool {
    let is_of_kind = match file.kind {
        Kind::Stream => false,
        Kind::Listener => true,
        Kind::Datagram => file.socket.peer_address().is_none(),
    };
    is_of_kind && file.socket.is_orphaned()
}
