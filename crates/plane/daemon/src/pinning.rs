//! Flows and groups that are pinned to a worker, and let go.
//!
//! A pin of a flow waits while groups move, and one to a worker that has not come yet until it has.
//! What a configuration wants is carried out a step a turn, so that a long list holds up no packet;
//! a step that has to wait does so behind all others.

use base::WorkerId;
use datapath::{AttachmentId, PinError};
use policy::Refused;

use crate::event_loop::EventLoop;
use crate::log;
use crate::pins::Pinned;

impl EventLoop {
    /// Carries out the next of what is wanted.
    pub(crate) fn carry_out_pins(&mut self) {
        let Some((what, worker)) = self.pins.next_step() else { return };
        let steering = self.dispatcher.steering();
        let is_here = |worker| steering.control().workers().active().contains(&worker);
        let may_come =
            steering.control().workers().active().len() < self.workers_wanted.count.into();
        if worker.is_some_and(|worker| !is_here(worker)) && may_come {
            return self.pins.step_waits();
        }
        let done = match worker {
            Some(worker) => self.pin(AttachmentId::OWN, what, worker),
            None => {
                self.unpin(AttachmentId::OWN, what);
                Ok(())
            }
        };
        match done {
            Err(PinError::Busy) => return self.pins.step_waits(),
            Err(why) => tracing::warn!(target: log::WORKERS, "{what} is not pinned: {why}"),
            Ok(()) => {}
        }
        self.pins.step_is_over();
    }

    /// Pins something of an application's, or of the own workers.
    ///
    /// # Errors
    /// It cannot be, or not now.
    pub(crate) fn pin(
        &mut self,
        app: AttachmentId,
        what: Pinned,
        worker: WorkerId,
    ) -> Result<(), PinError> {
        let hash = match what {
            Pinned::Flow(flow) => Some((flow, self.dispatcher.hash(&flow))),
            Pinned::Group(_) => None,
        };
        // Between the question and the answer it may have gone, with all its workers.
        let gone = PinError::Refused(Refused::Worker(worker));
        let steering = self.dispatcher.steering_of_mut(app).ok_or(gone)?;
        match (what, hash) {
            (_, Some((flow, hash))) => {
                steering.pin_flow(flow.id(), hash, worker)?;
                if app == AttachmentId::OWN {
                    self.pins.note(flow, Some(worker));
                }
                Ok(())
            }
            (Pinned::Group(group), _) if group.0 >= steering.table().groups() => {
                Err(PinError::Refused(Refused::NoGroup(group)))
            }
            (Pinned::Group(group), _) => {
                let (control, live) = steering.control_mut();
                control.pin(group, worker, live).map_err(PinError::Refused)
            }
            (Pinned::Flow(_), None) => Ok(()),
        }
    }

    /// Lets the policy decide again; false: it was not pinned.
    pub(crate) fn unpin(&mut self, app: AttachmentId, what: Pinned) -> bool {
        let hash = match what {
            Pinned::Flow(flow) => Some((flow, self.dispatcher.hash(&flow))),
            Pinned::Group(_) => None,
        };
        let Some(steering) = self.dispatcher.steering_of_mut(app) else { return false };
        match (what, hash) {
            (Pinned::Group(group), _) => steering.control_mut().0.unpin(group),
            (_, Some((flow, hash))) => {
                let was_pinned = steering.unpin_flow(flow.id(), hash);
                if app == AttachmentId::OWN {
                    self.pins.note(flow, None);
                }
                was_pinned
            }
            (Pinned::Flow(_), None) => false,
        }
    }
}
