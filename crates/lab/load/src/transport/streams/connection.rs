//! One connection: what is to be written, what has come, and what was asked and is not answered.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind};

use base::Nanos;
use sys::clock::now;

use super::Stream;
use crate::Request;
use crate::protocol::{Ask, Heard, Protocol, Read, Reader};
use crate::transport::{Answer, TransportCounters};

/// Requests of a connection that wait for answers, at most; a server that far behind has failed.
const WAITING_MAX: usize = 1 << 14;

/// Bytes that wait to be written, at most: besides what the kernel's buffers hold.
const UNWRITTEN_MAX: usize = 4 << 20;

/// A request is asked on this many connections that end without a single answer.
const TRIES_MAX: u8 = 4;

/// Between the end of a connection and the next one: at first, and when it goes on like that.
const RETRY_FIRST: Nanos = Nanos::from_micros(200);
const RETRY_MAX: Nanos = Nanos::from_millis(100);

/// Bytes of one read call, and such calls of one turn.
pub(super) const CHUNK_BYTES: usize = 64 << 10;
const READS_PER_TURN: usize = 4;

/// A connection, or what is left of it.
pub(super) struct Connection<S> {
    /// None: it is down until `retry_at`.
    stream: Option<S>,
    is_up: bool,
    /// Something was answered on it.
    has_answered: bool,
    retry_at: Nanos,
    retry_after: Nanos,
    unwritten: Vec<u8>,
    written: usize,
    /// Nothing more can be written; answers may still be there to be read.
    write_error: Option<Error>,
    unread: Vec<u8>,
    reader: Reader,
    waiting: VecDeque<Asked>,
}

/// A request that was asked and not answered.
struct Asked {
    request: Request,
    ask: Ask,
    tries: u8,
    /// A connection that was up ended while it waited.
    was_sent: bool,
}

/// What became of a connection.
#[derive(Debug)]
pub(super) enum Progress {
    /// Nothing more to do now.
    Fine,
    /// There may be more to read.
    Busy,
    /// The server has ended it, as it had said.
    ToldToEnd,
    /// It has ended, with an error or in order.
    Ended(Option<Error>),
    /// What came was no answer.
    Broken,
}

impl<S: Stream> Connection<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream: Some(stream),
            is_up: false,
            has_answered: false,
            retry_at: Nanos::ZERO,
            retry_after: RETRY_FIRST,
            unwritten: Vec::new(),
            written: 0,
            write_error: None,
            unread: Vec::new(),
            reader: Reader::default(),
            waiting: VecDeque::new(),
        }
    }

    pub(super) fn retry_at(&self) -> Nanos {
        self.retry_at
    }

    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }

    /// Whether it is connected by now.
    pub(super) fn look_whether_up(&mut self) -> Result<bool, Error> {
        let Some(stream) = self.stream.as_mut().filter(|_| !self.is_up) else {
            return Ok(self.is_up);
        };
        match stream.connected() {
            Ok(()) => self.is_up = true,
            Err(error) if is_later(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(self.is_up)
    }

    /// Takes a request; false: too many wait already.
    #[inline]
    pub(super) fn push(&mut self, request: &Request, ask: Ask, protocol: &Protocol) -> bool {
        let unwritten = self.unwritten.len() - self.written;
        if self.waiting.len() >= WAITING_MAX || unwritten >= UNWRITTEN_MAX {
            return false;
        }
        if self.stream.is_some() {
            protocol.write(request, ask, &mut self.unwritten);
        }
        self.waiting.push_back(Asked { request: *request, ask, tries: 0, was_sent: false });
        true
    }

    /// Writes what waits; whether it has to be looked at, because that has failed.
    #[inline]
    pub(super) fn flush(&mut self) -> bool {
        while let Some(stream) = &mut self.stream
            && self.write_error.is_none()
            && self.written < self.unwritten.len()
        {
            match stream.write(&self.unwritten[self.written..]) {
                Ok(0) => self.write_error = Some(ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_later(&error) => return false,
                Err(error) => self.write_error = Some(error),
            }
        }
        if self.stream.is_some() {
            self.unwritten.clear();
            self.written = 0;
        }
        self.write_error.is_some()
    }

    /// Writes what waits, and gives the answers that have come, and when, to `sink`. `chunk` is
    /// room for what is read; nothing of it is kept.
    pub(super) fn turn(
        &mut self,
        chunk: &mut [u8],
        protocol: &Protocol,
        gone: &mut Vec<u64>,
        counters: &mut TransportCounters,
        mut sink: impl FnMut(Answer<'_>, Nanos),
    ) -> Progress {
        match self.look_whether_up() {
            Ok(true) => {}
            Ok(false) => return Progress::Fine,
            Err(error) => return self.end(Some(error), gone),
        }
        self.flush();
        for _ in 0..READS_PER_TURN {
            let Some(stream) = &mut self.stream else { return Progress::Fine };
            match stream.read(chunk) {
                Ok(0) => {
                    let told = self.reader.end().is_some_and(|heard| {
                        self.settle(heard, &[], now(), counters, &mut sink);
                        true
                    });
                    self.end(None, gone);
                    return if told { Progress::ToldToEnd } else { Progress::Ended(None) };
                }
                Ok(count) => self.unread.extend_from_slice(&chunk[..count.min(chunk.len())]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if is_later(&error) => {
                    return match self.write_error.take() {
                        Some(error) => self.end(Some(error), gone),
                        None => Progress::Fine,
                    };
                }
                Err(error) => return self.end(Some(error), gone),
            }
            match self.read_answers(protocol, counters, &mut sink) {
                Progress::Fine => {}
                Progress::Broken => {
                    // Who asks that again gets the same.
                    gone.extend(self.waiting.pop_front().map(|asked| asked.request.index));
                    self.end(None, gone);
                    return Progress::Broken;
                }
                other => {
                    self.end(None, gone);
                    return other;
                }
            }
        }
        Progress::Busy
    }

    /// Gives whole answers to `sink`.
    fn read_answers(
        &mut self,
        protocol: &Protocol,
        counters: &mut TransportCounters,
        sink: &mut impl FnMut(Answer<'_>, Nanos),
    ) -> Progress {
        let came_at = now();
        let unread = std::mem::take(&mut self.unread);
        let mut at = 0;
        let progress = loop {
            let Some(ask) = self.waiting.front().map(|asked| asked.ask) else {
                // More than was asked for.
                break if at < unread.len() { Progress::Broken } else { Progress::Fine };
            };
            match self.reader.read(protocol, ask, &unread[at..]) {
                Read::More(0) if unread.len() - at > protocol.unread_max() => {
                    break Progress::Broken;
                }
                Read::More(0) => break Progress::Fine,
                Read::More(used) => at += used,
                Read::Answer(used, heard) => {
                    self.settle(heard, &unread[at..at + used], came_at, counters, sink);
                    at += used;
                    if let Heard::Page { last: true } | Heard::Error { last: true } = heard {
                        break Progress::ToldToEnd;
                    }
                }
                Read::Broken => break Progress::Broken,
            }
        };
        self.unread = unread;
        self.unread.drain(..at);
        progress
    }

    /// The oldest request is answered.
    #[inline]
    fn settle(
        &mut self,
        heard: Heard,
        bytes: &[u8],
        came_at: Nanos,
        counters: &mut TransportCounters,
        sink: &mut impl FnMut(Answer<'_>, Nanos),
    ) {
        let Some(Asked { request, .. }) = self.waiting.pop_front() else { return };
        self.has_answered = true;
        self.retry_after = RETRY_FIRST;
        let index = request.index;
        match heard {
            Heard::Copy => return sink(Answer::Copy(bytes), came_at),
            // An empty copy is a damaged one.
            Heard::Wrong => return sink(Answer::Copy(&[]), came_at),
            Heard::Error { .. } => return sink(Answer::ErrorTo(index), came_at),
            Heard::Hit => counters.hits += 1,
            Heard::Miss => counters.misses += 1,
            Heard::Stored => counters.stored += 1,
            Heard::Page { .. } => {}
        }
        sink(Answer::To(index), came_at);
    }

    /// The connection is over.
    fn end(&mut self, error: Option<Error>, gone: &mut Vec<u64>) -> Progress {
        let was_up = self.is_up;
        self.fail(now(), was_up, gone);
        Progress::Ended(error)
    }

    /// It is down, and to be made anew after a while. What was asked too often is `gone`.
    pub(super) fn fail(&mut self, now: Nanos, was_up: bool, gone: &mut Vec<u64>) {
        self.stream = None;
        self.is_up = false;
        self.write_error = None;
        self.unwritten.clear();
        self.written = 0;
        self.unread.clear();
        self.reader = Reader::default();
        self.retry_at = now + self.retry_after;
        self.retry_after = Nanos(self.retry_after.0 * 2).min(RETRY_MAX);
        // A server that answers one and closes gets through with all of them.
        let failed = u8::from(!std::mem::take(&mut self.has_answered));
        self.waiting.retain_mut(|asked| {
            asked.was_sent |= was_up;
            asked.tries += failed;
            if asked.tries >= TRIES_MAX {
                gone.push(asked.request.index);
            }
            asked.tries < TRIES_MAX
        });
    }

    /// Asks on a new connection what was not answered on the old one; how much had been sent
    /// before.
    pub(super) fn renew(&mut self, stream: S, protocol: &Protocol) -> u64 {
        self.stream = Some(stream);
        for asked in &self.waiting {
            protocol.write(&asked.request, asked.ask, &mut self.unwritten);
        }
        self.waiting.iter().filter(|asked| asked.was_sent).count() as u64
    }
}

/// Neither done nor failed.
fn is_later(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
}
