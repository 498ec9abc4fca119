//! What the user is told: each thing once, on stderr, unless CALISTO_QUIET is set.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use attach::{AttachError, DetachReason};
use calisto_client::sockets::FallbackReason;
use libc::c_int;

use crate::system::real;

/// The reasons that have been said, a bit each.
static SAID: AtomicU64 = AtomicU64::new(0);

/// Whether it was said that there is no daemon.
static SAID_NO_DAEMON: AtomicBool = AtomicBool::new(false);

/// Whether it was said that the program was put out.
static SAID_PUT_OUT: AtomicBool = AtomicBool::new(false);

/// Whether nothing is to be said.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Sockets of this process are the kernel's from now on, because there is no attachment.
pub(crate) fn no_daemon(error: &AttachError) {
    if !SAID_NO_DAEMON.swap(true, Ordering::Relaxed) {
        line(&format!("this program's sockets are the kernel's: {error}"));
    }
}

/// There is a daemon again, where it was said that there is none.
pub(crate) fn daemon_again() {
    if SAID_NO_DAEMON.swap(false, Ordering::Relaxed) {
        line("the daemon is there: new connections of this program are accelerated");
    }
}

/// The daemon has put this program out while it goes on itself: its connections are reset.
pub(crate) fn put_out(reason: DetachReason) {
    let is_news = match reason {
        DetachReason::Violation
        | DetachReason::Protocol
        | DetachReason::Stalled
        | DetachReason::StrayThread
        | DetachReason::Damaged
        | DetachReason::Operator => true,
        // What is said then is that there is no daemon, if there is none.
        DetachReason::Stopping
        | DetachReason::Left
        | DetachReason::DaemonGone
        | DetachReason::Other => false,
    };
    if is_news && !SAID_PUT_OUT.swap(true, Ordering::Relaxed) {
        line(&format!(
            "the daemon has put this program out, and its connections are reset: {reason}. Its next socket attaches \
             anew; `calisto explain {}` tells more",
            std::process::id()
        ));
    }
}

/// The daemon does not let this program go on with what it was started with.
pub(crate) fn not_gone_on(why: &str) {
    line(&format!("sockets that this program was started with are the kernel's: {why}"));
}

/// A socket is the kernel's.
pub(crate) fn fallback(reason: FallbackReason) {
    let bit = 1 << (reason as u64 % 64);
    if SAID.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        line(&format!("a socket is the kernel's: {}", reason.sentence()));
    }
}

/// Keeps what the environment says, which programs clear.
pub(crate) fn remember_settings() {
    IS_QUIET.store(std::env::var_os("CALISTO_QUIET").is_some(), Ordering::Relaxed);
}

fn line(text: &str) {
    if IS_QUIET.load(Ordering::Relaxed) {
        return;
    }
    let line = format!("calisto: {text}\n");
    const STDERR: c_int = 2;
    // What cannot be said is not worth an error.
    // SAFETY: the text is ours.
    let _ = unsafe { real::write(STDERR, line.as_ptr().cast(), line.len()) };
}
