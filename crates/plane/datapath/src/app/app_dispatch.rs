//! One attached application in the dispatcher: its own table, policy, workers and counters.

use std::sync::Arc;

use base::{Nanos, WorkerId};
use policy::Control;
use shm::FramePool;
use shm::packets::{PacketQueue, PacketServer};

use crate::app::{AppLimits, AppSide, AttachmentId, DetachReason, Egress};
use crate::counters::{CounterReader, CounterWriter};
use crate::dispatch_context::DispatchContext;
use crate::flow_id::flow_id;
use crate::listeners::Listener;
use crate::steering::{Steering, SteeringConfig};
use crate::worker_queue::Wake;

/// Everything that an attachment needs, made before the dispatcher hears of it.
pub struct NewApp {
    /// Its memory.
    pub server: PacketServer,
    /// A worker queue and a way to wake it for each of its workers.
    pub workers: Vec<(PacketQueue, Wake)>,
    /// What it listens on.
    pub listeners: Vec<Listener>,
    /// What it may send.
    pub egress: Egress,
    /// What it may use.
    pub limits: AppLimits,
    /// Its table and hand-overs: `migrate.slots + workers_max` must be the hand-overs of its
    /// memory.
    pub steering: SteeringConfig,
}

/// An application with everything made, its tables included, so that taking it up costs the data
/// loop next to nothing; and what is left of it when it is gone, to be dropped wherever that may
/// take its time.
pub struct AppDispatch {
    pub(crate) id: AttachmentId,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) steering: Steering,
    pub(crate) counters: CounterWriter,
}

impl AppDispatch {
    /// A table of its own, steered by `control`, and a worker queue for each of its workers.
    ///
    /// # Errors
    /// The number of groups is not possible.
    pub fn new(
        new: NewApp,
        control: impl FnOnce(usize) -> Control,
    ) -> Result<Self, policy::GroupCountError> {
        let NewApp { server, workers, listeners, egress, limits, steering } = new;
        let side = AppSide::new(server, egress, &limits);
        let mut steering = Steering::for_app(steering, flow_id, control, side)?;
        let (worker_queues, wakes): (Vec<_>, Vec<_>) = workers.into_iter().unzip();
        let wakes: Arc<[Wake]> = wakes.into();
        for (worker_queue, worker) in worker_queues.into_iter().zip(0..) {
            steering.add_app_worker(WorkerId(worker), worker_queue, Arc::clone(&wakes));
        }
        // The dispatcher gives it its id.
        Ok(Self { id: AttachmentId::OWN, listeners, steering, counters: CounterWriter::new() })
    }

    /// What it listens on.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// What was counted for it, to read from any thread.
    pub fn counters(&self) -> CounterReader {
        self.counters.reader()
    }

    /// The end of the attachment: it is told, and what was held for it goes home.
    pub(crate) fn close(&mut self, reason: DetachReason, pool: &mut FramePool, now: Nanos) {
        if let Some(side) = self.steering.app() {
            side.server().detach(reason.code());
        }
        self.steering.close(&mut DispatchContext { pool, counters: &mut self.counters, now });
    }
}
