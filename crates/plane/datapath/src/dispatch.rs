//! Step three: every frame of a classified batch goes to its worker, or is dropped and counted.

use base::Nanos;
use policy::Entry;
use port::Port;
use shm::Frame;
use wire::NotOurs;

use crate::classified::Classified;
use crate::counters::DispatchEvent;
use crate::dispatch_context::DispatchContext;
use crate::dispatcher::{Dispatcher, DispatcherPort};
use crate::listeners::Listeners;

impl<P: Port> Dispatcher<P> {
    /// Looks every group up first, so that the tables' misses overlap, then sends.
    #[inline]
    pub(crate) fn dispatch_batch(&mut self, index: usize, now: Nanos) {
        let Self {
            ports,
            pool,
            toeplitz: _,
            listeners,
            apps,
            sampler,
            batch,
            classified,
            owners,
            ring: _,
            captures: _,
        } = self;
        owners.clear();
        for (frame, class) in batch.iter().zip(&*classified) {
            let entry = match class {
                Classified::Flow(_, app) => apps.parts(*app),
                _ => None,
            };
            owners.push(
                entry.map_or(Entry::UNOWNED, |(steering, _)| {
                    steering.look_up(frame.meta().group, now)
                }),
            );
        }
        for ((mut frame, class), owner) in batch.drain(..).zip(&*classified).zip(&*owners) {
            if let Classified::Flow(key, app) = class
                && let Some((steering, counters)) = apps.parts(*app)
            {
                sampler.note(key, frame.meta().flow_hash, frame.meta().group, frame.len());
                steering.steer(frame, *owner, &mut DispatchContext { pool, counters, now });
                continue;
            }
            let mut context = DispatchContext { pool, counters: &mut apps.counters, now };
            match class {
                Classified::Flow(..) | Classified::NotListening => {
                    context.drop(frame, DispatchEvent::NotListening);
                }
                Classified::ForAnotherHost => context.drop(frame, DispatchEvent::OtherHost),
                Classified::BadChecksum => context.drop(frame, DispatchEvent::BadChecksum),
                Classified::Malformed(reason) => context.drop(frame, *reason),
                Classified::NotOurs(reason) => {
                    if answer(&mut ports[index], listeners, &mut frame, *reason) {
                        context.counters.add(DispatchEvent::ArpAnswered, 1);
                        ports[index].backlog.push(frame);
                    } else {
                        context.drop(frame, *reason);
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
    dispatcher_port: &mut DispatcherPort<P>,
    listeners: &Listeners,
    frame: &mut Frame,
    reason: NotOurs,
) -> bool {
    dispatcher_port.answers_arp
        && !dispatcher_port.backlog.is_full()
        && listeners.answer(frame, reason, dispatcher_port.stations.own())
}
