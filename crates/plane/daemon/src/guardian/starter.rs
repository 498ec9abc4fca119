//! The starter: a process that starts guardians. The daemon cannot, because none of its threads may
//! execute a program once it serves anybody.
//!
//! It hears the daemon only, which says no more than that it wants one, or none. It ends the one
//! before first: a guardian that was stopped would not know what has come since, if it went on some
//! day. It ends with the daemon; the guardian does not.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::message::{Kind, Message, receive, send};
use super::process::{hold_signals_back, own_program, say};

/// The argument with which this program is started again as the starter.
pub(crate) const ARGUMENT: &str = "--start-guardians";

/// The argument with which it starts this program as the guardian.
pub(crate) const GUARD: &str = "--guard";

/// To start a process takes no longer; who waits is the attach server.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// The starter, as the daemon has it.
#[derive(Debug)]
pub(super) struct Starter(OwnedFd);

impl Starter {
    /// Starts it.
    ///
    /// # Errors
    /// This program cannot be started.
    pub(super) fn start() -> io::Result<Self> {
        let (channel, _) = started(ARGUMENT)?;
        set_socket_timeout(&channel, Timeout::Send, Some(ANSWERS_WITHIN))?;
        set_socket_timeout(&channel, Timeout::Recv, Some(ANSWERS_WITHIN))?;
        Ok(Self(channel))
    }

    /// Has it start a guardian in the place of the one before: the way to that.
    ///
    /// # Errors
    /// It cannot, or is no more.
    pub(super) fn start_guardian(&self) -> io::Result<OwnedFd> {
        send(self.0.as_fd(), &Message::of(Kind::Start), &[])?;
        let (_, channel) = receive(self.0.as_fd())?.ok_or(ErrorKind::BrokenPipe)?;
        channel.into_iter().next().ok_or(ErrorKind::Other.into())
    }

    /// Has it end the guardian. One that is gone has none.
    pub(super) fn end_guardian(&self) {
        let _ = send(self.0.as_fd(), &Message::of(Kind::Stop), &[]);
    }
}

/// What the starter does, until the daemon ends.
pub(crate) fn serve() -> ExitCode {
    // Who ends all of the daemon's processes means the daemon.
    let _held_back = hold_signals_back();
    match start_as_told() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("the guardian's starter: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn start_as_told() -> io::Result<()> {
    let daemon = io::stdin().as_fd().try_clone_to_owned()?;
    let mut guardian: Option<Child> = None;
    while let Some((message, _)) = receive(daemon.as_fd())? {
        if let Some(mut before) = guardian.take() {
            // It fails for one that has ended.
            let _ = before.kill();
            let _ = before.wait();
        }
        if message.kind == Kind::Start {
            match started(GUARD) {
                Ok((channel, child)) => {
                    guardian = Some(child);
                    send(daemon.as_fd(), &message, &[channel.as_fd()])?;
                }
                Err(error) => {
                    say(format_args!("cannot start the guardian: {error}"));
                    send(daemon.as_fd(), &message, &[])?;
                }
            }
        }
    }
    Ok(())
}

/// Starts this program with that argument: the way to it, which is its standard input.
fn started(argument: &str) -> io::Result<(OwnedFd, Child)> {
    let (channel, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let child = Command::new(own_program())
        .arg(argument)
        .stdin(theirs)
        .stdout(Stdio::null())
        // A key that ends the daemon does not end it first.
        .process_group(0)
        .spawn()?;
    Ok((channel, child))
}
