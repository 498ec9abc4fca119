//! Signals that must not end the daemon, though they would by default.
//!
//! SIGHUP comes when a terminal is closed, or when the configuration is to be read again; SIGUSR1
//! and SIGUSR2 when somebody takes the daemon for another program. All connections would be reset;
//! a line in the log is what they deserve.

use std::os::fd::AsFd;

use base::Nanos;
use rustix::process::Signal;
use sys::signal_fd::SignalFd;

use crate::changes::Reloads;
use crate::confinement::{self, Role};
use crate::failure::Failure;
use crate::log;

const SURVIVED: [Signal; 3] = [Signal::HUP, Signal::USR1, Signal::USR2];

/// From now on these signals are held back from the calling thread and those that it starts, for as
/// long as this is there, and one thread says that they have come.
pub(crate) struct Survived {
    _held_back: SignalFd,
}

impl Survived {
    /// To be called before there is a second thread: a signal goes to any that does not hold it
    /// back.
    pub(crate) fn start(reloads: Reloads) -> Result<Self, Failure> {
        let held_back = SignalFd::new(&SURVIVED)?;
        // A descriptor belongs to the thread that made it: the reader has one of its own.
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || match SignalFd::new(&SURVIVED) {
                Ok(signals) if confinement::is_entered(Role::Signals) => {
                    read(&signals, &reloads);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(target: log::DAEMON, "signals are ignored and not told: {error}")
                }
            })
            .map_err(|error| Failure::Said(format!("cannot start a thread: {error}")))?;
        Ok(Self { _held_back: held_back })
    }
}

fn read(signals: &SignalFd, reloads: &Reloads) {
    loop {
        sys::poll::wait_readable(signals.as_fd(), Nanos::from_secs(3600));
        while let Some(received) = signals.take() {
            match received.signal {
                Signal::HUP => reloads.hint(),
                other => tracing::warn!(target: log::DAEMON, "{}", sentence(other)),
            }
        }
    }
}

fn sentence(signal: Signal) -> &'static str {
    match signal {
        Signal::USR1 => "SIGUSR1 means nothing here and is ignored",
        _ => "SIGUSR2 means nothing here and is ignored",
    }
}
