//! What the processes beside the daemon have in common.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;

use rustix::process::Signal;
use sys::SysError;
use sys::signal_fd::SignalFd;

/// Who ends all of the daemon's processes means the daemon: these end when they have done their
/// work.
pub(super) fn hold_signals_back() -> Result<SignalFd, SysError> {
    SignalFd::new(&[Signal::HUP, Signal::INT, Signal::TERM, Signal::USR1, Signal::USR2])
}

/// Says something on standard error. Whoever should have read it may have died with the daemon:
/// that is no reason to stop.
pub(super) fn say(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "calistod: {text}");
}

/// This program: the very one, although its file may have been replaced by another version's, which
/// has other records.
pub(super) fn own_program() -> PathBuf {
    let named = std::env::current_exe().ok().filter(|path| path.exists());
    named.unwrap_or_else(|| "/proc/self/exe".into())
}
