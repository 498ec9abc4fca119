//! Honest clients beside an attack: whether they are served, and how soon.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use base::Nanos;

use crate::{Side, TestbedError};

/// Who has not been answered by then never will be.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A question, and what is known of its answer.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// What is asked.
    pub request: Vec<u8>,
    /// Bytes of the answer.
    pub answer_bytes: usize,
    /// Whether the next question goes over the same connection; else the server closes it.
    pub keeps: bool,
}

/// Honest clients: how many, and how often each asks.
#[derive(Clone, Debug)]
pub struct Bystanders {
    /// Whom they ask.
    pub server: SocketAddr,
    /// What.
    pub exchange: Exchange,
    /// How many clients.
    pub clients: u32,
    /// Questions of all of them in a second; who is late asks at once and has waited since the time
    /// when the question was due.
    pub per_second: u32,
}

/// What they have seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Questions that were due.
    pub due: u64,
    /// How long each answer took, from when its question was due.
    pub latencies: Vec<Nanos>,
    /// Connections that broke: reset, closed, or without an answer for ten seconds.
    pub broken: u64,
    /// Why the first of them did.
    pub why: Option<String>,
}

impl Seen {
    /// Answers for each question that was due.
    pub fn share_answered(&self) -> f64 {
        self.latencies.len() as f64 / self.due.max(1) as f64
    }

    /// The smallest wait that at least `percent` of a hundred questions did not exceed; a question
    /// without an answer waits for ever, which is nothing here.
    pub fn percentile(&self, percent: u64) -> Option<Nanos> {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let at = (self.due * percent).div_ceil(100).max(1) - 1;
        sorted.get(at as usize).copied()
    }

    /// What others have seen, too.
    pub fn add(&mut self, other: Self) {
        self.due += other.due;
        self.latencies.extend(other.latencies);
        self.broken += other.broken;
        self.why = self.why.take().or(other.why);
    }
}

impl Bystanders {
    /// They ask from `side` until `is_over`; each has a thread, which begins with the CPUs of the
    /// calling one.
    ///
    /// # Errors
    /// A thread cannot be started or cannot enter the namespace.
    pub fn ask(
        &self,
        side: &Side,
        is_over: &(dyn Fn() -> bool + Sync),
    ) -> std::result::Result<Seen, TestbedError> {
        let every = Duration::from_secs(1) * self.clients / self.per_second.max(1);
        let began = Instant::now();
        let all = || {
            std::thread::scope(|scope| {
                // Each begins a little later than the one before, so that they do not ask at once.
                let start = |number| {
                    let first = began + every * number / self.clients;
                    scope.spawn(move || self.one(first, every, is_over))
                };
                let running: Vec<_> = (0..self.clients).map(start).collect();
                let mut seen = Seen::default();
                for thread in running {
                    let one = thread.join();
                    seen.add(one.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
                }
                seen
            })
        };
        side.enter(all)
    }

    fn one(&self, began: Instant, every: Duration, is_over: &dyn Fn() -> bool) -> Seen {
        let mut seen = Seen::default();
        let mut stream = None;
        let mut answer = vec![0; self.exchange.answer_bytes];
        while !is_over() {
            let due = began + every * u32::try_from(seen.due).unwrap_or(u32::MAX);
            let Some(late) = Instant::now().checked_duration_since(due) else {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                continue;
            };
            let asked = Instant::now();
            seen.due += 1;
            match self.once(&mut stream, &mut answer) {
                Ok(()) => {
                    let waited = late + asked.elapsed();
                    seen.latencies.push(Nanos(waited.as_nanos() as u64));
                }
                Err(error) => {
                    stream = None;
                    seen.broken += 1;
                    seen.why.get_or_insert(error.to_string());
                }
            }
        }
        // What was due while it waited for somebody.
        let should = began.elapsed().as_nanos() / every.as_nanos().max(1);
        seen.due = seen.due.max(u64::try_from(should).unwrap_or(u64::MAX));
        seen
    }

    fn once(&self, stream: &mut Option<TcpStream>, answer: &mut [u8]) -> Result<()> {
        let mut own = match stream.take() {
            Some(stream) => stream,
            None => connect(self.server)?,
        };
        own.write_all(&self.exchange.request)?;
        own.read_exact(answer)?;
        if self.exchange.keeps {
            *stream = Some(own);
            return Ok(());
        }
        match own.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(Error::new(ErrorKind::InvalidData, "the answer is longer than it should be")),
        }
    }
}

/// Connects, with an end to everything that waits.
///
/// # Errors
/// Nobody accepts.
fn connect(server: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
