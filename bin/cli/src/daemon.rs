//! Asks the daemon: one line there, one line back, over its UNIX socket.

mod questions;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use admin::{Command, LINE_BYTES_MAX, Reply, ReplyBody, Request};
use sys::pidfd::PidFd;

use crate::failure::Failure;

/// A daemon answers within a control tick; one that is silent for this long is stuck.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The daemon behind a socket.
#[derive(Clone, Debug)]
pub struct Daemon {
    socket: PathBuf,
    /// The application that questions are about; `None`: the daemon's own workers.
    app: Option<String>,
}

/// Why a stream of lines has broken off.
#[derive(Debug)]
pub enum StreamError {
    /// The daemon does not send it, or no longer.
    Daemon(Failure),
    /// It cannot be written to where it was to go.
    Output(io::Error),
}

impl From<Failure> for StreamError {
    fn from(failure: Failure) -> Self {
        Self::Daemon(failure)
    }
}

impl StreamError {
    /// As a sentence, where it is clear what was written to.
    pub fn into_failure(self) -> Failure {
        match self {
            Self::Daemon(failure) => failure,
            Self::Output(error) => Failure::new(format!("cannot write: {error}")),
        }
    }
}

impl Daemon {
    /// The daemon that listens at `socket`; nothing is asked yet.
    pub fn at(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), app: None }
    }

    /// The same, to be asked about one of its applications.
    pub fn about(self, app: Option<&str>) -> Self {
        Self { app: app.map(str::to_owned), ..self }
    }

    /// The owner table, as text.
    ///
    /// # Errors
    ///
    /// The daemon cannot be asked, or answers something else.
    pub fn owner_table(&self) -> Result<String, Failure> {
        match self.ask(Command::SteerExport)? {
            ReplyBody::Table { table } => Ok(table),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Asks, and returns what is not an error.
    pub fn ask(&self, command: Command) -> Result<ReplyBody, Failure> {
        self.open(command).map(|(answer, _)| answer)
    }

    /// The same for an answer behind which something else follows on the connection.
    pub fn open(&self, command: Command) -> Result<(ReplyBody, BufReader<UnixStream>), Failure> {
        let request = Request { app: self.app.clone(), ..Request::new(command) };
        // The daemon would refuse it as well, and could not say whose mistake it is.
        request.check().map_err(Failure::usage)?;
        let mut stream = UnixStream::connect(&self.socket).map_err(|e| self.unreachable(&e))?;
        let broken = |error: io::Error| self.broken(&error);
        stream.set_read_timeout(Some(TIMEOUT)).map_err(broken)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(broken)?;
        let line = admin::encode(&request).map_err(Failure::new)?;
        match stream.write_all(line.as_bytes()) {
            // A daemon that has no place for us says so without reading.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written.map_err(broken)?,
        }
        let mut answer = String::new();
        let mut reader = BufReader::new(stream);
        // Whoever sits at the socket is not trusted with our memory.
        (&mut reader).take(LINE_BYTES_MAX as u64).read_line(&mut answer).map_err(broken)?;
        if answer.is_empty() {
            let closed = "it closed the connection without an answer; see what it printed last";
            return Err(self.bad_answer(closed));
        }
        let reply: Reply = admin::decode(&answer).map_err(|error| self.bad_answer(error))?;
        if reply.v != admin::VERSION {
            return Err(self.bad_answer(format!(
                "it speaks version {} of the admin protocol, this program version {}: use the \
                 calisto that came with it",
                reply.v,
                admin::VERSION
            )));
        }
        match reply.body {
            ReplyBody::Error { message } => Err(Failure::new(message)),
            body => Ok((body, reader)),
        }
    }

    /// Asks for lines that go on, and copies them to `to` until there are no more or somebody
    /// presses Ctrl-C, which the daemon is told, so that it can say how they end; `seen` is told
    /// how many bytes there were. Whole lines only.
    ///
    /// # Errors
    ///
    /// The daemon cannot be asked, refuses, or goes; or `to` takes no more.
    pub fn stream(
        &self,
        command: Command,
        to: &mut impl Write,
        mut seen: impl FnMut(u64),
    ) -> Result<u64, StreamError> {
        let mut stream = UnixStream::connect(&self.socket).map_err(|e| self.unreachable(&e))?;
        let broken = |error: io::Error| self.broken(&error);
        stream.set_read_timeout(Some(TIMEOUT)).map_err(broken)?;
        let request = Request { app: self.app.clone(), ..Request::new(command) };
        let line = admin::encode(&request).map_err(Failure::new)?;
        stream.write_all(line.as_bytes()).map_err(broken)?;
        let mut lines = BufReader::new(&stream);
        let (mut bytes, mut first) = (0, true);
        let mut line = Vec::new();
        let mut is_told = false;
        loop {
            if sys::signal::stop_requested() && !is_told {
                is_told = true;
                // Anything further that a client says ends a stream. A daemon that has gone shows
                // when it is read from.
                let _ = (&stream).write_all(b"\n");
            }
            line.clear();
            let read = (&mut lines).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line);
            match read {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.broken(&error).into()),
            }
            if std::mem::take(&mut first)
                && let Ok(text) = str::from_utf8(&line)
                && let Ok(Reply { body: ReplyBody::Error { message }, .. }) = admin::decode(text)
            {
                return Err(Failure::new(message).into());
            }
            to.write_all(&line).map_err(StreamError::Output)?;
            bytes += line.len() as u64;
            seen(bytes);
        }
        Ok(bytes)
    }

    /// Its process, of which none that gets the same number later can be mistaken for it.
    ///
    /// # Errors
    ///
    /// The daemon cannot be asked, or the kernel does not tell who it is.
    pub fn process(&self) -> Result<PidFd, Failure> {
        let (_, connection) = self.open(Command::Status)?;
        PidFd::of_peer(connection.get_ref().as_fd()).map_err(Failure::new)
    }

    /// Asks for something that has no answer but that it is done.
    pub fn tell(&self, command: Command) -> Result<(), Failure> {
        match self.ask(command)? {
            ReplyBody::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Its answer is of another kind than the question.
    pub fn unexpected(&self, body: &ReplyBody) -> Failure {
        let kind = match body {
            ReplyBody::Done => "done",
            ReplyBody::Error { .. } => "error",
            ReplyBody::Status(_) => "status",
            ReplyBody::Stats { .. } => "stats",
            ReplyBody::Flows { .. } => "flows",
            ReplyBody::Steer(_) => "steer",
            ReplyBody::Sample(_) => "sample",
            ReplyBody::Apps { .. } => "apps",
            ReplyBody::Explain { .. } => "explain",
            ReplyBody::Cores(_) => "cores",
            ReplyBody::Table { .. } => "table",
            ReplyBody::Sockets { .. } => "sockets",
            ReplyBody::Fallbacks { .. } => "fallbacks",
            ReplyBody::Reloaded { .. } => "reloaded",
            ReplyBody::Log { .. } => "log",
            ReplyBody::Traced { .. } => "traced",
            ReplyBody::Capturing { .. } => "capturing",
        };
        self.bad_answer(format!("it answered another question (with {kind:?})"))
    }

    fn bad_answer(&self, why: impl std::fmt::Display) -> Failure {
        let socket = self.socket.display();
        Failure::new(format!("the answer from {socket} is of no use: {why}"))
    }

    fn unreachable(&self, error: &io::Error) -> Failure {
        let socket = self.socket.display();
        Failure::new(match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!(
                "no daemon listens at {socket}: start one with `calisto up --port xdp:INTERFACE \
                 --listen udp:ADDRESS:PORT`, or name the socket of a running one with --admin PATH"
            ),
            io::ErrorKind::PermissionDenied => format!(
                "{socket} may not be used by you: run this as root or as the user who started \
                 the daemon"
            ),
            io::ErrorKind::InvalidInput => format!(
                "{socket} cannot be the name of a socket ({error}): give --admin a shorter path"
            ),
            _ => format!("cannot connect to the daemon at {socket}: {error}"),
        })
    }

    fn broken(&self, error: &io::Error) -> Failure {
        let socket = self.socket.display();
        Failure::new(match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!(
                "the daemon at {socket} has not answered for {} s: it is stopped or stuck; look \
                 at it with `ps`, end it with SIGTERM",
                TIMEOUT.as_secs()
            ),
            _ => format!("the connection to the daemon at {socket} broke: {error}; ask again"),
        })
    }
}

#[cfg(test)]
mod tests;
