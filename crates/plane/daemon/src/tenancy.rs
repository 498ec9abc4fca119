//! Attaches and detaches applications in the event loop, and records why.
//!
//! Nothing here allocates much, prints or frees memory that was mapped: that is the attach server's
//! work.

use base::Nanos;
use datapath::{AttachmentId, DetachReason};

use crate::apps::Arrival;
use crate::event_loop::EventLoop;

impl EventLoop {
    /// An application comes in, or comes back with the reason why not.
    pub(crate) fn attach(
        &mut self,
        arrival: Arrival,
    ) -> Result<AttachmentId, Box<(String, Arrival)>> {
        let Arrival { app_dispatch, facts, eventfd, keeping } = arrival;
        let refuse = |why: String, app_dispatch, facts, eventfd| {
            // Its core grants are of no use to anybody.
            Err(Box::new((why, Arrival { app_dispatch, facts, eventfd, keeping: None })))
        };
        let app = match self.dispatcher.attach(app_dispatch) {
            Ok(app) => app,
            Err((refused, app_dispatch)) => {
                return refuse(refused.to_string(), app_dispatch, facts, eventfd);
            }
        };
        let kept = match (&mut self.cores, keeping) {
            (Some(cores), Some(keeping)) => {
                cores.add(app, keeping, sys::clock::now(), &mut self.dispatcher)
            }
            _ => Ok(()),
        };
        if let Err(refused) = kept {
            let now = sys::clock::now();
            if let Some(app_dispatch) = self.dispatcher.detach(app, DetachReason::Operator, now) {
                return refuse(refused.to_string(), app_dispatch, facts, eventfd);
            }
        }
        self.attached_apps.add(app, facts, eventfd);
        Ok(app)
    }

    /// Detaches an application; nothing when it is gone already.
    pub(crate) fn detach(&mut self, app: AttachmentId, reason: DetachReason, now: Nanos) {
        if let Some(cores) = &mut self.cores {
            cores.remove(app, now, &mut self.dispatcher);
        }
        if let Some(app_dispatch) = self.dispatcher.detach(app, reason, now) {
            self.attached_apps.remove(app, reason, app_dispatch);
        }
    }

    /// Detaches those that have violated the protocol or stalled.
    pub(crate) fn evict(&mut self, now: Nanos) {
        while let Some((app, reason)) = self.dispatcher.next_fault() {
            self.detach(app, reason, now);
        }
    }

    /// Everybody out: the daemon ends.
    pub(crate) fn detach_all(&mut self, now: Nanos) {
        let all: Vec<AttachmentId> = self.dispatcher.apps().collect();
        for app in all {
            self.detach(app, DetachReason::DaemonEnds, now);
        }
    }
}
