//! The client: many connections of Linux's sockets, one thread behind epoll that never sleeps.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base::Nanos;
use load::Latencies;
use rustix::event::epoll::EventFlags;
use sys::clock::now;
use testbed::{Side, Watch};

use super::dialogue::{Dialogue, Request};
use crate::error::{Error, OrNeeds};

/// One attempt to connect: longer than until a lost SYN is sent again.
const ATTEMPT: Duration = Duration::from_secs(5);

/// This many are opened at a time when there are many, and then the server gets a rest.
const BURST_OF_CONNECTIONS: usize = 256;
const PAUSE: Duration = Duration::from_millis(10);

/// Nothing moved for this long: it will not.
pub(super) const STALLED: Nanos = Nanos::from_secs(5);

/// How long the last answers are waited for.
const GRACE: Nanos = Nanos::from_secs(2);

/// An answer that is waited for.
#[derive(Clone, Copy)]
struct Awaited {
    from: Nanos,
    bytes: usize,
    begins: &'static [u8],
}

struct Connection {
    stream: TcpStream,
    awaited: VecDeque<Awaited>,
    /// Of the first awaited answer.
    received: usize,
}

/// The connections of a client.
pub(crate) struct Clients {
    connections: Vec<Connection>,
    watch: Watch,
    buffer: Vec<u8>,
    /// Answers that are waited for.
    pub(super) outstanding: usize,
}

/// What a client has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answers {
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(super) p95_us: f64,
    /// Requests without an answer.
    pub(super) lost: u64,
}

impl Answers {
    /// From all of one span of time. A percentile that falls on a request without an answer is at
    /// the end of the patience.
    pub(super) fn new(latencies: &Latencies, lost: u64, span: Nanos) -> Self {
        let at =
            |share| latencies.quantile_with_missing(share, lost).unwrap_or(GRACE).as_micros_f64();
        let per_second = latencies.count() as f64 / span.as_secs_f64();
        Self { per_second, p50_us: at(0.5), p95_us: at(0.95), lost }
    }
}

impl Clients {
    /// Connects to a server from a namespace.
    pub(super) fn connect(side: &Side, server: SocketAddr, count: usize) -> Result<Self, Error> {
        Self::new(connected(side, server, count)?)
    }

    /// Over connections that are there.
    pub(crate) fn new(streams: Vec<TcpStream>) -> Result<Self, Error> {
        let watch = Watch::new(Duration::ZERO).or_needs("epoll")?;
        for (number, stream) in streams.iter().enumerate() {
            stream.set_nonblocking(true).or_needs("connection")?;
            watch.add(stream, number, EventFlags::IN).or_needs("epoll")?;
        }
        let connection = |stream| Connection { stream, awaited: VecDeque::new(), received: 0 };
        Ok(Self {
            connections: streams.into_iter().map(connection).collect(),
            watch,
            buffer: vec![0; 1 << 16],
            outstanding: 0,
        })
    }

    /// How many connections.
    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Sends a request whose latency counts from `from`.
    #[inline]
    pub(super) fn send(
        &mut self,
        number: usize,
        request: &Request<'_>,
        from: Nanos,
    ) -> Result<(), Error> {
        let connection = &mut self.connections[number];
        let written = connection.stream.write(request.bytes).or_needs("way to send")?;
        if written < request.bytes.len() {
            return Err("the server does not read").or_needs("way to send");
        }
        let Request { answer_bytes: bytes, answer_begins: begins, .. } = *request;
        connection.awaited.push_back(Awaited { from, bytes, begins });
        self.outstanding += 1;
        Ok(())
    }

    /// Looks once: notes the connections of which an answer is complete, and how long each took.
    pub(super) fn look(
        &mut self,
        latencies: &mut Latencies,
        answered: &mut VecDeque<usize>,
    ) -> Result<(), Error> {
        for at in 0..self.watch.look().or_needs("epoll")? {
            let (number, _) = self.watch.event(at);
            let connection = &mut self.connections[number];
            match connection.stream.read(&mut self.buffer) {
                Ok(0) => return Err("the server has closed").or_needs("answer"),
                Ok(length) => {
                    let time = now();
                    let answers = connection.hear(&self.buffer[..length], |from| {
                        latencies.record(time.since(from));
                        answered.push_back(number);
                    })?;
                    self.outstanding -= answers;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).or_needs("answer"),
            }
        }
        Ok(())
    }

    /// Asks on that many connections at a time, for `length`. The longest idle one is next.
    pub(crate) fn ask(
        &mut self,
        dialogue: &mut Dialogue,
        under_way: usize,
        length: Nanos,
    ) -> Result<Answers, Error> {
        let mut latencies = Latencies::default();
        let mut idle: VecDeque<usize> = (0..self.len()).collect();
        let began = now();
        let (mut time, mut moved_at) = (began, began);
        while time.since(began) < length {
            while self.outstanding < under_way
                && let Some(number) = idle.pop_front()
            {
                let request = dialogue.next();
                self.send(number, &request, now())?;
            }
            let before = latencies.count();
            self.look(&mut latencies, &mut idle)?;
            time = now();
            if latencies.count() > before {
                moved_at = time;
            } else if time.since(moved_at) > STALLED {
                return Err(format!("nothing came for {STALLED}")).or_needs("answer");
            }
        }
        let answers = Answers::new(&latencies, 0, time.since(began));
        let lost = self.settle(&mut Latencies::default())?;
        Ok(Answers { lost, ..answers })
    }

    /// Waits for what is under way; how many answers never came.
    pub(super) fn settle(&mut self, latencies: &mut Latencies) -> Result<u64, Error> {
        let until = now() + GRACE;
        let mut answered = VecDeque::new();
        while self.outstanding > 0 && now() < until {
            self.look(latencies, &mut answered)?;
        }
        Ok(self.outstanding as u64)
    }

    /// Asks everything that has to be asked before the rest.
    pub(super) fn prepare(&mut self, dialogue: &Dialogue) -> Result<(), Error> {
        let (mut latencies, mut answered) = (Latencies::default(), VecDeque::new());
        for request in dialogue.preparations() {
            self.send(0, &request, now())?;
            let until = now() + STALLED;
            while self.outstanding > 0 {
                self.look(&mut latencies, &mut answered)?;
                if now() > until {
                    return Err(format!("nothing came for {STALLED}")).or_needs("answer");
                }
            }
        }
        Ok(())
    }
}

/// Connections to a server from a namespace, for whoever has nothing to ask.
pub(crate) fn connected(
    side: &Side,
    server: SocketAddr,
    count: usize,
) -> Result<Vec<TcpStream>, Error> {
    let connect = || {
        let one = |number: usize| {
            // No queue of connections that wait to be accepted is to be tried here.
            if number % BURST_OF_CONNECTIONS == BURST_OF_CONNECTIONS - 1 {
                std::thread::sleep(PAUSE);
            }
            let stream = TcpStream::connect_timeout(&server, ATTEMPT)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok::<_, std::io::Error>(stream)
        };
        (0..count).map(one).collect::<Result<Vec<TcpStream>, _>>()
    };
    side.enter(connect).or_needs("thread in a namespace")?.or_needs("connection")
}

impl Connection {
    /// Takes bytes in; calls `complete` for each answer that ends in them, and says how many.
    fn hear(&mut self, mut bytes: &[u8], mut complete: impl FnMut(Nanos)) -> Result<usize, Error> {
        let mut answers = 0;
        while !bytes.is_empty() {
            let first = *self.awaited.front().ok_or("nobody has asked").or_needs("answer")?;
            let begins = first.begins.get(self.received..).unwrap_or_default();
            if begins.iter().zip(bytes).any(|(wanted, got)| wanted != got) {
                let said = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]);
                return Err(format!("it says {said:?}")).or_needs("right answer");
            }
            let taken = bytes.len().min(first.bytes - self.received);
            bytes = &bytes[taken..];
            self.received += taken;
            if self.received == first.bytes {
                (self.received, answers) = (0, answers + 1);
                self.awaited.pop_front();
                complete(first.from);
            }
        }
        Ok(answers)
    }
}

#[cfg(test)]
mod tests;
