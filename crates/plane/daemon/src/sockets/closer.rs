//! Threads that close what applications have passed, one for each user.
//!
//! To close the last copy of a descriptor can take as long as whoever made it likes: a TCP socket
//! that lingers, a file of a file system that does not answer. So it happens where nobody waits,
//! and nobody else's waits behind it.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use sys::SysError;

use crate::confinement::Role;
use crate::payers::payer_of;
use crate::thread_pool::{PoolConfig, ThreadPool};

/// Things of one user that wait to be closed, at most, before whoever sends more is detached.
const WAITING_MAX: usize = 1024;

/// Threads that are kept although they have nothing to do.
const IDLE_MAX: usize = 16;

/// Threads at once, at most: each user's may wait for somebody else's file.
const THREADS_MAX: usize = 1024;

/// The ways to the threads.
pub(crate) struct Closer {
    threads: ThreadPool,
    /// Of users for whom no thread could be started.
    common: UserQueue,
    user_queues: BTreeMap<u32, UserQueue>,
}

/// One thread, which ends with this and what it has still to close.
struct UserQueue {
    sender: Sender<Box<dyn Any + Send>>,
    waiting: Arc<AtomicUsize>,
}

impl Closer {
    /// Starts the first thread.
    pub(crate) fn start() -> Result<Self, SysError> {
        let threads = ThreadPool::new(PoolConfig {
            name: "closer",
            role: Role::Closer,
            threads_max: THREADS_MAX,
            idle_max: IDLE_MAX,
        });
        let common = UserQueue::start(&threads).map_err(|error| {
            let errno = rustix::io::Errno::from_io_error(&error);
            let errno = errno.unwrap_or(rustix::io::Errno::AGAIN);
            SysError::new("start the thread that closes descriptors", errno, "")
        })?;
        Ok(Self { threads, common, user_queues: BTreeMap::new() })
    }

    /// Closes something that came from user `uid`, some time.
    pub(crate) fn close(&mut self, uid: u32, thing: impl Any + Send) {
        let uid = payer_of(uid);
        if !self.user_queues.contains_key(&uid) {
            if self.user_queues.len() >= IDLE_MAX {
                self.user_queues.retain(|_, user_queue| user_queue.waiting() > 0);
            }
            if let Ok(user_queue) = UserQueue::start(&self.threads) {
                self.user_queues.insert(uid, user_queue);
            }
        }
        self.user_queue(uid).close(thing);
    }

    /// Whether so much of a user's waits that it should send no more.
    pub(crate) fn is_full(&self, uid: u32) -> bool {
        self.user_queue(uid).waiting() > WAITING_MAX
    }

    fn user_queue(&self, uid: u32) -> &UserQueue {
        self.user_queues.get(&payer_of(uid)).unwrap_or(&self.common)
    }
}

impl UserQueue {
    fn start(threads: &ThreadPool) -> std::io::Result<Self> {
        let (sender, things) = channel::<Box<dyn Any + Send>>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&waiting);
        threads.run(move || {
            for thing in things {
                drop(thing);
                count.fetch_sub(1, Ordering::Release);
            }
        })?;
        Ok(Self { sender, waiting })
    }

    fn close(&self, thing: impl Any + Send) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Its thread lives as long as the sender.
        let _ = self.sender.send(Box::new(thing));
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    struct Slow(Sender<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            std::thread::sleep(Duration::from_millis(200));
            let _ = self.0.send(());
        }
    }

    #[test]
    fn what_is_slow_to_close_keeps_nobody_waiting() {
        let mut closer = Closer::start().expect("threads are left");
        let (closed, heard) = channel();
        let begun = Instant::now();
        for _ in 0..20 {
            closer.close(7, Slow(closed.clone()));
        }
        drop(closed);
        assert!(begun.elapsed() < Duration::from_secs(3), "it would take four seconds in a row");
        assert_eq!(heard.iter().count(), 20);
    }

    struct Stuck(std::sync::mpsc::Receiver<()>);

    impl Drop for Stuck {
        fn drop(&mut self) {
            let _ = self.0.recv();
        }
    }

    #[test]
    fn what_waits_of_one_container_of_roots_costs_another_nothing() {
        let _alone = crate::payers::testing::set("0:4220000000:131072");
        let [one, other] = [4_220_000_001, 4_220_065_537];
        let mut closer = Closer::start().expect("threads are left");
        let (held, until) = channel::<()>();
        closer.close(one, Stuck(until));
        (0..WAITING_MAX).for_each(|_| closer.close(one, ()));
        assert!(closer.is_full(one) && closer.is_full(one + 7) && !closer.is_full(other));
        drop(held);
    }

    #[test]
    fn whoever_sends_more_than_can_be_closed_is_told_and_nobody_else() {
        let mut closer = Closer::start().expect("threads are left");
        let (held, until) = channel::<()>();
        closer.close(7, Stuck(until));
        (1..WAITING_MAX).for_each(|_| closer.close(7, ()));
        assert!(!closer.is_full(7));
        closer.close(7, ());
        assert!(closer.is_full(7), "the stuck one counts");
        let (closed, heard) = channel();
        // Also when there are more users than threads are kept for.
        for uid in 8..8 + 3 * IDLE_MAX as u32 {
            closer.close(uid, Slow(closed.clone()));
        }
        drop(closed);
        assert_eq!(heard.iter().count(), 3 * IDLE_MAX);
        assert!(closer.is_full(7) && !closer.is_full(8));
        drop(held);
    }
}
