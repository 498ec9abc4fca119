//! What a service manager is told: that the daemon is ready, that its loop and its attach server
//! answer, that it ends.
//!
//! The protocol is sd_notify(3): datagrams of `KEY=VALUE` lines to the socket that `NOTIFY_SOCKET`
//! names. The socket is connected at the start, because confined threads may make none.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use admin::{Command, ReplyBody, Request};

use crate::ask::{Asks, Question};
use crate::confinement::{self, Role};
use crate::failure::Failure;
use crate::log;

/// Time until one that did not answer is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// The way to the service manager, if there is one.
pub(crate) struct Service {
    socket: Option<UnixDatagram>,
}

impl Service {
    /// Connects to whoever `NOTIFY_SOCKET` names.
    pub(crate) fn connect() -> Self {
        let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return Self { socket: None } };
        let address = match path.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name),
            None => SocketAddr::from_pathname(&path),
        };
        let connected = address.and_then(|address| {
            let socket = UnixDatagram::unbound()?;
            socket.connect_addr(&address)?;
            // A manager that does not read must not hold the daemon up.
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        let told = connected.inspect_err(|error| {
            let path = path.display();
            tracing::warn!(target: log::DAEMON, "the service manager at {path} is told nothing: {error}");
        });
        Self { socket: told.ok() }
    }

    /// The daemon serves from now on; if the manager wants to hear that the loop goes round
    /// (`WATCHDOG_USEC`), a thread tells it so, twice in each of its intervals.
    pub(crate) fn ready(&self, summary: &str, asks: &Asks) -> Result<(), Failure> {
        let Some(socket) = &self.socket else { return Ok(()) };
        tell(socket, &format!("READY=1\nSTATUS={summary}"));
        let Some(interval) = watchdog_interval(
            std::env::var("WATCHDOG_USEC").ok().as_deref(),
            std::env::var("WATCHDOG_PID").ok().as_deref(),
        ) else {
            return Ok(());
        };
        let cannot = |error| Failure::Said(format!("cannot start a thread: {error}"));
        let (socket, asks) = (socket.try_clone().map_err(cannot)?, asks.clone());
        let watch = move || {
            if confinement::is_entered(Role::Service) {
                watch(&socket, &asks, interval / 2);
            }
        };
        std::thread::Builder::new().name("service".to_owned()).spawn(watch).map_err(cannot)?;
        Ok(())
    }

    /// The daemon ends.
    pub(crate) fn stopping(&self) {
        if let Some(socket) = &self.socket {
            tell(socket, "STOPPING=1\nSTATUS=ports are closed, traffic returns to Linux");
        }
    }
}

/// Tells as long as the loop and the attach server answer; who is stuck is told of by silence.
fn watch(socket: &UnixDatagram, asks: &Asks, every: Duration) {
    loop {
        if is_turning(asks) && asks.is_attach_server_turning() {
            tell(socket, "WATCHDOG=1");
            std::thread::sleep(every);
        } else {
            // It may only have been late.
            std::thread::sleep(every.min(AGAIN));
        }
    }
}

/// Whether the loop answers; waits for that, as long as [`Asks::ask`] does.
pub(crate) fn is_turning(asks: &Asks) -> bool {
    let request = Request::new(Command::SteerShow);
    matches!(asks.ask(Question::Request(request)), ReplyBody::Steer(_))
}

fn tell(socket: &UnixDatagram, text: &str) {
    // Full or gone: the manager finds out by itself.
    let _ = socket.send(text.as_bytes());
}

/// How often it wants to hear from this process, at least.
fn watchdog_interval(microseconds: Option<&str>, pid: Option<&str>) -> Option<Duration> {
    let is_us = pid.is_none_or(|pid| pid == std::process::id().to_string());
    let interval = microseconds?.parse().ok().filter(|&us| us > 0)?;
    is_us.then(|| Duration::from_micros(interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_is_ours_only_with_an_interval_and_our_process_id() {
        let us = std::process::id().to_string();
        let second = Some(Duration::from_secs(1));
        assert_eq!(watchdog_interval(Some("1000000"), Some(&us)), second);
        assert_eq!(watchdog_interval(Some("1000000"), None), second);
        assert_eq!(watchdog_interval(Some("1000000"), Some("1")), None);
        for none in [None, Some("0"), Some("soon")] {
            assert_eq!(watchdog_interval(none, None), None);
        }
    }
}
