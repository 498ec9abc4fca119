//! Several load generators that begin together: one leads, the others follow.
//!
//! Clocks need not agree. The leader measures how far each follower is away (the shortest of some
//! round trips) and tells it how long after hearing so to begin; what is left of error is the
//! difference of the two ways. The port is that of Shenango's `synthetic`; the lines are our own.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use base::Nanos;
use sys::clock::now;

use crate::Error;

/// Where a leader listens unless it is told otherwise.
pub const BARRIER_PORT: u16 = 23_232;

/// Load generators that can begin together.
pub(crate) const CLIENTS_MAX: u32 = 1000;

/// What a follower says first; the number is that of the protocol.
const HELLO: &str = "calisto-barrier 1";

/// Between the leader's last round trip and the first request: every follower has been told by
/// then.
const NOTICE: Nanos = Nanos::from_millis(100);

/// A follower begins at most so long after it was told: who says more is no leader.
const DELAY_MAX: Nanos = Nanos::from_secs(60);

/// A stranger at the leader's port is listened to for this long.
const HELLO_TIMEOUT: Nanos = Nanos::from_secs(2);

/// Longest line of the protocol.
const LINE_MAX: usize = 256;

const ROUND_TRIPS: u32 = 5;
/// How often it is asked whether Ctrl-C was pressed.
const LOOK: Duration = Duration::from_millis(20);

/// Whom to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// Wait for the others, then say when.
    Lead {
        /// Where they come to.
        listen: SocketAddr,
        /// How many there are with this one.
        clients: u32,
        /// How long to wait for them.
        timeout: Nanos,
    },
    /// Wait to be told.
    Follow {
        /// Who says when.
        leader: SocketAddr,
        /// How long to wait for it.
        timeout: Nanos,
    },
}

/// When to begin, and as which of all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Go {
    pub(crate) at: Nanos,
    /// Zero for the leader, and for who is alone.
    pub(crate) client: u32,
}

impl Barrier {
    /// Waits until all are there.
    ///
    /// # Errors
    /// They were not in time, one has left, or somebody wants us to stop.
    pub(crate) fn meet(&self) -> Result<Go, Error> {
        match *self {
            Self::Lead { listen, clients, timeout } => {
                let listener = TcpListener::bind(listen)
                    .map_err(|error| Error::io(format!("wait for clients at {listen}"), &error))?;
                lead(&listener, clients, now() + timeout)
            }
            Self::Follow { leader, timeout } => follow(leader, now() + timeout),
        }
    }
}

fn lead(listener: &TcpListener, clients: u32, deadline: Nanos) -> Result<Go, Error> {
    let failed = |error: std::io::Error| Error::io("wait for clients", &error);
    listener.set_nonblocking(true).map_err(failed)?;
    let wanted = clients.saturating_sub(1) as usize;
    let mut followers: Vec<Peer> = Vec::new();
    while followers.len() < wanted {
        match listener.accept() {
            Ok((stream, address)) => {
                let mut peer = Peer::new(stream, address).map_err(failed)?;
                // Whoever else comes to this port is let go.
                if peer.line(now() + HELLO_TIMEOUT).is_ok_and(|line| line == HELLO) {
                    followers.push(peer);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOOK),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
        let missing = || format!("{} of {wanted} clients came", followers.len());
        if let Err(why) = still_waiting(deadline) {
            let sentence = format!("{}: {why}", missing());
            return Err(call_off(&mut followers, sentence));
        }
    }
    let mut round_trips = Vec::new();
    for index in 0..followers.len() {
        match followers[index].round_trip() {
            Ok(round_trip) => round_trips.push(round_trip),
            Err(why) => {
                let left = followers.swap_remove(index).address;
                let sentence = format!("the client at {left} left before the start: {why}");
                return Err(call_off(&mut followers, sentence));
            }
        }
    }
    let farthest = round_trips.iter().copied().max().unwrap_or(Nanos::ZERO);
    let at = now() + NOTICE + farthest;
    for (client, (peer, round_trip)) in (1_u32..).zip(followers.iter_mut().zip(&round_trips)) {
        let delay = at.since(now()).since(Nanos(round_trip.0 / 2));
        // One that is gone by now is missed by whoever reads its report.
        let _ = peer.say(&format!("go {client} {clients} {}", delay.0));
    }
    Ok(Go { at, client: 0 })
}

/// Tells all that there is no start; the error that says why.
fn call_off(followers: &mut [Peer], sentence: String) -> Error {
    for peer in followers {
        let _ = peer.say(&format!("stop {sentence}"));
    }
    Error::Failed(format!("there was no common start: {sentence}"))
}

fn follow(leader: SocketAddr, deadline: Nanos) -> Result<Go, Error> {
    let failed = |why: String| {
        Error::Failed(format!("there was no common start: the leader at {leader} {why}"))
    };
    let stream = loop {
        match TcpStream::connect_timeout(&leader, Duration::from_secs(1)) {
            Ok(stream) => break stream,
            Err(error) => {
                still_waiting(deadline)
                    .map_err(|why| failed(format!("does not listen ({error}); {why}")))?;
                std::thread::sleep(LOOK);
            }
        }
    };
    let mut peer = Peer::new(stream, leader).map_err(|error| failed(error.to_string()))?;
    peer.say(HELLO).map_err(failed)?;
    loop {
        let line = peer.line(deadline).map_err(failed)?;
        let heard = now();
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["ping", number] => peer.say(&format!("pong {number}")).map_err(failed)?,
            ["go", client, clients, delay] => {
                let number = |word: &str| word.parse::<u64>().ok();
                let (client, clients, delay) = (number(client), number(clients), number(delay));
                return match (client, clients, delay) {
                    (Some(client), Some(clients), Some(delay))
                        if client < clients
                            && clients <= u64::from(CLIENTS_MAX)
                            && delay <= DELAY_MAX.0 =>
                    {
                        Ok(Go { at: heard + Nanos(delay), client: client as u32 })
                    }
                    _ => Err(failed(format!("said {line:?}, which is no start"))),
                };
            }
            ["stop", ..] => {
                return Err(failed(format!("called it off: {}", line.get(5..).unwrap_or(""))));
            }
            _ => return Err(failed(format!("said {line:?}: it is no leader of this version"))),
        }
    }
}

/// Why not to wait any longer.
fn still_waiting(deadline: Nanos) -> Result<(), String> {
    if sys::signal::stop_requested() {
        Err("stopped while waiting".to_owned())
    } else if now() >= deadline {
        Err("the time to wait is over (--barrier-wait)".to_owned())
    } else {
        Ok(())
    }
}

/// The other end of a connection that speaks in lines.
struct Peer {
    stream: TcpStream,
    address: SocketAddr,
    heard: Vec<u8>,
}

impl Peer {
    fn new(stream: TcpStream, address: SocketAddr) -> std::io::Result<Self> {
        // An accepted socket does not inherit that its listener does not wait.
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(Duration::from_secs(1)))?;
        Ok(Self { stream, address, heard: Vec::new() })
    }

    fn say(&mut self, line: &str) -> Result<(), String> {
        let bytes: Vec<u8> = line.bytes().take(LINE_MAX - 1).chain([b'\n']).collect();
        self.stream.write_all(&bytes).map_err(|error| format!("cannot be told anything: {error}"))
    }

    fn line(&mut self, deadline: Nanos) -> Result<String, String> {
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let rest = self.heard.split_off(end + 1);
                let line = std::mem::replace(&mut self.heard, rest);
                let line = String::from_utf8_lossy(&line[..end]).into_owned();
                return Ok(line);
            }
            if self.heard.len() >= LINE_MAX {
                return Err("talks without end".to_owned());
            }
            let mut bytes = [0; LINE_MAX];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err("has left".to_owned()),
                Ok(count) => self.heard.extend_from_slice(&bytes[..count]),
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error.to_string()),
            }
            still_waiting(deadline)?;
        }
    }

    /// The shortest of some round trips.
    fn round_trip(&mut self) -> Result<Nanos, String> {
        let mut shortest = Nanos::FAR_FUTURE;
        for number in 0..ROUND_TRIPS {
            let began = now();
            self.say(&format!("ping {number}"))?;
            let line = self.line(began + HELLO_TIMEOUT)?;
            if line != format!("pong {number}") {
                return Err(format!("it said {line:?}"));
            }
            shortest = shortest.min(now().since(began));
        }
        Ok(shortest)
    }
}

#[cfg(test)]
mod tests;
