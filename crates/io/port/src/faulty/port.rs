//! A port behind a bad wire.

use std::os::fd::BorrowedFd;

use base::Nanos;
use shm::{Batch, FramePool};

use super::{ImpairmentError, Impairments, Line, LineCounters};
use crate::{Capabilities, Fault, Filter, Judge, OpenError, Port, PortCounters};

/// Any port, with a bad wire in front of each direction.
pub struct Faulty<P> {
    inner: P,
    /// What arrives passes here before it is received.
    receive: Line,
    /// What is transmitted passes here before it leaves.
    transmit: Line,
    /// Between the inner port and the receive line; empty between calls.
    arrived: Batch,
    /// Due to leave, but the inner port was full.
    leaving: Batch,
    capabilities: Capabilities,
}

impl<P: Port> Faulty<P> {
    /// Puts `receive` before what `inner` receives and `transmit` before what it transmits.
    ///
    /// # Errors
    /// Impairments that are not possible.
    pub fn new(
        inner: P,
        receive: Impairments,
        transmit: Impairments,
    ) -> Result<Self, ImpairmentError> {
        let mut capabilities = inner.capabilities().clone();
        capabilities.mode = format!("{} {}, faulty", capabilities.kind, capabilities.mode);
        capabilities.kind = "faulty";
        // Each packet has its own fate.
        capabilities.cuts_segments = false;
        Ok(Self {
            inner,
            receive: Line::new(receive)?,
            transmit: Line::new(transmit)?,
            arrived: Batch::new(),
            leaving: Batch::new(),
            capabilities,
        })
    }

    /// What happened to packets on their way in.
    pub fn receive_counters(&self) -> &LineCounters {
        self.receive.counters()
    }

    /// What happened to packets on their way out.
    pub fn transmit_counters(&self) -> &LineCounters {
        self.transmit.counters()
    }

    /// The port below.
    pub(crate) fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    /// The port behind the wire.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// Passes on what is due to leave, as far as the inner port takes it.
    fn push_out(&mut self, pool: &mut FramePool, now: Nanos) {
        loop {
            self.transmit.release(&mut self.leaving, now);
            if self.leaving.is_empty() || self.inner.tx(pool, &mut self.leaving, now) == 0 {
                return;
            }
        }
    }
}

impl<P: Port> Port for Faulty<P> {
    fn rx(&mut self, pool: &mut FramePool, batch: &mut Batch, now: Nanos) -> usize {
        self.push_out(pool, now);
        self.inner.rx(pool, &mut self.arrived, now);
        for frame in self.arrived.drain(..) {
            self.receive.offer(pool, frame, now);
        }
        let first = batch.len();
        let received = self.receive.release(batch, now);
        for frame in &mut batch[first..] {
            frame.meta_mut().received_at = now;
        }
        received
    }

    fn tx(&mut self, pool: &mut FramePool, batch: &mut Batch, now: Nanos) -> usize {
        let count = batch.len();
        for frame in batch.drain(..) {
            self.transmit.offer(pool, frame, now);
        }
        self.push_out(pool, now);
        count
    }

    fn set_filter(&mut self, filter: Option<&Filter>) -> Result<Judge, OpenError> {
        self.inner.set_filter(filter)
    }

    fn flush(&mut self, pool: &mut FramePool, now: Nanos) {
        self.push_out(pool, now);
        self.inner.flush(pool, now);
    }

    fn prepare_wait(&mut self, pool: &mut FramePool) {
        self.inner.prepare_wait(pool);
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.poll_fd()
    }

    fn next_deadline(&self) -> Nanos {
        let lines = self.receive.next_deadline().min(self.transmit.next_deadline());
        let leaving = if self.leaving.is_empty() { Nanos::FAR_FUTURE } else { Nanos::ZERO };
        lines.min(leaving).min(self.inner.next_deadline())
    }

    fn fault(&self) -> Option<Fault> {
        self.inner.fault()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn counters(&self) -> PortCounters {
        self.inner.counters()
    }

    fn close(&mut self, pool: &mut FramePool) {
        self.receive.clear(pool);
        self.transmit.clear(pool);
        self.leaving.drain(..).for_each(|frame| pool.give(frame));
        self.inner.close(pool);
    }
}

#[cfg(test)]
mod tests {
    use shm::PoolConfig;

    use super::*;
    use crate::memory;

    fn pool() -> FramePool {
        let config = PoolConfig { frames: 128, chunk_bytes: 2048, ..PoolConfig::default() };
        FramePool::new(config).expect("a small pool")
    }

    fn delayed(delay: u64) -> Impairments {
        Impairments { delay: Nanos(delay), ..Impairments::default() }
    }

    fn send(port: &mut impl Port, pool: &mut FramePool, count: u8, now: Nanos) {
        let mut batch = Batch::new();
        for index in 0..count {
            let mut frame = pool.take().expect("the pool is large enough");
            assert!(frame.fill(&[index; 60]));
            batch.push(frame);
        }
        assert_eq!(port.tx(pool, &mut batch, now), usize::from(count));
    }

    fn receive(port: &mut impl Port, pool: &mut FramePool, now: Nanos) -> Vec<u8> {
        let mut batch = Batch::new();
        port.rx(pool, &mut batch, now);
        batch
            .drain(..)
            .map(|frame| {
                assert_eq!(frame.meta().received_at, now);
                let number = frame.bytes()[0];
                pool.give(frame);
                number
            })
            .collect()
    }

    #[test]
    fn each_direction_has_its_own_delay_and_the_deadline_tells_the_next() {
        let mut pool = pool();
        let (a, mut b) = memory::wire(64);
        let mut a = Faulty::new(a, delayed(10), delayed(100)).expect("possible");
        send(&mut a, &mut pool, 3, Nanos(1000));
        assert_eq!(a.next_deadline(), Nanos(1100));
        assert!(receive(&mut b, &mut pool, Nanos(1099)).is_empty());
        a.flush(&mut pool, Nanos(1100));
        assert_eq!(receive(&mut b, &mut pool, Nanos(1100)), [0, 1, 2]);

        send(&mut b, &mut pool, 2, Nanos(2000));
        assert!(receive(&mut a, &mut pool, Nanos(2000)).is_empty());
        assert_eq!(a.next_deadline(), Nanos(2010));
        assert_eq!(receive(&mut a, &mut pool, Nanos(2010)), [0, 1]);
        assert_eq!(a.next_deadline(), Nanos::FAR_FUTURE);
        assert_eq!(a.receive_counters().delivered, 2);
        assert_eq!(pool.outstanding(), 0);
    }

    #[test]
    fn what_a_full_port_refuses_leaves_later_in_order() {
        let mut pool = pool();
        let (a, mut b) = memory::wire(4);
        let perfect = Impairments::default;
        let mut a = Faulty::new(a, perfect(), perfect()).expect("possible");
        send(&mut a, &mut pool, 10, Nanos(1));
        assert_eq!(a.next_deadline(), Nanos::ZERO, "six are due and could not leave");
        let mut all = receive(&mut b, &mut pool, Nanos(2));
        for now in 3..5 {
            a.flush(&mut pool, Nanos(now));
            all.extend(receive(&mut b, &mut pool, Nanos(now)));
        }
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        assert_eq!(pool.outstanding(), 0);
    }

    #[test]
    fn closing_gives_back_what_is_under_way() {
        let mut pool = pool();
        let (a, mut b) = memory::wire(4);
        let mut a = Faulty::new(a, delayed(10), delayed(10)).expect("possible");
        send(&mut a, &mut pool, 10, Nanos(1));
        send(&mut b, &mut pool, 4, Nanos(1));
        assert!(receive(&mut a, &mut pool, Nanos(1)).is_empty());
        a.flush(&mut pool, Nanos(11));
        a.close(&mut pool);
        b.close(&mut pool);
        assert_eq!(pool.outstanding(), 0);
    }

    #[test]
    fn it_says_what_it_is_made_of() {
        let (a, _b) = memory::wire(4);
        let a = Faulty::new(a, delayed(1), delayed(1)).expect("possible");
        assert_eq!(a.capabilities().kind, "faulty");
        assert!(a.capabilities().mode.contains("memory"), "{}", a.capabilities().mode);
    }
}
