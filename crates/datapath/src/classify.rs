//! Step two: what each frame is, and, if it is a flow's, which group steers it.

use arrayvec::ArrayVec;
use base::{BURST, ChecksumState, Nanos, PortId};
use port::Port;
use shm::Frame;
use wire::{FlowKey, Malformed, NotOurs, Outcome, checksum};

use crate::counters::DispatchEvent;
use crate::dispatcher::Dispatcher;
use crate::ground::Ground;

/// What a frame of the batch in hand is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Classified {
    /// A packet for somebody here.
    Flow(FlowKey),
    NotListening,
    BadChecksum,
    NotOurs(NotOurs),
    Malformed(Malformed),
}

impl<P: Port> Dispatcher<P> {
    /// Looks at every frame of the batch before any is sent on: parsing runs over 64 packets in a
    /// row while the tables' lines are on their way.
    #[inline]
    pub(crate) fn classify_batch(&mut self, index: usize) {
        let Self { ports, toeplitz, listeners, steering, batch, classified, .. } = self;
        let trust_link = ports[index].trust_link;
        classified.clear();
        for frame in batch.iter_mut() {
            let verdict = match wire::classify(frame.bytes()) {
                Outcome::Flow(flow) => {
                    if !listeners.serves(&flow.key) {
                        Classified::NotListening
                    } else if !trust_link
                        && frame.meta().checksum != ChecksumState::Verified
                        && !checksum::verify(frame.bytes(), &flow)
                    {
                        Classified::BadChecksum
                    } else {
                        let hash = toeplitz.hash(&flow.key);
                        let meta = frame.meta_mut();
                        meta.checksum = if trust_link {
                            ChecksumState::Partial
                        } else {
                            ChecksumState::Verified
                        };
                        // The answer leaves by the port that the packet came by, as we number it.
                        meta.port = PortId(index as u16);
                        meta.flow_hash = hash;
                        meta.group = steering.group_of(hash, || flow.key.id());
                        meta.l3_offset = flow.l3_offset;
                        meta.l4_offset = flow.l4_offset;
                        Classified::Flow(flow.key)
                    }
                }
                Outcome::NotOurs(reason) => Classified::NotOurs(reason),
                Outcome::Malformed(reason) => Classified::Malformed(reason),
            };
            classified.push(verdict);
        }
    }

    /// Step three: every frame of the batch goes to its worker, or is dropped and counted.
    #[inline]
    pub(crate) fn dispatch_batch(&mut self, index: usize, now: Nanos) {
        let mut batch: ArrayVec<Frame, BURST> = std::mem::take(&mut self.batch);
        let classified = std::mem::take(&mut self.classified);
        for (frame, class) in batch.drain(..).zip(&classified) {
            let Self { pool, counters, steering, sampler, .. } = self;
            let mut ground = Ground { pool, counters, now };
            match class {
                Classified::Flow(key) => {
                    sampler.note(key, frame.meta().flow_hash, frame.meta().group, frame.len());
                    steering.steer(frame, &mut ground);
                }
                Classified::NotListening => ground.drop(frame, DispatchEvent::NotListening),
                Classified::BadChecksum => ground.drop(frame, DispatchEvent::BadChecksum),
                Classified::Malformed(reason) => ground.drop(frame, *reason),
                Classified::NotOurs(reason) => self.not_ours(frame, *reason, index, now),
            }
        }
        self.classified = classified;
        self.batch = batch;
    }

    /// Somebody else's packet. Where no kernel stands behind the port, questions for our link
    /// address are ours to answer.
    #[cold]
    fn not_ours(&mut self, mut frame: Frame, reason: NotOurs, index: usize, now: Nanos) {
        let lane = &mut self.ports[index];
        if lane.answers_arp
            && !lane.backlog.is_full()
            && self.listeners.answer(&mut frame, reason, lane.mac)
        {
            self.counters.add(DispatchEvent::ArpAnswered, 1);
            lane.backlog.push(frame);
            return;
        }
        let Self { pool, counters, .. } = self;
        Ground { pool, counters, now }.drop(frame, reason);
    }
}
