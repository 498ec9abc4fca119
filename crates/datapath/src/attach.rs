//! Applications come and go: what the host tells the dispatcher and asks of it.

use base::Nanos;
use policy::Control;
use port::Port;
use shm::app::AppServer;

use crate::app::{AppId, DetachReason, Guest, NewApp};
use crate::counters::CounterReader;
use crate::dispatcher::{Dispatcher, flow_id};
use crate::listeners::{Listeners, Taken};
use crate::steering::Steering;

/// An application cannot be attached.
#[derive(Debug)]
pub enum AttachRefused {
    /// Somebody listens where it wants to.
    Taken(Taken),
    /// There are as many as can be.
    TooMany,
    /// Its number of groups is not possible.
    Groups(policy::GroupCountError),
}

impl std::fmt::Display for AttachRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Taken(taken) => taken.fmt(f),
            Self::TooMany => f.write_str("as many applications as can be are attached"),
            Self::Groups(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AttachRefused {}

impl<P: Port> Dispatcher<P> {
    /// Takes an application up: from now on it gets what it listens for.
    ///
    /// # Errors
    /// It cannot be; nothing has changed.
    pub fn attach(
        &mut self,
        new: NewApp,
        control: impl FnOnce(usize) -> Control,
    ) -> Result<AppId, AttachRefused> {
        let id = self.apps.next_id().ok_or(AttachRefused::TooMany)?;
        let listeners = new.listeners.clone();
        self.listeners.add(id, &listeners).map_err(AttachRefused::Taken)?;
        match Guest::new(id, new, flow_id, control) {
            Ok(guest) => {
                self.apps.insert(guest);
                Ok(id)
            }
            Err(error) => {
                self.listeners.remove(id);
                Err(AttachRefused::Groups(error))
            }
        }
    }

    /// Ends an attachment: what it listened on is free, what was under way for it is dropped and
    /// counted. Its last counters, or `None` when it was not there.
    pub fn detach(
        &mut self,
        app: AppId,
        reason: DetachReason,
        now: Nanos,
    ) -> Option<CounterReader> {
        let guest = self.apps.remove(app)?;
        self.listeners.remove(app);
        let counters = guest.counters.reader();
        guest.close(reason, &mut self.pool, now);
        Some(counters)
    }

    /// An application that must be detached, and why. To be asked after each step.
    pub fn next_fault(&self) -> Option<(AppId, DetachReason)> {
        self.apps.next_fault()
    }

    /// The attached applications.
    pub fn apps(&self) -> impl Iterator<Item = AppId> {
        self.apps.guests().map(|guest| guest.id)
    }

    /// Tables, hand-overs, policy of an application.
    pub fn steering_of(&self, app: AppId) -> Option<&Steering> {
        self.apps.steering(app)
    }

    /// The same, to be instructed.
    pub fn steering_of_mut(&mut self, app: AppId) -> Option<&mut Steering> {
        self.apps.parts(app).map(|(steering, _)| steering)
    }

    /// What is counted for an application.
    pub fn counters_of(&self, app: AppId) -> Option<CounterReader> {
        match app {
            AppId::OWN => Some(self.counters()),
            app => self.apps.guest(app).map(|guest| guest.counters.reader()),
        }
    }

    /// The memory of an application.
    pub fn memory_of(&self, app: AppId) -> Option<&AppServer> {
        self.apps.guest(app)?.steering.app().map(|side| side.server())
    }

    /// Who listens where.
    pub fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    /// The host is about to sleep: every application is to ring when it says something. Look at
    /// [`Dispatcher::has_work`] once more after this.
    pub fn arm_apps(&self) {
        for guest in self.apps.guests() {
            if let Some(side) = guest.steering.app() {
                side.server().arm();
            }
        }
    }

    /// The host is awake.
    pub fn disarm_apps(&self) {
        for guest in self.apps.guests() {
            if let Some(side) = guest.steering.app() {
                side.server().disarm();
            }
        }
    }
}
