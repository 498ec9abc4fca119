//! TCP connections from kernel sockets to an echo, each of which checks every byte that comes back.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use testbed::Side;

use crate::process::TIMEOUT;

/// Bytes written or read at once, at most.
const CHUNK: usize = 1 << 14;

/// Period of what is sent: a prime, so that no ring and no segment fits into it a whole number of
/// times, and bytes in a wrong place are wrong bytes.
const PERIOD: usize = 65_521;

/// Between two looks at connections of which none could go on.
const PAUSE: Duration = Duration::from_micros(200);

/// Some connections.
#[derive(Debug)]
pub struct Talks {
    talks: Vec<Talk>,
    /// What is sent, a period and a chunk long.
    text: Vec<u8>,
}

/// One connection.
#[derive(Debug)]
struct Talk {
    stream: TcpStream,
    /// Where in the text it began.
    start: u64,
    goal: u64,
    sent: u64,
    received: u64,
    is_shut: bool,
    is_over: bool,
}

impl Talks {
    /// `count` connections from `side` to `server`.
    ///
    /// # Panics
    /// One is not accepted.
    pub fn connect(side: &Side, count: usize, server: SocketAddr) -> Self {
        let connect = |number: usize| {
            let stream = TcpStream::connect_timeout(&server, TIMEOUT);
            let stream = stream.unwrap_or_else(|error| panic!("connection {number}: {error}"));
            stream.set_nonblocking(true).expect("a TCP socket can be");
            stream.set_nodelay(true).expect("a TCP socket can be told");
            Talk {
                stream,
                start: number as u64 * 7919,
                goal: 0,
                sent: 0,
                received: 0,
                is_shut: false,
                is_over: false,
            }
        };
        let talks = side.enter(|| (0..count).map(connect).collect()).expect("it is there");
        // xorshift: any bytes will do that do not repeat soon.
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let period: Vec<u8> = (0..PERIOD).map(|_| random()).collect();
        let text = period.iter().chain(&period[..CHUNK]).copied().collect();
        Self { talks, text }
    }

    /// The local address of the first.
    ///
    /// # Panics
    /// There is none.
    pub fn local(&self) -> SocketAddr {
        self.talks[0].stream.local_addr().expect("it is connected")
    }

    /// Sends that many bytes more over each and waits until all have come back.
    ///
    /// # Panics
    /// A byte is wrong, a connection is reset, or nothing goes on any more.
    pub fn echo(&mut self, bytes: u64) {
        for talk in &mut self.talks {
            talk.goal += bytes;
        }
        self.settle();
    }

    /// Sends over each, and takes what comes back, until told to stop; then waits for the rest.
    ///
    /// # Panics
    /// As [`Self::echo`].
    pub fn echo_until(&mut self, stop: &AtomicBool) {
        for talk in &mut self.talks {
            talk.goal = u64::MAX;
        }
        self.drive(|_| stop.load(Ordering::Relaxed));
        for talk in &mut self.talks {
            talk.goal = talk.sent;
        }
        self.settle();
    }

    /// Says over each that nothing more will be sent, and waits for the other side to say so too;
    /// how many bytes came back over all of them.
    ///
    /// # Panics
    /// As [`Self::echo`]; or something is missing at the end.
    pub fn end(mut self) -> u64 {
        for talk in &mut self.talks {
            talk.is_shut = true;
            talk.stream.shutdown(Shutdown::Write).expect("it is connected");
        }
        self.drive(|talks| talks.iter().all(|talk| talk.is_over));
        let missing = self.talks.iter().find(|talk| talk.received != talk.sent);
        assert!(missing.is_none(), "ended too soon: {missing:?}");
        self.talks.iter().map(|talk| talk.received).sum()
    }

    /// Bytes that have come back so far.
    pub fn received(&self) -> u64 {
        self.talks.iter().map(|talk| talk.received).sum()
    }

    /// The sockets, for those who want to see how they end.
    pub fn into_streams(self) -> Vec<TcpStream> {
        self.talks.into_iter().map(|talk| talk.stream).collect()
    }

    fn settle(&mut self) {
        self.drive(|talks| talks.iter().all(|talk| talk.received == talk.goal));
    }

    fn drive(&mut self, is_done: impl Fn(&[Talk]) -> bool) {
        let mut since = Instant::now();
        while !is_done(&self.talks) {
            let mut has_moved = false;
            for talk in &mut self.talks {
                has_moved |= talk.step(&self.text);
            }
            if has_moved {
                since = Instant::now();
                continue;
            }
            assert!(since.elapsed() < TIMEOUT, "nothing moves any more: {:?}", self.talks);
            std::thread::sleep(PAUSE);
        }
    }
}

impl Talk {
    /// Sends and receives what can be sent and received; whether there was any.
    fn step(&mut self, text: &[u8]) -> bool {
        let before = (self.sent, self.received, self.is_over);
        let at = |position: u64| ((self.start + position) % PERIOD as u64) as usize;
        let len = (self.goal - self.sent.min(self.goal)).min(CHUNK as u64) as usize;
        if len > 0 && !self.is_shut {
            match self.stream.write(&text[at(self.sent)..][..len]) {
                Ok(written) => self.sent += written as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("cannot send: {error}: {self:?}"),
            }
        }
        let mut bytes = [0; CHUNK];
        if !self.is_over {
            match self.stream.read(&mut bytes) {
                Ok(0) if self.is_shut => self.is_over = true,
                Ok(0) => panic!("ended by the other side: {self:?}"),
                Ok(len) => {
                    let meant = &text[at(self.received)..][..len];
                    assert!(bytes[..len] == *meant, "wrong bytes behind {}", self.received);
                    self.received += len as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("cannot receive: {error}: {self:?}"),
            }
        }
        before != (self.sent, self.received, self.is_over)
    }
}
