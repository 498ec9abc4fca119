//! The process's attachment to the daemon: made at the first socket that could be served, again
//! after a fork, and again when the daemon has been started anew.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use attach::{AttachError, DetachReason};
use calisto_client::default_socket;
use calisto_client::sockets::{Poller, Profile, Session, SessionOptions, Socket, is_confined};

use crate::entry::descriptors;
use crate::entry::own_code::{self, Inner};
use crate::process::{inherited, say, ticket};
use crate::system::{faults, fork};

/// The attachment. Never freed: calls of other threads may be using an old one.
static CURRENT: AtomicPtr<Session> = AtomicPtr::new(std::ptr::null_mut());

/// What the process does about its attachment: [`IDLE`], [`BUSY`] or [`REFUSED`].
static STATE: AtomicU32 = AtomicU32::new(IDLE);

/// See [`after_attaching_anew`].
static THEN: OnceLock<fn()> = OnceLock::new();

/// Attached, or to be tried at the next socket.
const IDLE: u32 = 0;
/// A thread attaches just now.
const BUSY: u32 = 1;
/// The daemon will not have this process, or does not answer: not tried again.
const REFUSED: u32 = 2;

/// What the environment said when the program began: many a server clears it then, and looks for
/// the next daemon long after.
static SETTINGS: OnceLock<Settings> = OnceLock::new();

#[derive(Clone)]
struct Settings {
    /// The daemon's socket.
    socket: PathBuf,
    profile: Profile,
}

/// Keeps what the environment says about the attachment.
pub(crate) fn remember_settings() {
    let _ = settings();
}

fn settings() -> &'static Settings {
    SETTINGS.get_or_init(|| Settings { socket: default_socket(), profile: profile() })
}

/// The variable that says how the program waits.
const PROFILE_VARIABLE: &str = "CALISTO_PROFILE";

/// The attachment, if there is a living one.
pub(crate) fn current() -> Option<&'static Session> {
    // SAFETY: null, or a session that is never freed.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// The attachment; made now if there is none. Nothing if there is no daemon that has us, for the
/// handler of a signal that has interrupted our own code, which may be attaching, and for a child
/// of vfork, whose descriptors are not its parent's.
pub(crate) fn get() -> Option<&'static Session> {
    if own_code::is_running() || is_confined() || fork::is_borrowed() {
        return None;
    }
    if let Some(session) = current()
        && session.is_alive()
    {
        return Some(session);
    }
    loop {
        match STATE.compare_exchange(IDLE, BUSY, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => break,
            Err(BUSY) => std::thread::yield_now(),
            Err(_) => return None,
        }
    }
    // Another thread may have been faster.
    if let Some(session) = current()
        && session.is_alive()
    {
        STATE.store(IDLE, Ordering::Release);
        return Some(session);
    }
    let before = current();
    before.and_then(Session::detach_reason).into_iter().for_each(say::put_out);
    let attached = own_code::run(|| Session::attach(&options(before)));
    let (session, next) = match attached {
        Ok(session) => {
            ticket::keep(&session.ticket());
            session.ticket_refusal().into_iter().for_each(say::not_gone_on);
            say::daemon_again();
            (Some(publish(session)), IDLE)
        }
        Err(error) => {
            say::no_daemon(&error);
            let may_come = error.may_pass() && error != AttachError::TimedOut;
            (None, if may_come { IDLE } else { REFUSED })
        }
    };
    STATE.store(next, Ordering::Release);
    if session.is_some()
        && before.is_some()
        && let Some(then) = THEN.get()
    {
        then();
    }
    session
}

/// Has something done whenever the process has attached anew.
pub(crate) fn after_attaching_anew(then: fn()) {
    let _ = THEN.set(then);
}

/// Whether a session is over because its daemon is: another daemon may serve what it had.
pub(crate) fn daemon_has_ended(session: &Session) -> bool {
    matches!(session.detach_reason(), Some(DetachReason::DaemonGone | DetachReason::Stopping))
}

fn publish(session: Session) -> &'static Session {
    faults::watch();
    let session: &'static Session = Box::leak(Box::new(session));
    note_descriptors(session);
    CURRENT.store(std::ptr::from_ref(session).cast_mut(), Ordering::Release);
    session
}

/// Keeps the program from closing what the session uses.
pub(crate) fn note_descriptors(session: &Session) {
    session.descriptors().into_iter().for_each(descriptors::set_internal);
}

/// A socket has come to this process, maybe with a region that was mapped for it: what keeps that
/// is the session's own too.
pub(crate) fn note_region_of(socket: &Socket) {
    if socket.is_local() || socket.is_foreign() {
        note_descriptors(socket.session());
    }
}

fn options(before: Option<&Session>) -> SessionOptions {
    let mut options = SessionOptions::new(program_name());
    let Settings { socket, profile } = settings().clone();
    (options.socket, options.profile) = (Some(socket), profile);
    match before {
        // What it came with belongs to a daemon that is gone.
        Some(before) => options.before = daemon_has_ended(before).then(|| before.clone()),
        None if inherited::has_inherited() => options.ticket = ticket::value(),
        None => {}
    }
    options
}

fn profile() -> Profile {
    let named = std::env::var(PROFILE_VARIABLE).unwrap_or_default();
    named.parse().unwrap_or_default()
}

/// The program's name, in the letters that a name may have.
fn program_name() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || "-_.".contains(*letter);
    let name: String = name.chars().filter(is_plain).take(32).collect();
    if name.is_empty() { "program".to_owned() } else { name }
}

/// In the child of a fork: the region is the same, the connection and all that sleeps are not. The
/// ticket for a later program is the parent's, and for the parent's user: see [`ticket`].
pub(crate) fn in_child() {
    STATE.store(IDLE, Ordering::Relaxed);
    let Some(parents) = current() else { return };
    if parents.has_ended() {
        // There is nothing to join: the child looks for another daemon by itself.
        return;
    }
    CURRENT.store(std::ptr::null_mut(), Ordering::Release);
    if own_code::is_running() {
        // A signal's handler that has interrupted our own code, or the memory that it takes.
        return;
    }
    // A child that cannot join is served by the kernel from now on; what it has goes on.
    if let Ok(session) = own_code::run(|| parents.rejoin()) {
        publish(session);
    }
}

/// What tells the attachment of this process from its parent's, and from those before.
pub(crate) fn identity() -> (u32, usize) {
    let of = current().map_or(0, |session| std::ptr::from_ref(session).addr());
    (fork::process(), of)
}

/// Another poller of this process; none if there is no attachment, or it has too many already, or a
/// signal has interrupted our own code.
pub(crate) fn new_poller() -> Option<Inner<Poller>> {
    if own_code::is_running() || is_confined() {
        return None;
    }
    let session = current()?;
    let poller = own_code::run(|| session.poller()).ok()?;
    note_descriptors(session);
    Some(Inner::new(poller))
}
