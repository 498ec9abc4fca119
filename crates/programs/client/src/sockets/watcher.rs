//! A thread that watches one socket.
//!
//! Pollers are numbered by application, so a socket that came from another one (by SCM_RIGHTS, or
//! through exec) cannot be heard by a poller of ours; nor can a poller send the signals that a
//! program may want of a socket (O_ASYNC of fcntl(2)). Such sockets are few: each is watched by its
//! notify word.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use base::Nanos;
use sys::futex::{self, Scope, Woken};

use super::socket::Socket;

/// So often the thread looks whether it is still wanted, and the daemon lives.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);

/// Watches until it drops.
#[derive(Debug)]
pub struct Watcher {
    is_over: Arc<AtomicBool>,
}

impl Watcher {
    /// Calls `tell` now and whenever there may be news of `socket`. Nothing: no thread can be had.
    pub fn start(socket: Socket, tell: impl Fn() + Send + 'static) -> Option<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("calisto-watch".to_owned());
        let watched = Arc::clone(&is_over);
        thread
            .spawn(move || {
                // The program's signals are for its own threads.
                sys::signal::hold_all_back();
                watch(&socket, &watched, tell);
            })
            .ok()?;
        Some(Self { is_over })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
    }
}

fn watch(socket: &Socket, is_over: &AtomicBool, tell: impl Fn()) {
    while !is_over.load(Ordering::Acquire) {
        let Ok(slot) = socket.slot() else { return tell() };
        let notify_word = slot.words.notify_word.load(Ordering::Acquire);
        slot.words.sleepers.store(1, Ordering::Relaxed);
        // What came before this was said is told now; what comes after it rings the notify word.
        fence(Ordering::SeqCst);
        tell();
        let doze = || futex::wait(&slot.words.notify_word, notify_word, Scope::Shared, LOOK_EVERY);
        while doze() == Woken::TimedOut {
            if is_over.load(Ordering::Acquire) {
                return;
            }
            if !socket.session().is_alive() {
                return tell();
            }
        }
    }
}
