//! Step two: what each frame is, and, if it is a flow's, which group steers it.

use base::{ChecksumState, Nanos, PortId};
use policy::Entry;
use port::Port;
use shm::Frame;
use wire::{FlowKey, Malformed, NotOurs, Outcome, checksum};

use crate::counters::DispatchEvent;
use crate::dispatcher::{Dispatcher, PortLane};
use crate::ground::Ground;
use crate::listeners::Listeners;

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
        let Self {
            ports,
            pool,
            toeplitz: _,
            listeners,
            steering,
            sampler,
            counters,
            batch,
            classified,
            owners,
            ring: _,
        } = self;
        owners.clear();
        for (frame, class) in batch.iter().zip(&*classified) {
            owners.push(match class {
                Classified::Flow(_) => steering.look_up(frame.meta().group, now),
                _ => Entry::UNOWNED,
            });
        }
        let mut ground = Ground { pool, counters, now };
        for ((mut frame, class), owner) in batch.drain(..).zip(&*classified).zip(&*owners) {
            match class {
                Classified::Flow(key) => {
                    sampler.note(key, frame.meta().flow_hash, frame.meta().group, frame.len());
                    steering.steer(frame, *owner, &mut ground);
                }
                Classified::NotListening => ground.drop(frame, DispatchEvent::NotListening),
                Classified::BadChecksum => ground.drop(frame, DispatchEvent::BadChecksum),
                Classified::Malformed(reason) => ground.drop(frame, *reason),
                Classified::NotOurs(reason) => {
                    if answer(&mut ports[index], listeners, &mut frame, *reason) {
                        ground.counters.add(DispatchEvent::ArpAnswered, 1);
                        ports[index].backlog.push(frame);
                    } else {
                        ground.drop(frame, *reason);
                    }
                }
            }
        }
    }
}

/// Somebody else's packet. Where no kernel stands behind the port, questions for our link address
/// are ours to answer; true when the frame has become the answer and there is room to send it.
#[cold]
fn answer<P>(
    lane: &mut PortLane<P>,
    listeners: &Listeners,
    frame: &mut Frame,
    reason: NotOurs,
) -> bool {
    lane.answers_arp && !lane.backlog.is_full() && listeners.answer(frame, reason, lane.mac)
}
