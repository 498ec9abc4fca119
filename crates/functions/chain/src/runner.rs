//! A running chain: a thread for each slice, and the control of them all in the thread that owns
//! it.

mod dry;
mod figures;
mod filters;
mod guards;
mod hooks;
pub(crate) mod launch;
pub(crate) mod make;
mod reload;
pub(crate) mod senders;

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use base::{Nanos, PortId};
use calisto_nf::esp::Gateway;
use calisto_slice::SliceError;
use port::Fault;
use port::Filter;
use shm::{Consumer, Producer};
use sys::clock;
use sys::eventfd::EventFd;
use sys::poll::Waiter;

use crate::board::Board;
use crate::error::ChainError;
use crate::feed::Feed;
use crate::file::ChainFile;
use crate::health::Health;
use crate::hook::{Compiled, HookStats, Takes};
use crate::ports::Ports;
use crate::socket::{self, FigureSocket};
use crate::swap::Swapper;
use crate::tables::Tables;

pub(crate) use dry::{has_libraries, try_out};
pub(crate) use launch::default_filter;

/// The longest sleep of the control thread: how soon it sees a thread that has ended.
const GLANCE: Nanos = Nanos::from_millis(200);
/// How often ports are looked at for faults.
const FAULTS_EVERY: Nanos = Nanos::from_secs(1);

/// What whoever runs a chain may want to say.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A file of routes is being read: this many bytes of this many.
    Reading {
        /// Bytes that have been read.
        bytes: usize,
        /// Bytes of the file.
        of: usize,
    },
    /// The tables are filled.
    Loaded {
        /// Where the routes come from.
        routes: String,
        /// IPv4 prefixes.
        ipv4: usize,
        /// IPv6 prefixes.
        ipv6: usize,
        /// How long it took.
        took: Nanos,
    },
    /// Another file is in force.
    Reloaded {
        /// Functions that it names.
        functions: usize,
    },
    /// Something that an operator should know.
    Note(String),
    /// Packets are forwarded from now on.
    Forwarding {
        /// The ports, by name.
        ports: String,
        /// Slices, each a thread.
        slices: usize,
    },
}

/// A running chain. Dropped, its threads have ended, and its ports and its socket are given back.
pub struct Chain {
    /// What it is made of.
    file: ChainFile,
    began: Nanos,
    ports: Ports,
    threads: Vec<Thread>,
    tables: Option<Tables>,
    /// Tunnels that all slices share.
    gateway: Option<Arc<Gateway>>,
    /// Servers of its balancer.
    health: Health,
    /// Its functions as far as the hook has them.
    compiled: Compiled,
    socket: FigureSocket,
    /// Rung by threads that want neighbours.
    doorbell: Arc<EventFd>,
    stop: Arc<AtomicBool>,
    faults: Faults,
}

/// What the last look at all ports has seen, and when the next one is due.
#[derive(Default)]
struct Faults {
    /// Ports that move nothing, by slice and port.
    seen: Vec<String>,
    next: Nanos,
}

/// The control side of a slice's thread.
struct Thread {
    name: String,
    cpus: Vec<usize>,
    filter: Option<String>,
    /// Whether its filter follows the host's addresses.
    follows: bool,
    /// What it is to take, and was told to.
    wanted_filter: Option<Filter>,
    takes: Takes,
    to_take: Producer<Takes>,
    /// What its hook has counted.
    stats: HookStats,
    board: Arc<Board>,
    feed: Feed,
    swapper: Swapper,
    wanted: Consumer<(PortId, IpAddr)>,
    /// Absent once it has been joined.
    handle: Option<JoinHandle<Result<(), SliceError>>>,
}

impl Chain {
    /// Fills the tables, opens the slices and starts their threads. `folder` is where the chain's
    /// file lies, `sockets` where its socket is to be.
    ///
    /// # Errors
    /// What cannot be had, and what to do. Nothing is left behind then.
    pub fn start(
        file: &ChainFile,
        folder: &Path,
        sockets: &Path,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Self, ChainError> {
        let socket = FigureSocket::listen(&socket::path_of(sockets, &file.name))?;
        let ports = launch::ports(file)?;
        let gateway = launch::gateway(file, folder)?;
        let tables = launch::tables(file, folder, &ports, gateway.as_deref(), tell)?;
        let mut chain = Self {
            file: file.clone(),
            began: clock::now(),
            ports,
            threads: Vec::new(),
            tables,
            gateway,
            health: Health::of(file, &Health::default()),
            compiled: Compiled::default(),
            socket,
            doorbell: Arc::new(EventFd::new()?),
            stop: Arc::new(AtomicBool::new(false)),
            faults: Faults::default(),
        };
        launch::threads(&mut chain, file, folder, tell)?;
        chain.began = clock::now();
        tell(Event::Forwarding { ports: chain.ports.names(), slices: chain.threads.len() });
        Ok(chain)
    }

    /// Follows routes and neighbours and answers whoever asks for figures, until `is_over` says so.
    ///
    /// # Errors
    /// A thread or the kernel has failed: the chain forwards no more.
    pub fn run(
        &mut self,
        is_over: impl Fn() -> bool,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), ChainError> {
        self.run_until(is_over, || false, tell)
    }

    /// The same, and comes back also when `is_paused` says so, for [`Self::reload`] and another
    /// call. Packets flow meanwhile.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_until(
        &mut self,
        is_over: impl Fn() -> bool,
        is_paused: impl Fn() -> bool,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), ChainError> {
        while !is_over() && !is_paused() {
            self.sleep();
            self.doorbell.drain();
            self.follow(clock::now(), &is_over, tell)?;
            self.look_after_threads(tell)?;
            self.look_after_servers(clock::now(), tell)?;
            self.socket.answer(|| self.figures());
        }
        Ok(())
    }

    /// Until there is news, a wish, a client, or something is due.
    fn sleep(&self) {
        let now = clock::now();
        let due = self.tables.as_ref().map_or(Nanos::FAR_FUTURE, Tables::next_deadline);
        let mut waiter = Waiter::new();
        let fds = [Some(self.doorbell.as_fd()), Some(self.socket.as_fd())];
        let news = self.tables.as_ref().map(AsFd::as_fd);
        for fd in fds.into_iter().chain([news]).flatten() {
            // Three are far from what it takes.
            let _ = waiter.add(fd);
        }
        waiter.wait(GLANCE.min(due.since(now)));
    }

    /// Brings what the kernel tells and what threads wish to the tables, and from there to the
    /// threads.
    fn follow(
        &mut self,
        now: Nanos,
        is_over: &impl Fn() -> bool,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), ChainError> {
        let Some(tables) = &mut self.tables else { return Ok(()) };
        for thread in &mut self.threads {
            while let Some((port, address)) = thread.wanted.pop() {
                tables.want(port, address, now);
            }
        }
        tables.turn(now)?;
        if let Some(error) = tables.take_refused() {
            tell(Event::Note(launch::withheld(error)));
        }
        if let Some(said) = tables.take_unfollowed() {
            tell(Event::Note(said));
        }
        self.send_steps(is_over);
        if self.tables.as_mut().and_then(Tables::take_readdressed).is_some() {
            self.refilter(tell)?;
        }
        Ok(())
    }

    /// Sends every thread what has changed in the tables.
    fn send_steps(&mut self, is_over: &impl Fn() -> bool) {
        let Some(tables) = &mut self.tables else { return };
        for thread in &mut self.threads {
            let lives = || !is_over() && thread.handle.as_ref().is_some_and(|h| !h.is_finished());
            thread.feed.send(tables.steps(), lives);
        }
        tables.steps().clear();
    }

    fn look_after_threads(&mut self, tell: &mut dyn FnMut(Event)) -> Result<(), ChainError> {
        let ended =
            |thread: &&mut Thread| thread.handle.as_ref().is_some_and(JoinHandle::is_finished);
        if let Some(thread) = self.threads.iter_mut().find(ended) {
            let why = match thread.handle.take().map(JoinHandle::join) {
                Some(Err(panic)) => {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                    format!("it panicked: {}", text.unwrap_or("without a word"))
                }
                Some(Ok(Err(error))) => error.to_string(),
                _ => "nobody told it to".to_owned(),
            };
            return Err(ChainError::Ended { slice: thread.name.clone(), why });
        }
        let now = clock::now();
        if now >= self.faults.next {
            self.faults.next = now + FAULTS_EVERY;
            self.tell_of_faults(tell)?;
            self.send_takes()?;
        }
        Ok(())
    }

    /// Says what ports have stopped or go on; one whose interface has gone ends the chain.
    fn tell_of_faults(&mut self, tell: &mut dyn FnMut(Event)) -> Result<(), ChainError> {
        let mut faults = Vec::new();
        for thread in &self.threads {
            for group in thread.board.read().groups {
                let Some(fault) = group.fault else { continue };
                let place = format!("{}, {}", thread.name, group.name);
                if fault == Fault::Vanished {
                    let why = fault.to_string();
                    return Err(ChainError::Ended { slice: place, why });
                }
                if !self.faults.seen.contains(&place) {
                    tell(Event::Note(format!("{place}: {}", fault.of(&group.name))));
                }
                faults.push(place);
            }
            // For the next look.
            thread.board.ask();
            thread.feed.wake();
        }
        for place in self.faults.seen.iter().filter(|place| !faults.contains(place)) {
            tell(Event::Note(format!("{place}: it goes on")));
        }
        self.faults.seen = faults;
        Ok(())
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.iter().for_each(|thread| thread.feed.wake());
        for thread in &mut self.threads {
            // What it had to say about a panic it has said on its standard error.
            let _ = thread.handle.take().map(JoinHandle::join);
        }
    }
}
