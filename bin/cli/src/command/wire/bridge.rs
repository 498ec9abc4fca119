//! Moves packets between two ports, each behind a bad wire, and sleeps when there are none.

use base::Nanos;
use port::faulty::{Faulty, LineCounters};
use port::{Fault, Port};
use shm::{Batch, FramePool};
use sys::poll::Waiter;

use super::open_checksum;

/// A timer of the kernel wakes us up to this much late (its default slack is 50 us), so a shorter
/// wait is spent polling: the wire's delays stay true.
const TOO_SHORT_TO_SLEEP: Nanos = Nanos::from_micros(60);

/// A port that nothing can be waited for (a file) is looked at this often.
const LOOK_AGAIN: Nanos = Nanos::from_micros(200);

/// Two ports and the packets between them.
pub(super) struct Bridge<P> {
    /// What leaves by an end passes that end's transmit line: A -> B is the second one's.
    ends: [Faulty<P>; 2],
    batch: Batch,
    completed: [u64; 2],
}

impl<P: Port> Bridge<P> {
    pub(super) fn new(a: Faulty<P>, b: Faulty<P>) -> Self {
        Self { ends: [a, b], batch: Batch::new(), completed: [0; 2] }
    }

    /// Moves up to a batch in each direction; whether anything arrived.
    pub(super) fn step(&mut self, pool: &mut FramePool, now: Nanos) -> bool {
        let [a, b] = &mut self.ends;
        let [there, back] = &mut self.completed;
        let arrived_at_a = pass(a, b, there, &mut self.batch, pool, now);
        let arrived_at_b = pass(b, a, back, &mut self.batch, pool, now);
        arrived_at_a || arrived_at_b
    }

    /// Sleeps until a packet arrives, one is due, or `until`.
    pub(super) fn wait(&mut self, pool: &mut FramePool, now: Nanos, until: Nanos) {
        let [a, b] = &mut self.ends;
        let due = until.min(a.next_deadline()).min(b.next_deadline());
        if due.since(now) < TOO_SHORT_TO_SLEEP {
            std::hint::spin_loop();
            return;
        }
        a.prepare_wait(pool);
        b.prepare_wait(pool);
        // What came before the ports were made ready would not wake us.
        if self.step(pool, now) {
            return;
        }
        let mut waiter = Waiter::new();
        let mut timeout = due.since(now) - TOO_SHORT_TO_SLEEP;
        for end in &self.ends {
            match end.poll_fd() {
                // A port that is down is always readable (with an error): do not spin on it.
                Some(fd) if end.fault().is_none() => {
                    assert!(waiter.add(fd), "two descriptors are fewer than a waiter takes");
                }
                _ => timeout = timeout.min(LOOK_AGAIN),
            }
        }
        waiter.wait(timeout);
    }

    /// Whether nothing more will come: a file has ended and what it gave has left.
    ///
    /// # Errors
    /// An end can never move anything again.
    pub(super) fn is_over(&self) -> Result<bool, String> {
        let mut over = false;
        for end in &self.ends {
            match end.fault() {
                // An interface that is down may be set up again: the wire stays.
                None | Some(Fault::Down) => {}
                Some(Fault::EndOfFile) => over = true,
                Some(fault) => {
                    return Err(format!("{}: {fault}", end.capabilities().name));
                }
            }
        }
        let idle = self.ends.iter().all(|end| end.next_deadline() == Nanos::FAR_FUTURE);
        Ok(over && idle)
    }

    /// What happened on the way A -> B, and B -> A.
    pub(super) fn lines(&self) -> [&LineCounters; 2] {
        let [a, b] = &self.ends;
        [b.transmit_counters(), a.transmit_counters()]
    }

    /// The ports below.
    pub(super) fn ports(&self) -> [&P; 2] {
        self.ends.each_ref().map(Faulty::inner)
    }

    /// Checksums that we had to complete, A -> B and B -> A.
    pub(super) fn checksums_completed(&self) -> [u64; 2] {
        self.completed
    }

    /// Gives every frame back.
    pub(super) fn close(&mut self, pool: &mut FramePool) {
        self.ends.iter_mut().for_each(|end| end.close(pool));
    }
}

/// Takes a batch from one end to the other; whether there was one.
fn pass<P: Port>(
    from: &mut Faulty<P>,
    to: &mut Faulty<P>,
    completed: &mut u64,
    batch: &mut Batch,
    pool: &mut FramePool,
    now: Nanos,
) -> bool {
    let arrived = from.rx(pool, batch, now) > 0;
    for frame in batch.iter_mut() {
        *completed += u64::from(open_checksum::complete(frame.bytes_mut()));
    }
    // A line takes every frame: what it cannot hold it drops and counts.
    to.tx(pool, batch, now);
    debug_assert!(batch.is_empty(), "a line takes every frame");
    to.flush(pool, now);
    arrived
}
