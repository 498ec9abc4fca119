//! Whether servers of a balancer are well: the control thread asks each now and then, and waits for
//! none.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream};

use base::Nanos;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use crate::file::{BalancerPart, ChainFile, Check, FunctionPart};

/// Servers that are asked at once: each takes a descriptor.
const ASKED_MAX: usize = 128;
/// Servers that have changed are put in force at most so often: one that flaps costs no more.
const PUT_EVERY: Nanos = Nanos::from_secs(1);
/// A server that was well has to fail so often in a row not to be.
const FAILURES: u32 = 2;
/// Bytes of an answer up to behind its status: `HTTP/1.1 200`.
const STATUS: usize = 12;

/// All servers that are checked.
#[derive(Debug, Default)]
pub(crate) struct Health {
    servers: Vec<Server>,
    /// The place of whoever is asked first in the next turn: all are asked in turn, however many
    /// are silent.
    hand: usize,
    /// Places of services of which a server has changed since they were put in force.
    changed: BTreeSet<usize>,
    put_at: Nanos,
}

#[derive(Debug)]
struct Server {
    /// The places of its service and of itself there.
    at: (usize, usize),
    address: SocketAddrV4,
    every: Nanos,
    check: Check,
    is_well: bool,
    failures: u32,
    next: Nanos,
    asked: Option<Asked>,
}

#[derive(Debug)]
struct Asked {
    stream: TcpStream,
    until: Nanos,
    /// How much of the question has been sent: the whole request of HTTP.
    is_sent: bool,
    answer: Vec<u8>,
}

/// What has become of a question.
enum Outcome {
    Waiting,
    Well,
    Failed,
}

impl Health {
    /// The servers of the balancer of `file`; what is known of them from `before` holds on.
    pub(crate) fn of(file: &ChainFile, before: &Self) -> Self {
        let mut servers = Vec::new();
        for function in &file.functions {
            let FunctionPart::Balancer(BalancerPart { settings, checks }) = function else {
                continue;
            };
            for (place, (service, (seconds, check))) in
                settings.services.iter().zip(checks).enumerate()
            {
                for (number, server) in service.servers.iter().enumerate() {
                    if *check == Check::None {
                        continue;
                    }
                    let is_same =
                        |other: &Server| (other.address, &other.check) == (server.address, check);
                    let at = (place, number);
                    let mut all = before.servers.iter();
                    let in_place = before.servers.iter().find(|one| one.at == at && is_same(one));
                    let same = in_place.or_else(|| all.find(|one| is_same(one)));
                    servers.push(Server {
                        at,
                        address: server.address,
                        every: Nanos::from_secs(*seconds),
                        check: check.clone(),
                        is_well: same.is_none_or(|same| same.is_well),
                        failures: same.map_or(0, |same| same.failures),
                        next: Nanos::ZERO,
                        asked: None,
                    });
                }
            }
        }
        let changed = before.changed.clone();
        Self { servers, hand: 0, changed, put_at: before.put_at }
    }

    /// Whether a server may get new flows; one that nobody checks may.
    pub(crate) fn is_well(&self, service: usize, server: usize) -> bool {
        let mut all = self.servers.iter();
        all.find(|one| one.at == (service, server)).is_none_or(|one| one.is_well)
    }

    /// Asks those whose turn it is and hears who has answered. Says of each that has changed
    /// whether it is well.
    pub(crate) fn turn(&mut self, now: Nanos, mut changed: impl FnMut(SocketAddrV4, bool)) {
        let mut asked = 0;
        for server in &mut self.servers {
            let Some(one) = &mut server.asked else { continue };
            match one.look(&server.check, now) {
                Outcome::Waiting => asked += 1,
                outcome => server.take(&outcome, &mut self.changed, &mut changed),
            }
        }
        let count = self.servers.len();
        let first = self.hand;
        for place in (first..count).chain(0..first.min(count)) {
            if asked == ASKED_MAX {
                break;
            }
            let server = &mut self.servers[place];
            if server.asked.is_some() || now < server.next {
                continue;
            }
            server.next = now + server.every;
            self.hand = place + 1;
            match begin(server.address) {
                Ok(stream) => {
                    asked += 1;
                    let until = now + server.every;
                    let answer = Vec::with_capacity(STATUS);
                    server.asked = Some(Asked { stream, until, is_sent: false, answer });
                }
                Err(_) => server.take(&Outcome::Failed, &mut self.changed, &mut changed),
            }
        }
    }

    /// The services of which a server has changed, when they are to be put in force.
    pub(crate) fn take_changed(&mut self, now: Nanos) -> Option<BTreeSet<usize>> {
        if self.changed.is_empty() || now < self.put_at + PUT_EVERY {
            return None;
        }
        self.put_at = now;
        Some(std::mem::take(&mut self.changed))
    }
}

impl Server {
    /// What has come of a question.
    fn take(
        &mut self,
        outcome: &Outcome,
        services: &mut BTreeSet<usize>,
        changed: &mut impl FnMut(SocketAddrV4, bool),
    ) {
        let is_well = match outcome {
            Outcome::Waiting => return,
            Outcome::Well => {
                self.failures = 0;
                true
            }
            Outcome::Failed => {
                self.failures = self.failures.saturating_add(1);
                self.is_well && self.failures < FAILURES
            }
        };
        self.asked = None;
        if is_well != self.is_well {
            self.is_well = is_well;
            services.insert(self.at.0);
            changed(self.address, is_well);
        }
    }
}

/// Begins a connection without waiting for it.
fn begin(address: SocketAddrV4) -> Result<TcpStream, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error),
    }
}

impl Asked {
    fn look(&mut self, check: &Check, now: Nanos) -> Outcome {
        let late = if now >= self.until { Outcome::Failed } else { Outcome::Waiting };
        if !matches!(self.stream.take_error(), Ok(None)) {
            return Outcome::Failed;
        }
        let Ok(there) = self.stream.peer_addr() else { return late };
        let Check::Http(path) = check else { return Outcome::Well };
        if !self.is_sent {
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: {there}\r\nUser-Agent: calisto\r\nConnection: close\r\n\r\n"
            );
            // A fresh connection has room for it.
            match self.stream.write(request.as_bytes()) {
                Ok(bytes) if bytes == request.len() => self.is_sent = true,
                _ => return Outcome::Failed,
            }
        }
        let mut room = [0; STATUS];
        while self.answer.len() < STATUS {
            let left = STATUS - self.answer.len();
            match self.stream.read(&mut room[..left]) {
                Ok(0) => return Outcome::Failed,
                Ok(bytes) => self.answer.extend(&room[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return late,
                Err(_) => return Outcome::Failed,
            }
        }
        let is_fine = self.answer.starts_with(b"HTTP/1.") && matches!(self.answer[9], b'2' | b'3');
        if is_fine { Outcome::Well } else { Outcome::Failed }
    }
}

#[cfg(test)]
mod tests;
