//! A wake-up that costs a system call only when a thread sleeps.
//!
//! Sleeper: [`Doorbell::arm`], look once more whether there is work, then sleep by whatever means
//! (park, poll), then [`Doorbell::disarm`]. Ringer: publish the work, then [`Doorbell::ring`], and
//! wake the sleeper by its means only when that says so. The two fences make it impossible that
//! the sleeper misses the work *and* the ringer misses the sleeper.

use crate::sync::{AtomicU32, Ordering, OwnLine, fence};

/// Whether the consumer of some queues sleeps.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Doorbell {
    sleeping: OwnLine<AtomicU32>,
}

impl Doorbell {
    /// A doorbell on which no thread sleeps.
    pub fn new() -> Self {
        Self { sleeping: OwnLine(AtomicU32::new(0)) }
    }

    /// The consumer is about to sleep. It must look for work once more before it does.
    pub fn arm(&self) {
        arm(&self.sleeping.0);
    }

    /// The consumer is awake.
    pub fn disarm(&self) {
        disarm(&self.sleeping.0);
    }

    /// The word itself, not zero while the consumer sleeps: for a futex.
    #[cfg(not(loom))]
    pub fn word(&self) -> &AtomicU32 {
        &self.sleeping.0
    }

    /// Work was published: whether the caller must wake the consumer. True once per sleep.
    #[inline]
    #[must_use]
    pub fn ring(&self) -> bool {
        ring(&self.sleeping.0)
    }
}

/// The protocol on a bare word, which may lie in memory of two processes: anything but zero means
/// that the consumer sleeps. A peer that writes nonsense there costs itself a wake-up.
pub(crate) fn arm(sleeping: &AtomicU32) {
    sleeping.store(1, Ordering::Relaxed);
    // Pairs with the fence in `ring`: either our next look sees the published work, or the
    // ringer sees `sleeping`.
    fence(Ordering::SeqCst);
}

pub(crate) fn disarm(sleeping: &AtomicU32) {
    sleeping.store(0, Ordering::Relaxed);
}

#[inline]
#[must_use]
pub(crate) fn ring(sleeping: &AtomicU32) -> bool {
    // Pairs with the fence in `arm`.
    fence(Ordering::SeqCst);
    take(sleeping)
}

/// The second half of [`ring`], for a caller that has made the fence.
#[inline]
#[must_use]
pub(crate) fn take(sleeping: &AtomicU32) -> bool {
    sleeping.load(Ordering::Relaxed) != 0 && sleeping.swap(0, Ordering::Relaxed) != 0
}

#[cfg(test)]
mod tests {
    #[cfg(not(loom))]
    #[test]
    fn only_a_sleeper_costs_a_wake_and_only_one() {
        let doorbell = super::Doorbell::new();
        assert!(!doorbell.ring());
        doorbell.arm();
        assert!(doorbell.ring());
        assert!(!doorbell.ring());
        doorbell.arm();
        doorbell.disarm();
        assert!(!doorbell.ring());
    }

    #[cfg(loom)]
    #[test]
    fn loom_no_wake_up_is_lost() {
        use loom::sync::Arc;

        loom::model(|| {
            let doorbell = Arc::new(super::Doorbell::new());
            let (mut producer, mut consumer) = crate::ring(2);
            let ringer = Arc::clone(&doorbell);
            let writer = loom::thread::spawn(move || {
                assert!(producer.push(7).is_ok());
                ringer.ring()
            });
            doorbell.arm();
            let seen = consumer.pop().is_some();
            let rung = writer.join().expect("the writer only pushes and rings");
            assert!(seen || rung, "the sleeper would sleep for ever");
        });
    }
}
