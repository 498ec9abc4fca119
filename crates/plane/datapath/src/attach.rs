//! Applications come and go: what the host tells the dispatcher and asks of it.

use std::sync::Arc;

use base::Nanos;
use port::Port;
use shm::packets::PacketServer;

use crate::app::{AppDispatch, AttachmentId, DetachReason};
use crate::counters::CounterReader;
use crate::dispatcher::Dispatcher;
use crate::listeners::{Listener, Listeners, Taken};
use crate::steering::Steering;

/// An application cannot be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachRefused {
    /// Somebody listens where it wants to.
    Taken(Taken),
    /// There are as many as can be.
    TooMany,
}

impl std::fmt::Display for AttachRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Taken(taken) => taken.fmt(f),
            Self::TooMany => f.write_str("as many applications as can be are attached"),
        }
    }
}

impl std::error::Error for AttachRefused {}

impl<P: Port> Dispatcher<P> {
    /// Takes an application up: from now on it gets what it listens for.
    ///
    /// # Errors
    /// It cannot be; it comes back, to be dropped elsewhere.
    pub fn attach(
        &mut self,
        mut app_dispatch: Box<AppDispatch>,
    ) -> Result<AttachmentId, (AttachRefused, Box<AppDispatch>)> {
        let Some(id) = self.apps.next_id() else {
            return Err((AttachRefused::TooMany, app_dispatch));
        };
        if let Err(taken) = self.listeners.add(id, &app_dispatch.listeners) {
            return Err((AttachRefused::Taken(taken), app_dispatch));
        }
        app_dispatch.id = id;
        let stations = self.ports.iter().map(|port| Arc::clone(&port.stations));
        app_dispatch.steering.follow(stations.collect());
        self.apps.insert(app_dispatch);
        Ok(id)
    }

    /// Ends an attachment: what it listened on is free, what was under way for it is dropped and
    /// counted. What is left of it comes back, to be dropped elsewhere; `None` when it was not
    /// there.
    pub fn detach(
        &mut self,
        app: AttachmentId,
        reason: DetachReason,
        now: Nanos,
    ) -> Option<Box<AppDispatch>> {
        let mut app_dispatch = self.apps.remove(app)?;
        self.listeners.remove(app);
        app_dispatch.close(reason, &mut self.pool, now);
        Some(app_dispatch)
    }

    /// An application that must be detached, and why. To be asked after each step.
    pub fn next_fault(&self) -> Option<(AttachmentId, DetachReason)> {
        self.apps.next_fault()
    }

    /// The attached applications.
    pub fn apps(&self) -> impl Iterator<Item = AttachmentId> {
        self.apps.attached_apps().map(|app_dispatch| app_dispatch.id)
    }

    /// Tables, hand-overs, policy of an application.
    pub fn steering_of(&self, app: AttachmentId) -> Option<&Steering> {
        self.apps.steering(app)
    }

    /// The same, to be instructed.
    pub fn steering_of_mut(&mut self, app: AttachmentId) -> Option<&mut Steering> {
        self.apps.parts(app).map(|(steering, _)| steering)
    }

    /// What is counted for an application.
    pub fn counters_of(&self, app: AttachmentId) -> Option<CounterReader> {
        match app {
            AttachmentId::OWN => Some(self.counters()),
            app => self.apps.app_dispatch(app).map(|app_dispatch| app_dispatch.counters.reader()),
        }
    }

    /// The memory of an application.
    pub fn memory_of(&self, app: AttachmentId) -> Option<&PacketServer> {
        self.apps.app_dispatch(app)?.steering.app().map(|side| side.server())
    }

    /// What the dispatcher's own workers serve from now on: all of it, or what they served before.
    ///
    /// # Errors
    /// An application has one of them.
    pub fn replace_own_listeners(&mut self, listeners: &[Listener]) -> Result<(), Taken> {
        self.listeners.replace_own(listeners)
    }

    /// Who listens where.
    pub fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    /// The host is about to sleep: every worker is to say when it has something, and every
    /// application to ring. Look at [`Dispatcher::has_work`] once more after this.
    pub fn arm_apps(&mut self) {
        self.apps.each_steering(Steering::arm);
        let sides =
            self.apps.attached_apps().filter_map(|app_dispatch| app_dispatch.steering.app());
        PacketServer::arm_all(sides.map(|side| side.server()));
    }

    /// The host is awake.
    pub fn disarm_apps(&self) {
        for app_dispatch in self.apps.attached_apps() {
            if let Some(side) = app_dispatch.steering.app() {
                side.server().disarm();
            }
        }
    }
}
