//! What the slow side and the workers share: mailboxes one way, events the other.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{AppId, Generation, SlotId, WorkerId};
use shm::Consumer;

use super::command::{Command, SocketEvent};
use crate::app_sockets::AppSockets;
use crate::eviction::Evicted;
use crate::for_kernel::AllForKernel;
use crate::parcel::Parcel;
use crate::served::Conn;
use crate::trace::{Sample, Tracing};

/// What one worker is told.
#[derive(Default)]
pub(super) struct Mailbox {
    pub(super) has_any: AtomicBool,
    connect_probes: Mutex<VecDeque<Command>>,
}

impl Mailbox {
    pub(super) fn commands(&self) -> MutexGuard<'_, VecDeque<Command>> {
        self.connect_probes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the slow side remembers.
#[derive(Default)]
pub(super) struct State {
    pub(super) boxes: Vec<(WorkerId, Arc<Mailbox>)>,
    /// What each of them says.
    pub(super) heard: Vec<(Arc<Mailbox>, Consumer<SocketEvent>)>,
    /// Samples of requests from each of them.
    pub(super) sampled: Vec<(Arc<Mailbox>, Consumer<Sample>)>,
    /// What workers that have ended had said, and nobody had heard.
    pub(super) last_words: Vec<SocketEvent>,
    /// What a worker that comes later has to know: applications, listeners, UDP sockets.
    pub(super) standing: Vec<Command>,
    /// Connections to be opened, and those among them whose worker is yet to be found.
    pub(super) opens: Vec<Command>,
    pub(super) connect_probes: VecDeque<(SocketAddr, SocketAddr)>,
    /// Sockets that are to be closed and have not ended, by application, slot and generation: with
    /// a reset? For the worker that gets one which was between workers when it was told.
    pub(super) closing: BTreeMap<(AppId, SlotId, Generation), bool>,
    /// Rings that workers took from connections that nobody reads: no more than there are slots.
    pub(super) evicted: Vec<Evicted>,
    /// Connections that workers have let go of: no more than were asked for.
    pub(super) parcels: Vec<Parcel>,
    /// ICMP errors that the kernel is to have.
    pub(super) for_kernel: AllForKernel,
    /// Sockets of workers that have ended, without their flows: each connection is over, and its
    /// program has not closed it. As many as those workers had slots.
    pub(super) stranded: Vec<Stranded>,
}

/// A socket between two workers: its application, its slot and what a worker knows of it.
pub(super) type Stranded = (Arc<AppSockets>, SlotId, Conn);

/// What both sides hold.
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) tracing: Arc<Tracing>,
    /// There are connect probes.
    pub(super) has_connect_probes: AtomicBool,
    /// Says that a worker has commands.
    pub(super) wake: Box<dyn Fn() + Send + Sync>,
    /// Says that there are events.
    pub(super) tell: Box<dyn Fn() + Send + Sync>,
}

impl Shared {
    pub(super) fn new(
        wake: impl Fn() + Send + Sync + 'static,
        tell: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let (wake, tell) = (Box::new(wake), Box::new(tell));
        let has_connect_probes = AtomicBool::new(false);
        let (state, tracing) = (Mutex::default(), Arc::default());
        Self { state, tracing, has_connect_probes, wake, tell }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connect probe is to be sent, before all others.
    pub(super) fn put_back(&self, connect_probe: (SocketAddr, SocketAddr)) {
        self.state().connect_probes.push_front(connect_probe);
        self.has_connect_probes.store(true, Ordering::Release);
    }
}

impl State {
    /// What a worker that comes later has to know of a command.
    pub(super) fn remember(&mut self, command: &Command) {
        match command {
            Command::Bind(_) => {
                // Those that have ended since the last one came are nothing to be known.
                let is_over =
                    |other: &Command| matches!(other, Command::Bind(socket) if socket.is_over());
                self.standing.retain(|other| !is_over(other));
                self.standing.push(command.clone());
            }
            Command::Add(_) | Command::Listen(_) => self.standing.push(command.clone()),
            Command::Remove { app } => {
                self.standing.retain(|other| other.app() != Some(*app));
                self.opens.retain(|other| other.app() != Some(*app));
                self.closing.retain(|(other, ..), _| other != app);
            }
            Command::Unlisten { app, slot } | Command::Close { app, slot, .. } => {
                if let Command::Close { generation, is_abort, .. } = *command
                    && self.is_taken(*app, *slot, generation)
                {
                    *self.closing.entry((*app, *slot, generation)).or_default() |= is_abort;
                }
                self.standing.retain(|other| other.socket() != Some((*app, *slot)));
                self.opens.retain(|other| other.socket() != Some((*app, *slot)));
            }
            Command::Sources(_) => {
                self.standing.retain(|other| !matches!(other, Command::Sources(_)));
                self.standing.push(command.clone());
            }
            Command::Interfaces(_) => {
                self.standing.retain(|other| !matches!(other, Command::Interfaces(_)));
                self.standing.push(command.clone());
            }
            Command::Connect { .. }
            | Command::Resolved { .. }
            | Command::Unasked { .. }
            | Command::Evict(_)
            | Command::BeSilent
            | Command::HandOverOrphans(_)
            | Command::HandOver { .. }
            | Command::Adopt => {}
        }
    }

    /// Whether a socket has not ended yet. One that has said so already says nothing more.
    fn is_taken(&self, app: AppId, slot: SlotId, generation: Generation) -> bool {
        self.standing.iter().any(|command| {
            matches!(command, Command::Add(streams) if streams.app == app
                && streams.server.is_taken(slot)
                && streams.server.generation(slot) == generation)
        })
    }
}
