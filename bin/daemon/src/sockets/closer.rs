//! A thread that closes what applications have passed.
//!
//! To close the last copy of a descriptor can take as long as whoever made it likes: a TCP socket that lingers,
//! a file of a file system that does not answer. So it happens where nobody waits.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use sys::SysError;

/// Things that wait to be closed, at most, before whoever sends more is shown the door.
const WAITING_MAX: usize = 1024;

/// The way to the thread.
pub(crate) struct Closer {
    sender: Sender<Box<dyn Any + Send>>,
    waiting: Arc<AtomicUsize>,
}

impl Closer {
    /// Starts the thread, which ends with this.
    pub(crate) fn start() -> Result<Self, SysError> {
        let (sender, things) = channel::<Box<dyn Any + Send>>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&waiting);
        let thread = std::thread::Builder::new().name("closer".to_owned());
        // Not joined: at the daemon's end it may wait for somebody else's file.
        let started = thread.spawn(move || {
            for thing in things {
                drop(thing);
                count.fetch_sub(1, Ordering::Release);
            }
        });
        started.map_err(|error| {
            let errno = rustix::io::Errno::from_io_error(&error);
            let errno = errno.unwrap_or(rustix::io::Errno::AGAIN);
            SysError::new("start the thread that closes descriptors", errno, "")
        })?;
        Ok(Self { sender, waiting })
    }

    /// Closes it, some time.
    pub(crate) fn close(&self, thing: impl Any + Send) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Its thread lives as long as the sender.
        let _ = self.sender.send(Box::new(thing));
    }

    /// Whether so much waits that its sender should send no more.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > WAITING_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    struct Slow(Sender<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            std::thread::sleep(Duration::from_millis(20));
            let _ = self.0.send(());
        }
    }

    #[test]
    fn what_is_slow_to_close_keeps_nobody_waiting() {
        let closer = Closer::start().expect("threads are left");
        let (closed, heard) = channel();
        let begun = Instant::now();
        for _ in 0..50 {
            closer.close(Slow(closed.clone()));
        }
        drop(closed);
        assert!(begun.elapsed() < Duration::from_secs(1), "it would take a second in a row");
        assert_eq!(heard.iter().count(), 50);
    }

    #[test]
    fn whoever_sends_more_than_can_be_closed_is_told() {
        let closer = Closer::start().expect("threads are left");
        let (held, until) = channel::<()>();
        struct Stuck(std::sync::mpsc::Receiver<()>);
        impl Drop for Stuck {
            fn drop(&mut self) {
                let _ = self.0.recv();
            }
        }
        closer.close(Stuck(until));
        (1..WAITING_MAX).for_each(|_| closer.close(()));
        assert!(!closer.is_full());
        closer.close(());
        assert!(closer.is_full(), "the stuck one counts");
        drop(held);
    }
}
