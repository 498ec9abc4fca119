//! Between the daemon's slow side and the workers that serve sockets.
//!
//! The slow side resolves, reserves and permits; what is then to be done goes to every worker's mailbox, and what
//! workers have to say about sockets comes back by a ring of each. Connections are opened and closed here, payload never
//! passes: a worker looks at one word a turn to see that there is no commands.

mod post;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{PortId, WorkerId};
use shm::sockets::{Backlog, SocketServer};
use shm::{Consumer, ring};
use tcp::{Algorithm, FlowOptions};

use crate::bucket::Rate;
use crate::served::{Conn, Datagrams};
pub(crate) use post::Post;

/// How the sleepers of an application are woken: by somebody who may make system calls.
pub trait Notifier: Send + Sync {
    /// Wakes who waits at a poller.
    fn poller(&self, side: shm::sockets::Side, poller: u32);
    /// Wakes all who sleep on a word.
    fn futex(&self, word: &std::sync::atomic::AtomicU32);
}

/// An application with sockets, as workers see it.
pub struct AppSockets {
    /// A small number that no other living application has.
    pub app: u16,
    /// What accepted connections' entries name.
    pub region: u32,
    /// Its memory.
    pub server: SocketServer,
    /// How its sleepers are woken.
    pub notifier: Box<dyn Notifier>,
    /// Its worker may wait on a CPU for more to do (profile safe: no).
    pub spins: bool,
    /// What it may send, together with others of the same user, if that is limited.
    pub rate: Option<Arc<Rate>>,
    /// To whom it may send datagrams, if that is limited.
    pub permits: Option<Box<dyn Fn(SocketAddr) -> bool + Send + Sync>>,
    /// What its connections may choose from.
    pub congestions: Vec<Algorithm>,
}

impl AppSockets {
    /// Whether it may send a datagram to that address.
    pub(crate) fn may_send(&self, remote: SocketAddr) -> bool {
        self.permits.as_ref().is_none_or(|permits| permits(remote))
    }
}

impl std::fmt::Debug for AppSockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppStreams").field("app", &self.app).finish_non_exhaustive()
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct Listening {
    /// Whose.
    pub app: Arc<AppSockets>,
    /// Its slot.
    pub slot: u32,
    /// Where.
    pub address: SocketAddr,
    /// Connections that nobody has taken yet; those of the socket's other addresses as well.
    pub backlog: Arc<Backlog>,
    /// Connections that may be half open before cookies take their place.
    pub half_open_max: u32,
    /// Settings of every accepted flow.
    pub options: FlowOptions,
}

/// By which port a packet leaves, and what stands before its IP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The port.
    pub port: PortId,
    /// A tag that the port puts in.
    pub vlan_tci: u16,
    /// The link header, at most 22 bytes.
    pub header: Vec<u8>,
}

/// What workers are told.
#[derive(Clone, Debug)]
pub enum Command {
    /// An application has come.
    Add(Arc<AppSockets>),
    /// It is gone: its connections are reset.
    Remove {
        /// Which.
        app: u16,
    },
    /// Accept connections. Several listeners of one address share them by flow hash (SO_REUSEPORT).
    Listen(Arc<Listening>),
    /// Accept no more.
    Unlisten {
        /// Whose listener.
        app: u16,
        /// Which.
        slot: u32,
    },
    /// Open a connection for a slot that was lent and set up.
    Connect {
        /// Whose.
        app: u16,
        /// Its slot.
        slot: u32,
        /// From where: both parts are settled.
        local: SocketAddr,
        /// To where.
        remote: SocketAddr,
        /// Its settings.
        options: FlowOptions,
        /// How its segments leave until the peer has answered.
        next_hop: NextHop,
    },
    /// Serve a UDP socket whose slot was lent and set up; one of the same slot goes.
    Bind(Arc<Datagrams>),
    /// A worker has ended and left sockets behind whose flows are over: they are this one's now.
    Adopt,
    /// How datagrams to an address leave from now on; none: it cannot be reached.
    Resolved {
        /// The address.
        remote: std::net::IpAddr,
        /// Its way and our address on it.
        next_hop: Option<(NextHop, std::net::IpAddr)>,
    },
    /// The last descriptor of a socket was closed, or its application is to have it no more.
    Close {
        /// Whose.
        app: u16,
        /// Which.
        slot: u32,
        /// Of which generation: a later socket in the same slot is another.
        generation: u32,
        /// With a reset, whatever was written.
        is_abort: bool,
    },
}

/// What workers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketEvent {
    /// A socket's descriptor has this cookie.
    Named {
        /// Whose.
        app: u16,
        /// Which.
        slot: u32,
        /// Its generation.
        generation: u32,
        /// SO_COOKIE.
        cookie: u64,
    },
    /// A connection that was opened here is over, or could not be opened.
    Finished {
        /// Whose.
        app: u16,
        /// Which.
        slot: u32,
        /// Its generation.
        generation: u32,
        /// Both sides have closed it, so that its name stays taken for a while: late segments may come
        /// (TIME-WAIT). One that was refused or reset leaves nothing behind.
        may_linger: bool,
    },
    /// The slot is free again.
    Freed {
        /// Whose.
        app: u16,
        /// Which.
        slot: u32,
        /// The generation that has ended.
        generation: u32,
    },
    /// An application has written what no honest one writes.
    Violation {
        /// Which.
        app: u16,
    },
    /// Datagrams wait for a way to an address.
    Unresolved {
        /// The address.
        remote: std::net::IpAddr,
    },
}

/// Events of one worker that nobody has heard yet, at most; more wait with the worker.
const EVENTS: usize = 4096;

#[derive(Default)]
struct Mailbox {
    has_any: AtomicBool,
    connect_probes: Mutex<VecDeque<Command>>,
}

impl Mailbox {
    fn commands(&self) -> MutexGuard<'_, VecDeque<Command>> {
        self.connect_probes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct State {
    boxes: Vec<(WorkerId, Arc<Mailbox>)>,
    /// What each of them says.
    heard: Vec<(Arc<Mailbox>, Consumer<SocketEvent>)>,
    /// What workers that have ended had said, and nobody had heard.
    last_words: Vec<SocketEvent>,
    /// What a worker that comes later has to know: applications, listeners, UDP sockets.
    standing: Vec<Command>,
    /// Connections to be opened, and those among them whose worker is yet to be found.
    opens: Vec<Command>,
    connect_probes: VecDeque<(SocketAddr, SocketAddr)>,
    /// Sockets that are to be closed and have not ended, by application, slot and generation: with a reset? For the
    /// worker that gets one which was between workers when it was told.
    closing: BTreeMap<(u16, u32, u32), bool>,
    /// Sockets of workers that have ended, without their flows: each connection is over, and its program has not closed
    /// it. As many as those workers had slots.
    stranded: Vec<Stranded>,
}

/// A socket between two workers: its application, its slot and what a worker knows of it.
pub(crate) type Stranded = (Arc<AppSockets>, u32, Conn);

struct Shared {
    state: Mutex<State>,
    /// There are connect probes.
    has_connect_probes: AtomicBool,
    /// Says that a worker has commands.
    wake: Box<dyn Fn() + Send + Sync>,
    /// Says that there are events.
    tell: Box<dyn Fn() + Send + Sync>,
}

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
        let (wake, tell) = (Box::new(wake), Box::new(tell));
        let has_connect_probes = AtomicBool::new(false);
        Self {
            shared: Arc::new(Shared { state: Mutex::default(), has_connect_probes, wake, tell }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells all workers; each finds out whether it concerns it. A connection to be opened goes to the worker that
    /// its packets will go to: the dispatcher finds it ([`Self::next_connect_probe`]).
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

    /// Takes back a connection that is to be opened and that no worker has begun with. False: one has, or there is none.
    pub fn withdraw(&self, app: u16, slot: u32) -> bool {
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
        self.state().connect_probes.push_front(connect_probe);
        self.shared.has_connect_probes.store(true, Ordering::Release);
    }

    /// Whether every worker has taken all that it was told: what comes to it from now on finds it done.
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

    /// The end of a worker; it replaces that of an earlier worker of the same number.
    pub(crate) fn post(&self, worker: WorkerId) -> Post {
        let (to_front, heard) = ring(EVENTS);
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
        Post { mailbox, events: to_front, waiting: VecDeque::new(), front: self.clone() }
    }
}

impl State {
    fn remember(&mut self, command: &Command) {
        match command {
            Command::Add(_) | Command::Listen(_) | Command::Bind(_) => {
                self.standing.push(command.clone());
            }
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
            Command::Connect { .. } | Command::Resolved { .. } | Command::Adopt => {}
        }
    }

    /// Whether a socket has not ended yet. One that has said so already says nothing more.
    fn is_taken(&self, app: u16, slot: u32, generation: u32) -> bool {
        self.standing.iter().any(|command| {
            matches!(command, Command::Add(streams) if streams.app == app
                && streams.server.is_taken(slot)
                && streams.server.generation(slot) == generation)
        })
    }
}

impl Command {
    fn app(&self) -> Option<u16> {
        match self {
            Self::Add(streams) => Some(streams.app),
            other => other.socket().map(|(app, _)| app),
        }
    }

    fn socket(&self) -> Option<(u16, u32)> {
        match self {
            Self::Listen(listening) => Some((listening.app.app, listening.slot)),
            Self::Bind(socket) => Some((socket.app.app, socket.slot)),
            Self::Unlisten { app, slot }
            | Self::Connect { app, slot, .. }
            | Self::Close { app, slot, .. } => Some((*app, *slot)),
            Self::Add(_) | Self::Remove { .. } | Self::Resolved { .. } | Self::Adopt => None,
        }
    }
}

#[cfg(test)]
mod tests;
