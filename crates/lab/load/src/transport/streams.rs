//! Requests on TCP connections: each flow is one, which stays open.
//!
//! Requests of a flow follow one another on its connection without waiting, and are answered in
//! that order. A connection that ends is made anew, and what it owed is asked again on the new one,
//! a few times: servers may close theirs at any time (nginx does so after a thousand requests).
//! Latency counts from the intended time through all of that. Nothing that a server sends or leaves
//! out ends the run or grows without bound; each trouble has its counter.

use std::collections::VecDeque;
use std::net::SocketAddr;

use base::Nanos;
use sys::clock::now;

use super::{Answer, Reply, Transport, TransportCounters};
use crate::protocol::Protocol;
use crate::{Error, Request};

mod connection;
/// Connections of this kernel.
pub mod kernel;
/// Connections that a daemon of Calisto serves.
pub mod ours;

use connection::{CHUNK_BYTES, Connection, Progress};

/// Connections of a shard.
pub const CONNECTIONS_MAX: u32 = 50_000;

/// How long the first connections may take.
const OPEN_TIMEOUT: Nanos = Nanos::from_secs(10);

/// Connections that are being made at a time: about what servers have room for in their backlogs.
const OPENING_MAX: usize = 128;

/// Connections that are looked at in one turn, at most.
const CONNECTIONS_PER_TURN: usize = 64;

/// With connections to be made anew, a sleep is no longer than this.
const RETRY_LOOK: Nanos = Nanos::from_millis(1);

/// One connection's socket. Neither call waits: WouldBlock instead.
pub trait Stream {
    /// As read(2).
    ///
    /// # Errors
    /// As read(2).
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize>;

    /// As write(2).
    ///
    /// # Errors
    /// As write(2).
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize>;

    /// Whether it is connected; WouldBlock: not yet.
    ///
    /// # Errors
    /// It never will be.
    fn connected(&mut self) -> std::io::Result<()>;
}

/// Makes connections, and says which of them have news.
pub trait Network {
    /// A connection.
    type Stream: Stream;

    /// Begins to connect. `number` is what [`Network::ready`] will call it.
    ///
    /// # Errors
    /// As connect(2).
    fn connect(&mut self, number: usize, target: SocketAddr) -> std::io::Result<Self::Stream>;

    /// Adds the numbers of those that can be read or written again since they last could not.
    fn ready(&mut self, found: &mut Vec<usize>);

    /// Sleeps until one is ready or `timeout` has passed.
    fn wait(&mut self, timeout: Nanos);

    /// What it is, for the report.
    fn describe(&self) -> String;
}

/// Flows as connections.
pub struct Streams<N: Network> {
    network: N,
    protocol: Protocol,
    target: SocketAddr,
    connections: Vec<Connection<N::Stream>>,
    /// Connections that may have news.
    ready: VecDeque<usize>,
    found: Vec<usize>,
    /// Connections that are to be made anew.
    down: VecDeque<usize>,
    /// Requests that will not be answered, to be told with the next replies.
    gone: Vec<u64>,
    chunk: Vec<u8>,
    counters: TransportCounters,
}

impl<N: Network> Streams<N> {
    /// Opens a connection for each of `flows`, and waits until they are made.
    ///
    /// # Errors
    /// More than are possible, or one that cannot be made in time.
    pub fn open(
        network: N,
        protocol: Protocol,
        target: SocketAddr,
        flows: u32,
    ) -> Result<Self, Error> {
        if flows > CONNECTIONS_MAX {
            return Err(Error::Setting(format!(
                "{flows} flows would be as many connections, and a thread can have \
                 {CONNECTIONS_MAX}: use fewer flows or more threads"
            )));
        }
        let mut streams = Self {
            network,
            protocol,
            target,
            connections: Vec::with_capacity(flows as usize),
            ready: VecDeque::new(),
            found: Vec::new(),
            down: VecDeque::new(),
            gone: Vec::new(),
            chunk: vec![0; CHUNK_BYTES],
            counters: TransportCounters::default(),
        };
        streams.open_all(flows as usize)?;
        Ok(streams)
    }

    fn open_all(&mut self, flows: usize) -> Result<(), Error> {
        let deadline = now() + OPEN_TIMEOUT;
        let target = self.target;
        let mut up = 0;
        let failed = |up: usize, error: &std::io::Error| {
            Error::io(format!("connect to {target} ({up} of {flows} are made)"), error)
        };
        while up < flows {
            while self.connections.len() < flows.min(up + OPENING_MAX) {
                let number = self.connections.len();
                let stream = self.network.connect(number, target);
                let stream = stream.map_err(|error| failed(up, &error))?;
                self.connections.push(Connection::new(stream));
            }
            self.network.ready(&mut self.found);
            if self.found.is_empty() {
                self.network.wait(Nanos::from_millis(2));
                self.network.ready(&mut self.found);
            }
            if self.found.is_empty() {
                // Whoever has made no noise is looked at, too.
                self.found.extend(0..self.connections.len());
            }
            for number in self.found.drain(..) {
                let Some(connection) = self.connections.get_mut(number) else { continue };
                // News are told once: what they were about is looked at again when the run begins.
                self.ready.push_back(number);
                if !connection.is_up() {
                    let is_up = connection.look_whether_up().map_err(|error| failed(up, &error))?;
                    up += usize::from(is_up);
                }
            }
            if up < flows && (now() >= deadline || sys::signal::stop_requested()) {
                return Err(Error::Failed(format!(
                    "{up} of {flows} connections to {target} were made in {OPEN_TIMEOUT}: use fewer \
                     flows, or look at the server's backlog"
                )));
            }
        }
        Ok(())
    }

    /// Makes connections anew whose time has come.
    #[cold]
    fn reconnect(&mut self) {
        let time = now();
        for _ in 0..self.down.len().min(CONNECTIONS_PER_TURN) {
            let Some(number) = self.down.pop_front() else { return };
            let connection = &mut self.connections[number];
            if connection.retry_at() > time {
                self.down.push_back(number);
                continue;
            }
            match self.network.connect(number, self.target) {
                Ok(stream) => {
                    self.counters.resent += connection.renew(stream, &self.protocol);
                    self.ready.push_back(number);
                }
                Err(error) => {
                    self.counters.refused += u64::from(is_refusal(&error));
                    connection.fail(time, false, &mut self.gone);
                    self.down.push_back(number);
                }
            }
        }
    }

    /// A connection is over: what has to be counted is, and it will be made anew.
    fn note_end(
        number: usize,
        progress: &Progress,
        counters: &mut TransportCounters,
        down: &mut VecDeque<usize>,
    ) {
        match progress {
            Progress::Fine | Progress::Busy => return,
            Progress::ToldToEnd => {}
            Progress::Broken => counters.broken += 1,
            Progress::Ended(Some(error)) if is_refusal(error) => counters.refused += 1,
            Progress::Ended(_) => counters.closed += 1,
        }
        down.push_back(number);
    }
}

fn is_refusal(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ConnectionRefused
}

impl<N: Network> Transport for Streams<N> {
    fn begin(&mut self, seed: u64) {
        self.protocol.reseed(seed);
    }

    #[inline]
    fn group(&self, requests: &[Request]) -> usize {
        let first = requests.first().map(|request| request.flow);
        requests.iter().take_while(|request| Some(request.flow) == first).count()
    }

    fn send(&mut self, requests: &[Request]) -> usize {
        let Self { connections, protocol, gone, counters, ready, .. } = self;
        let Some(number) = requests.first().map(|request| request.flow as usize) else { return 0 };
        let Some(connection) = connections.get_mut(number) else {
            debug_assert!(false, "the plan's flows are those the connections were opened for");
            return 0;
        };
        for request in requests {
            let ask = protocol.ask();
            if !connection.push(request, ask, protocol) {
                // Its peer does not read: waiting for it would hold up all the others.
                counters.send_errors += 1;
                gone.push(request.index);
            }
        }
        if connection.flush() {
            ready.push_back(number);
        }
        requests.len()
    }

    fn receive(&mut self, mut sink: impl FnMut(&Reply<'_>)) -> usize {
        if !self.down.is_empty() {
            self.reconnect();
        }
        let mut count = 0;
        // Not more than can be looked at: the network remembers the rest.
        if self.ready.len() < CONNECTIONS_PER_TURN {
            self.network.ready(&mut self.found);
            self.ready.extend(self.found.drain(..));
        }
        for _ in 0..self.ready.len().min(CONNECTIONS_PER_TURN) {
            let Some(number) = self.ready.pop_front() else { break };
            let Self { connections, protocol, gone, chunk, counters, down, .. } = self;
            let Some(connection) = connections.get_mut(number) else { continue };
            let flow = Some(number as u32);
            let progress = connection.turn(chunk, protocol, gone, counters, |answer, at| {
                count += 1;
                sink(&Reply { flow, answer, at: Some(at) });
            });
            if matches!(progress, Progress::Busy) {
                self.ready.push_back(number);
            }
            Self::note_end(number, &progress, counters, down);
        }
        for index in self.gone.drain(..) {
            sink(&Reply { flow: None, answer: Answer::NoneTo(index), at: None });
        }
        count
    }

    fn wait(&mut self, timeout: Nanos) {
        if self.ready.is_empty() {
            let down = !self.down.is_empty();
            self.network.wait(if down { timeout.min(RETRY_LOOK) } else { timeout });
        }
    }

    fn counters(&self) -> TransportCounters {
        self.counters
    }

    fn describe(&self) -> String {
        let (network, protocol) = (self.network.describe(), self.protocol.describe());
        format!("{protocol}, {} TCP connection(s) of {network}", self.connections.len())
    }
}

#[cfg(test)]
mod tests;
