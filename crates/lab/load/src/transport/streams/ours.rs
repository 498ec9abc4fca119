//! TCP connections that a daemon of Calisto serves, through memory shared with it.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use base::Nanos;
use calisto_client::sockets::{
    Errno, Outcome, Poller, RegionId, Session, SessionOptions, SlotId, Socket, SocketOption,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::{Network, Stream};
use crate::Error;

/// Sockets that are asked for in one turn.
const NEWS_MAX: usize = 64;

/// A daemon of Calisto.
pub struct Calisto {
    session: Session,
    poller: Poller,
    numbers: BTreeMap<(RegionId, SlotId), usize>,
    /// For each number, the socket that had it last.
    keys: BTreeMap<usize, (RegionId, SlotId)>,
    news: Vec<(RegionId, SlotId)>,
}

/// The process's connection to the daemon: one for all threads.
///
/// # Errors
/// No daemon answers, or it refuses.
pub fn attach() -> Result<Session, Error> {
    Session::attach(&SessionOptions::new("load")).map_err(|error| {
        Error::Failed(format!("the daemon's sockets cannot be used (--transport calisto): {error}"))
    })
}

impl Calisto {
    /// For one thread.
    ///
    /// # Errors
    /// The daemon does not give another poller.
    pub fn new(session: Session) -> Result<Self, Error> {
        let poller = session.poller().map_err(|error| {
            Error::Failed(format!("no thread more can wait for sockets: {error}"))
        })?;
        let (numbers, keys, news) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Ok(Self { session, poller, numbers, keys, news })
    }
}

impl Network for Calisto {
    type Stream = Served;

    fn connect(&mut self, number: usize, target: SocketAddr) -> io::Result<Served> {
        if let Some(old) = self.keys.remove(&number) {
            self.numbers.remove(&old);
        }
        let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let fd = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let socket = match self.session.connect(std::os::fd::AsFd::as_fd(&fd), target) {
            Ok(Outcome::Ours(socket)) => socket,
            Ok(Outcome::Errno(errno)) => return Err(errno.into()),
            Ok(Outcome::Kernel(reason)) => {
                return Err(io::Error::other(format!(
                    "the daemon leaves this connection to the kernel: {reason}"
                )));
            }
            Err(error) => return Err(io::Error::other(error.to_string())),
        };
        // The descriptor stands for the socket: the daemon closes it when this process ends.
        socket.name(sockopt::socket_cookie(&fd)?);
        socket.set_option(SocketOption::NoDelay, 1);
        self.poller.add(&socket)?;
        self.numbers.insert(socket.key(), number);
        self.keys.insert(number, socket.key());
        Ok(Served { socket, _fd: fd })
    }

    #[inline]
    fn ready(&mut self, found: &mut Vec<usize>) {
        self.poller.take(&mut self.news, NEWS_MAX);
        found.extend(self.news.drain(..).filter_map(|key| self.numbers.get(&key).copied()));
    }

    fn wait(&mut self, timeout: Nanos) {
        if self.poller.arm() {
            sys::poll::wait_readable(self.poller.fd(), timeout);
            self.poller.disarm();
            self.poller.drain();
        }
    }

    fn describe(&self) -> String {
        "Calisto".to_owned()
    }
}

/// A connection that the daemon serves.
pub struct Served {
    socket: Socket,
    _fd: OwnedFd,
}

impl Stream for Served {
    #[inline]
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        Ok(self.socket.receive(to)?)
    }

    #[inline]
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        Ok(self.socket.send(from)?)
    }

    fn connected(&mut self) -> io::Result<()> {
        match self.socket.connected() {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN) => Err(io::ErrorKind::WouldBlock.into()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.socket.close();
    }
}
