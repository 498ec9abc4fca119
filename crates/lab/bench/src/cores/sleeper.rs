//! A thread that sleeps until it is woken, and says at once when it runs: what a grant is held
//! against.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

use base::Nanos;
use sys::clock::tsc;
use sys::futex::{self, Scope};
use sys::poll;

use crate::error::{Error, OrNeeds};

/// A wake-up that does not come within this long never comes.
const TIMEOUT: Nanos = Nanos::from_secs(1);

/// How it is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A word changes, futex(2).
    Futex,
    /// A byte comes through a pipe that it polls.
    Pipe,
}

/// What both sides look at.
#[derive(Debug, Default)]
struct Words {
    /// Times that it was to wake.
    woken: AtomicU32,
    /// Times that it has woken, and when it did so last, by the time-stamp counter.
    ran: AtomicU32,
    ran_at: AtomicU64,
    tid: AtomicU32,
    stop: AtomicBool,
}

/// Ends when dropped.
#[derive(Debug)]
pub(super) struct Sleeper {
    words: Arc<Words>,
    writer: PipeWriter,
    by: By,
    thread: Option<JoinHandle<()>>,
}

impl Sleeper {
    /// A thread that sleeps on `cpu`.
    pub(super) fn start(cpu: usize, by: By) -> Result<Self, Error> {
        let words = Arc::new(Words::default());
        let (reader, writer) = std::io::pipe().or_needs("pipe")?;
        let theirs = Arc::clone(&words);
        let sleep = move || {
            // It shows in what is measured when it is elsewhere.
            let _ = sys::thread::pin(cpu);
            theirs.tid.store(sys::thread::tid(), Ordering::Release);
            theirs.sleep(by, reader);
        };
        let thread = std::thread::Builder::new().name("sleeper".to_owned()).spawn(sleep);
        let thread = thread.or_needs("thread")?;
        while words.tid.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        Ok(Self { words, writer, by, thread: Some(thread) })
    }

    /// Its number.
    pub(super) fn tid(&self) -> u32 {
        self.words.tid.load(Ordering::Acquire)
    }

    /// Wakes it.
    pub(super) fn wake(&self) {
        self.words.woken.fetch_add(1, Ordering::Release);
        match self.by {
            By::Futex => {
                futex::wake(&self.words.woken, Scope::Private, 1);
            }
            By::Pipe => {
                // A pipe of which each byte is read is never full.
                let _ = (&self.writer).write(&[1]);
            }
        }
    }

    /// When it ran after the last [`Self::wake`], by the time-stamp counter. Spins until it does.
    pub(super) fn ran_at(&self) -> Result<u64, Error> {
        let began = sys::clock::now();
        let wanted = self.words.woken.load(Ordering::Relaxed);
        while self.words.ran.load(Ordering::Acquire) != wanted {
            std::hint::spin_loop();
            if sys::clock::now().since(began) > TIMEOUT {
                return Err("it has not run within a second").or_needs("sleeper that wakes");
            }
        }
        Ok(self.words.ran_at.load(Ordering::Relaxed))
    }
}

impl Words {
    fn sleep(&self, by: By, mut reader: PipeReader) {
        let mut seen = 0;
        loop {
            match by {
                By::Futex => {
                    futex::wait(&self.woken, seen, Scope::Private, Nanos::FAR_FUTURE);
                }
                By::Pipe => {
                    poll::wait_readable(reader.as_fd(), Nanos::FAR_FUTURE);
                }
            }
            let ran_at = tsc();
            let woken = self.woken.load(Ordering::Acquire);
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            if woken == seen {
                continue;
            }
            seen = woken;
            if by == By::Pipe {
                // It is readable, so this does not wait.
                let _ = reader.read(&mut [0; 64]);
            }
            self.ran_at.store(ran_at, Ordering::Relaxed);
            self.ran.store(woken, Ordering::Release);
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.words.stop.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // There is nothing to hear of its end.
            let _ = thread.join();
        }
    }
}
