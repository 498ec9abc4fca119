//! Who asks an echo over a daemon's end: many connections of Linux's sockets, one request under way
//! on each at most, of random sizes and after random pauses. Every byte that comes back is checked.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::Nanos;
use rustix::event::epoll::EventFlags;
use sys::clock::now;
use sys::tcp_info::sent_again;
use testbed::{Side, Watch};

use super::text::{Text, Wrong};
use crate::cases::DeathSize;
use crate::error::{Error, OrNeeds, unless_interrupted};
use crate::flows::SplitMix;
use crate::sockets::client::connected;

/// Sizes are spread over their logarithm, up to 2 to the power of this.
const SIZE_BITS_MAX: u64 = 16;

/// Bytes that are read or written at once.
const CHUNK: usize = 1 << 14;

/// A caller that has waited this long for an answer gets none any more.
const GIVEN_UP: Nanos = Nanos::from_secs(20);

/// Between two looks at nothing.
const PAUSE: Duration = Duration::from_micros(500);

/// When a daemon has ended and when all of its connections stood again; zero: not yet.
#[derive(Debug, Default)]
pub(super) struct Moments {
    pub(super) ended_at: AtomicU64,
    pub(super) stand_at: AtomicU64,
}

/// What one connection has seen of a death.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// The longest that it waited for an answer, of all requests from those that were under way
    /// to the first that began when all stood.
    pub(super) stall: Nanos,
    /// Its own kernel had to send something again.
    pub(super) sent_again: bool,
    pub(super) fault: Option<Fault>,
}

/// What ended a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is reset, closed, or silent.
    Broken(String),
    Wrong(Wrong),
}

struct Caller {
    stream: TcpStream,
    text: Text,
    /// Bytes that were to be said, that were, and that came back; equal: nothing is under way.
    asked: u64,
    sent: u64,
    heard: u64,
    asked_at: Nanos,
    sent_again_before: u32,
    is_settled: bool,
    seen: Seen,
}

/// The connections.
pub(super) struct Callers {
    all: Vec<Caller>,
    watch: Watch,
    /// Who asks next, and when.
    due: BinaryHeap<Reverse<(Nanos, usize)>>,
    random: SplitMix,
    /// Between two requests of a connection, on average.
    pause: Nanos,
}

impl Callers {
    /// Connects to a server from a namespace.
    pub(super) fn connect(
        side: &Side,
        server: SocketAddr,
        size: DeathSize,
        seed: u64,
    ) -> Result<Self, Error> {
        let mut random = SplitMix(seed);
        let watch = Watch::new(PAUSE).or_needs("epoll")?;
        let mut all = Vec::new();
        for stream in connected(side, server, size.connections)? {
            // By edges: one that may write is not told of it all the time.
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
            watch.add(&stream, all.len(), flags).or_needs("epoll")?;
            all.push(Caller {
                stream,
                text: Text::new(random.next()),
                asked: 0,
                sent: 0,
                heard: 0,
                asked_at: Nanos::ZERO,
                sent_again_before: 0,
                is_settled: false,
                seen: Seen::default(),
            });
        }
        let pause = Nanos(1_000_000_000 * size.connections as u64 / size.per_second);
        Ok(Self { all, watch, due: BinaryHeap::new(), random, pause })
    }

    /// Asks until each has been answered that began to ask when all stood again.
    pub(super) fn ask(mut self, moments: &Moments) -> Result<Vec<Seen>, Error> {
        let (mut buffer, mut meant) = (vec![0; CHUNK], vec![0; CHUNK]);
        for number in 0..self.all.len() {
            self.wait_a_while(number, now());
        }
        let mut ended_at = Nanos::ZERO;
        while self.all.iter().any(|caller| caller.is_under_way(ended_at)) {
            unless_interrupted()?;
            let count = self.watch.look().or_needs("epoll")?;
            let stand_at = Nanos(moments.stand_at.load(Ordering::Acquire));
            if ended_at == Nanos::ZERO {
                ended_at = Nanos(moments.ended_at.load(Ordering::Acquire));
                if ended_at != Nanos::ZERO {
                    self.all.iter_mut().for_each(Caller::note_sent_again);
                }
            }
            for at in 0..count {
                let (number, _) = self.watch.event(at);
                let caller = &mut self.all[number];
                if caller.seen.fault.is_some() {
                    continue;
                }
                let (before, asked_at) = (caller.heard, caller.asked_at);
                if let Err(fault) = caller.go_on(&mut buffer, &mut meant) {
                    caller.seen.fault = Some(fault);
                } else if caller.heard > before && caller.heard == caller.asked {
                    let time = now();
                    caller.note_answer(asked_at, time, ended_at, stand_at);
                    self.wait_a_while(number, time);
                }
            }
            let time = now();
            while let Some(&Reverse((at, number))) = self.due.peek()
                && at <= time
            {
                self.due.pop();
                let size = 1 + self.random.next() % (1 << (1 + self.random.next() % SIZE_BITS_MAX));
                let caller = &mut self.all[number];
                if ended_at != Nanos::ZERO && caller.is_settled {
                    continue;
                }
                (caller.asked, caller.asked_at) = (caller.asked + size, time);
                if let Err(fault) = caller.say(&mut buffer) {
                    caller.seen.fault = Some(fault);
                }
            }
            if ended_at != Nanos::ZERO && time.since(ended_at) > GIVEN_UP {
                self.all.iter_mut().for_each(Caller::give_up);
            }
        }
        Ok(self.all.into_iter().map(Caller::ended).collect())
    }

    fn wait_a_while(&mut self, number: usize, time: Nanos) {
        let pause = Nanos(self.random.next() % (2 * self.pause.0).max(1));
        self.due.push(Reverse((time + pause, number)));
    }
}

impl Caller {
    /// Whether it is still to be waited for.
    fn is_under_way(&self, ended_at: Nanos) -> bool {
        self.seen.fault.is_none() && (ended_at == Nanos::ZERO || !self.is_settled)
    }

    fn note_sent_again(&mut self) {
        // One that has no connection any more says so when it is read.
        self.sent_again_before = sent_again(self.stream.as_fd()).unwrap_or_default();
    }

    fn note_answer(&mut self, asked_at: Nanos, time: Nanos, ended_at: Nanos, stand_at: Nanos) {
        if ended_at == Nanos::ZERO || time < ended_at || self.is_settled {
            return;
        }
        self.seen.stall = self.seen.stall.max(time.since(asked_at));
        self.is_settled = stand_at != Nanos::ZERO && asked_at >= stand_at;
    }

    fn give_up(&mut self) {
        if !self.is_settled && self.seen.fault.is_none() {
            let missing = self.asked - self.heard;
            let why = format!("{missing} bytes did not come within {GIVEN_UP}");
            self.seen.fault = Some(Fault::Broken(why));
        }
    }

    fn ended(self) -> Seen {
        let after = sent_again(self.stream.as_fd()).unwrap_or_default();
        Seen { sent_again: after > self.sent_again_before, ..self.seen }
    }

    /// Reads and writes as much as goes.
    fn go_on(&mut self, buffer: &mut [u8], meant: &mut [u8]) -> Result<(), Fault> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err(Fault::Broken("the server has closed".to_owned())),
                Ok(length) => {
                    let wrong = self.text.wrong(self.heard, &buffer[..length], meant);
                    if let Some(wrong) = wrong {
                        return Err(Fault::Wrong(wrong));
                    }
                    self.heard += length as u64;
                    if self.heard > self.asked {
                        return Err(Fault::Wrong(Wrong::Doubled(self.heard - self.asked)));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(Fault::Broken(error.to_string())),
            }
        }
        self.say(buffer)
    }

    fn say(&mut self, buffer: &mut [u8]) -> Result<(), Fault> {
        while self.sent < self.asked {
            let length = (self.asked - self.sent).min(buffer.len() as u64) as usize;
            self.text.fill(self.sent, &mut buffer[..length]);
            match self.stream.write(&buffer[..length]) {
                Ok(written) => self.sent += written as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(Fault::Broken(error.to_string())),
            }
        }
        Ok(())
    }
}
