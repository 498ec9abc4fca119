//! A wake-up that costs a system call only when somebody sleeps.
//!
//! Sleeper: [`Doorbell::arm`], look once more whether there is work, then sleep by whatever means
//! (park, poll), then [`Doorbell::disarm`]. Ringer: publish the work, then [`Doorbell::ring`], and
//! wake the sleeper by its means only when that says so. The two fences make it impossible that
//! the sleeper misses the work *and* the ringer misses the sleeper.

use crate::sync::{AtomicBool, Ordering, OwnLine, fence};

/// Whether the consumer of some queues sleeps.
#[derive(Debug, Default)]
pub struct Doorbell {
    sleeping: OwnLine<AtomicBool>,
}

impl Doorbell {
    /// Nobody sleeps.
    pub fn new() -> Self {
        Self { sleeping: OwnLine(AtomicBool::new(false)) }
    }

    /// The consumer is about to sleep. It must look for work once more before it does.
    pub fn arm(&self) {
        self.sleeping.0.store(true, Ordering::Relaxed);
        // Pairs with the fence in `ring`: either our next look sees the published work, or the
        // ringer sees `sleeping`.
        fence(Ordering::SeqCst);
    }

    /// The consumer is awake.
    pub fn disarm(&self) {
        self.sleeping.0.store(false, Ordering::Relaxed);
    }

    /// Work was published: whether the caller must wake the consumer. True once per sleep.
    #[inline]
    #[must_use]
    pub fn ring(&self) -> bool {
        // Pairs with the fence in `arm`.
        fence(Ordering::SeqCst);
        self.sleeping.0.load(Ordering::Relaxed) && self.sleeping.0.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    #[cfg(not(loom))]
    #[test]
    fn only_a_sleeper_costs_a_wake_and_only_one() {
        let bell = super::Doorbell::new();
        assert!(!bell.ring());
        bell.arm();
        assert!(bell.ring());
        assert!(!bell.ring());
        bell.arm();
        bell.disarm();
        assert!(!bell.ring());
    }

    #[cfg(loom)]
    #[test]
    fn loom_no_wake_up_is_lost() {
        use loom::sync::Arc;

        loom::model(|| {
            let bell = Arc::new(super::Doorbell::new());
            let (mut producer, mut consumer) = crate::ring(2);
            let ringer = Arc::clone(&bell);
            let writer = loom::thread::spawn(move || {
                assert!(producer.push(7).is_ok());
                ringer.ring()
            });
            bell.arm();
            let seen = consumer.pop().is_some();
            let rung = writer.join().expect("the writer only pushes and rings");
            assert!(seen || rung, "the sleeper would sleep for ever");
        });
    }
}
