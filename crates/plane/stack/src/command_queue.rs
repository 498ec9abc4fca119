//! Between the daemon's slow side and the workers that serve sockets.
//!
//! The slow side resolves, reserves and permits; what is then to be done goes to every worker's
//! mailbox, and what workers have to say about sockets comes back by a ring of each. Connections
//! are opened and closed here, payload never passes: a worker looks at one word a turn to see that
//! there is no commands.

mod command;
mod post;
mod shared;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use base::{AppId, SlotId, WorkerId};
use shm::ring;

use crate::eviction::Evicted;
use crate::for_kernel::ForKernel;
use crate::parcel::Parcel;
use crate::trace::{Sample, TraceLosses};

pub use command::{Command, LetGoRequest, Listening, SocketEvent};
pub(crate) use post::Post;
use shared::{Mailbox, Shared, State};

/// Events of one worker that nobody has heard yet, at most; more wait with the worker.
const EVENTS: usize = 4096;

/// Samples of one worker that nobody has taken yet, at most; more are lost, and counted.
const SAMPLES: usize = 512;

/// The slow side's end; clones are the same.
#[derive(Clone)]
pub struct CommandQueue {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for CommandQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CommandQueue")
    }
}

impl CommandQueue {
    /// `wake` wakes all workers that sleep; `tell` wakes whoever calls [`Self::hear`].
    pub fn new(
        wake: impl Fn() + Send + Sync + 'static,
        tell: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self { shared: Arc::new(Shared::new(wake, tell)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    /// Tells all workers; each finds out whether it concerns it. A connection to be opened goes to
    /// the worker that its packets will go to: the dispatcher finds it
    /// ([`Self::next_connect_probe`]).
    pub fn command(&self, command: &Command) {
        let mut state = self.state();
        if let Command::Connect { local, remote, .. } = command {
            state.opens.push(command.clone());
            state.connect_probes.push_back((*local, *remote));
            self.shared.has_connect_probes.store(true, Ordering::Release);
            drop(state);
            return (self.shared.wake)();
        }
        state.remember(command);
        for (_, mailbox) in &state.boxes {
            mailbox.commands().push_back(command.clone());
            mailbox.has_any.store(true, Ordering::Release);
        }
        drop(state);
        (self.shared.wake)();
    }

    /// Takes back a connection that is to be opened and that no worker has begun with. False: one
    /// has, or there is none.
    pub fn withdraw(&self, app: AppId, slot: SlotId) -> bool {
        let mut state = self.state();
        let at = state.opens.iter().position(|other| other.socket() == Some((app, slot)));
        at.map(|at| state.opens.swap_remove(at)).is_some()
    }

    /// For the dispatcher: the next connection whose worker is to be found, own address first.
    #[inline]
    pub fn next_connect_probe(&self) -> Option<(SocketAddr, SocketAddr)> {
        if !self.shared.has_connect_probes.load(Ordering::Relaxed) {
            return None;
        }
        let mut state = self.state();
        let connect_probe = state.connect_probes.pop_front();
        self.shared.has_connect_probes.store(!state.connect_probes.is_empty(), Ordering::Release);
        connect_probe
    }

    /// There was no frame for a connect probe: it is next again.
    pub fn put_back(&self, connect_probe: (SocketAddr, SocketAddr)) {
        self.shared.put_back(connect_probe);
    }

    /// Whether every worker has taken all that it was told: what comes to it from now on finds it
    /// done.
    pub fn is_heeded(&self) -> bool {
        self.state().boxes.iter().all(|(_, mailbox)| !mailbox.has_any.load(Ordering::Acquire))
    }

    /// Hears what workers have said since the last time.
    pub fn hear(&self, mut each: impl FnMut(SocketEvent)) {
        let mut state = self.state();
        let State { heard, last_words, closing, .. } = &mut *state;
        let said = heard.iter_mut().flat_map(|(_, worker)| std::iter::from_fn(|| worker.pop()));
        for event in last_words.drain(..).chain(said) {
            if let SocketEvent::Freed { app, slot, generation } = event {
                closing.remove(&(app, slot, generation));
            }
            each(event);
        }
    }

    /// Takes the rings that workers have taken from connections since the last time.
    pub fn take_evicted(&self) -> Vec<Evicted> {
        std::mem::take(&mut self.state().evicted)
    }

    /// Takes the connections that workers have let go of since the last time.
    pub fn take_parcels(&self) -> Vec<Parcel> {
        std::mem::take(&mut self.state().parcels)
    }

    /// Takes the ICMP errors that the kernel is to have and that have come since the last time.
    pub fn take_for_kernel(&self) -> Vec<ForKernel> {
        self.state().for_kernel.take()
    }

    /// Says whether any application is traced (`trace_one_in` of
    /// [`AppSockets`](crate::AppSockets)). Samples that nobody has taken go.
    pub fn trace(&self, is_on: bool) {
        drop(self.take_samples());
        self.shared.tracing.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Takes the samples that workers have finished since the last time: as many as find room with
    /// each, at most.
    pub fn take_samples(&self) -> Vec<Sample> {
        let mut state = self.state();
        let workers = state.sampled.iter_mut();
        workers.flat_map(|(_, of)| std::iter::from_fn(|| of.pop()).take(SAMPLES)).collect()
    }

    /// Samples that came to nothing.
    pub fn trace_losses(&self) -> TraceLosses {
        self.shared.tracing.losses()
    }

    /// The end of a worker; it replaces that of an earlier worker of the same number.
    pub(crate) fn post(&self, worker: WorkerId) -> Post {
        let (to_front, heard) = ring(EVENTS);
        let (samples, sampled) = ring(SAMPLES);
        let mailbox = Arc::new(Mailbox::default());
        let mut state = self.state();
        mailbox.commands().extend(state.standing.iter().cloned());
        if !state.stranded.is_empty() {
            mailbox.commands().push_back(Command::Adopt);
        }
        mailbox.has_any.store(true, Ordering::Release);
        state.boxes.retain(|(id, _)| *id != worker);
        state.boxes.push((worker, Arc::clone(&mailbox)));
        state.heard.push((Arc::clone(&mailbox), heard));
        state.sampled.push((Arc::clone(&mailbox), sampled));
        Post {
            mailbox,
            events: to_front,
            samples,
            waiting: VecDeque::new(),
            shared: Arc::clone(&self.shared),
        }
    }
}

#[cfg(test)]
mod tests;
