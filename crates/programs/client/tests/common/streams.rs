//! A small daemon for sockets: the real memory, the real messages, and instead of TCP a wire that
//! carries bytes from each connection to the one at its other end.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use attach::{
    AttachListener, Call, DetachReason, FallbackReason, Peer, Received, RegionKind, Reply,
    Streaming, ToApp, ToDaemon,
};
use calisto_client::sockets::{Profile, Session, SessionOptions};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketType};
use shm::sockets::{
    Asks, Backlog, Entry, Kind, RingDesc, RingMemory, Side, SlotState, SlotWords, SocketServer,
    SocketSizes,
};
use sys::eventfd::EventFd;

/// Nobody answers at this port: a connection to it stays half open.
pub(crate) const SILENT_PORT: u16 = 1;

/// Connections to these ports are local ones; the kernel gives none of them by itself.
pub(crate) const LOCAL_PORTS: std::ops::Range<u16> = 30_000..32_000;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// What programs that its processes become know.
const TICKET: &str = "fedcba9876543210fedcba9876543210";

/// One flow's half: what the daemon keeps to itself.
#[derive(Default)]
struct Flow {
    rx: Option<RingMemory>,
    tx: Vec<RingMemory>,
    rx_tail: u64,
    tx_read: u64,
    /// The other half: application and slot.
    other: Option<(usize, u32)>,
    /// The application wants to hear of room.
    was_full: bool,
}

struct App {
    peers: Vec<Peer>,
    server: SocketServer,
    doorbell: EventFd,
    /// Writing ends by poller.
    pollers: BTreeMap<u32, OwnedFd>,
    flows: BTreeMap<u32, Flow>,
    /// Pollers, fallbacks and cookies as they were told.
    pub(crate) fallbacks: Vec<FallbackReason>,
    marked: BTreeSet<u32>,
}

struct LocalPair {
    server: SocketServer,
    wakes: [EventFd; 2],
    rings: Vec<RingMemory>,
}

struct Listening {
    app: usize,
    slot: u32,
    address: SocketAddr,
    backlog: Backlog,
}

#[derive(Default)]
struct DaemonState {
    apps: Vec<App>,
    local_pairs: BTreeMap<u32, LocalPair>,
    listeners: Vec<Listening>,
    next_port: u16,
    log2_max: u32,
    /// What a descriptor that comes from elsewhere stands for.
    adopted: Option<(u32, u32)>,
}

/// The daemon, on a thread of the test's.
pub(crate) struct Daemon {
    daemon_state: Arc<Mutex<DaemonState>>,
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    folder: PathBuf,
}

static FOLDERS: AtomicU32 = AtomicU32::new(0);

impl Daemon {
    pub(crate) fn start() -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = format!("calisto-streams-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
        let listener = AttachListener::bind(&folder.join("s"), 0o600).expect("the folder is ours");
        let daemon_state =
            DaemonState { next_port: 10_000, log2_max: 20, ..DaemonState::default() };
        let daemon_state = Arc::new(Mutex::new(daemon_state));
        let ends = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (daemon_state, ends) = (Arc::clone(&daemon_state), Arc::clone(&ends));
            move || {
                while !ends.load(Ordering::Relaxed) {
                    turn(&daemon_state, &listener);
                }
            }
        });
        Self { daemon_state, ends, thread: Some(thread), folder }
    }

    pub(crate) fn socket_path(&self) -> PathBuf {
        self.folder.join("s")
    }

    pub(crate) fn options(&self) -> SessionOptions {
        let mut options = SessionOptions::new("test");
        options.socket = Some(self.socket_path());
        options
    }

    pub(crate) fn attach(&self) -> Session {
        self.attach_as(Profile::Safe)
    }

    pub(crate) fn attach_as(&self, profile: Profile) -> Session {
        let options = SessionOptions { profile, ..self.options() };
        Session::attach(&options).unwrap_or_else(|error| panic!("{error}"))
    }

    fn daemon_state<R>(&self, body: impl FnOnce(&mut DaemonState) -> R) -> R {
        body(&mut self.daemon_state.lock().expect("the daemon does not panic"))
    }

    /// What a slot's words are, on the daemon's side.
    pub(crate) fn words<R>(&self, slot: u32, body: impl FnOnce(&SlotWords) -> R) -> R {
        self.daemon_state(|daemon_state| body(daemon_state.words(0, slot)))
    }

    /// It puts the first application out, and goes on itself.
    pub(crate) fn put_out(&self, reason: DetachReason) {
        self.daemon_state(|daemon_state| {
            daemon_state.apps[0].server.memory().end(reason.number());
        });
    }

    /// The same of a slot of the local pair.
    pub(crate) fn local_words<R>(&self, slot: u32, body: impl FnOnce(&SlotWords) -> R) -> R {
        self.daemon_state(|daemon_state| {
            let local_pair = daemon_state.local_pairs.values().next().expect("there is one");
            body(local_pair.server.memory().slot(slot).expect("it was lent"))
        })
    }

    /// Bytes arrive for a connection of the first application that has no other end.
    pub(crate) fn deliver(&self, slot: u32, bytes: &[u8]) {
        self.daemon_state(|daemon_state| {
            let app = &mut daemon_state.apps[0];
            assert!(app.place(slot, bytes), "they fit");
            app.notify(slot);
        });
    }

    /// What it has written, which is acknowledged with this.
    pub(crate) fn acknowledge(&self, slot: u32) -> Vec<u8> {
        self.daemon_state(|daemon_state| {
            let app = &mut daemon_state.apps[0];
            let bytes = app.collect(slot, usize::MAX);
            app.tell_of_room(slot);
            bytes
        })
    }

    /// Sets flags of its state, and its error.
    pub(crate) fn become_state(&self, slot: u32, flags: u32, error: u32) {
        self.daemon_state(|daemon_state| {
            let app = &mut daemon_state.apps[0];
            let words = app.server.memory().slot(slot).expect("it was lent");
            words.error.store(error, Ordering::Release);
            words.state.fetch_or(flags, Ordering::AcqRel);
            app.notify(slot);
        });
    }

    /// An answer has come to the SYN of a silent port.
    pub(crate) fn establish(&self, slot: u32) {
        self.daemon_state(|daemon_state| {
            let app = &mut daemon_state.apps[0];
            app.offer(slot, 12);
            let words = app.server.memory().slot(slot).expect("it was lent");
            words.state.store(Kind::Stream as u32 | SlotState::CONNECTED, Ordering::Release);
            app.notify(slot);
        });
    }

    /// A ring that the application should write to.
    pub(crate) fn offer(&self, slot: u32, log2: u8) {
        self.daemon_state(|daemon_state| {
            daemon_state.apps[0].offer(slot, log2);
            daemon_state.apps[0].notify(slot);
        });
    }

    /// A datagram record arrives.
    pub(crate) fn place_raw(&self, slot: u32, bytes: &[u8]) {
        self.deliver(slot, bytes);
    }

    /// Whether the application has told of news of a slot since this was asked last.
    pub(crate) fn was_marked(&self, slot: u32) -> bool {
        self.daemon_state(|daemon_state| {
            while daemon_state.pump(0) {}
            daemon_state.apps[0].marked.remove(&slot)
        })
    }

    pub(crate) fn fallbacks(&self) -> Vec<FallbackReason> {
        self.daemon_state(|daemon_state| daemon_state.apps[0].fallbacks.clone())
    }

    pub(crate) fn pollers(&self) -> usize {
        self.daemon_state(|daemon_state| daemon_state.apps[0].pollers.len())
    }

    /// From now on descriptors that come from elsewhere stand for this socket.
    pub(crate) fn adopt_as(&self, region: u32, slot: u32) {
        self.daemon_state(|daemon_state| daemon_state.adopted = Some((region, slot)));
    }

    /// So long send rings may become.
    pub(crate) fn limit_rings(&self, log2: u32) {
        self.daemon_state(|daemon_state| daemon_state.log2_max = log2);
    }

    /// It dies as when it is killed: links and pipes close, and no word is said.
    pub(crate) fn kill(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the daemon does not panic");
        }
        self.daemon_state(|daemon_state| {
            for app in &mut daemon_state.apps {
                app.peers.clear();
                app.pollers.clear();
            }
        });
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let result = thread.join();
            assert!(result.is_ok() || std::thread::panicking(), "the daemon does not panic");
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Waits for something to do and does it.
fn turn(daemon_state: &Mutex<DaemonState>, listener: &AttachListener) {
    {
        let mut daemon_state = daemon_state.lock().expect("tests do not panic here");
        while let Some(peer) = listener.accept().expect("descriptors are left") {
            peer.accept_descriptors();
            daemon_state.welcome(peer);
        }
        for app in 0..daemon_state.apps.len() {
            daemon_state.serve(app);
        }
        while (0..daemon_state.apps.len()).any(|app| daemon_state.pump(app)) {}
    }
    // Short, since a test may change the world from outside.
    let timeout = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    let locked = daemon_state.lock().expect("tests do not panic here");
    let doorbells = locked.apps.iter().map(|app| app.doorbell.as_fd().try_clone_to_owned());
    let peers = locked.apps.iter().flat_map(|app| &app.peers);
    let peers = peers.map(|peer| peer.as_fd().try_clone_to_owned());
    let fds: Vec<OwnedFd> =
        doorbells.chain(peers).map(|fd| fd.expect("descriptors are left")).collect();
    let is_quiet = locked.apps.iter().all(|app| worker(app).arm());
    drop(locked);
    let mut polled: Vec<_> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    polled.push(PollFd::new(listener, PollFlags::IN));
    if is_quiet {
        let _ = rustix::event::poll(&mut polled, Some(&timeout));
    }
}

fn worker(app: &App) -> shm::sockets::ReadyBits<'_> {
    app.server.memory().worker(0).expect("there is one")
}

impl DaemonState {
    fn words(&self, app: usize, slot: u32) -> &SlotWords {
        self.apps[app].server.memory().slot(slot).expect("it was lent")
    }

    /// A process says who it is.
    fn welcome(&mut self, peer: Peer) {
        let (message, _) = loop {
            match peer.receive_call().expect("the kernel is well") {
                (Received::Message(message), fds) => break (message, fds),
                (Received::Nothing, _) => std::thread::yield_now(),
                (other, _) => panic!("{other:?}"),
            }
        };
        let number = match message {
            ToDaemon::Stream(_) => {
                let sizes = SocketSizes {
                    slots: 1024,
                    pollers: 8,
                    sides: 1,
                    workers: 1,
                    ring_bytes: 64 << 20,
                };
                let server = SocketServer::create("test", sizes).expect("it fits anywhere");
                let doorbell = EventFd::new().expect("descriptors are left");
                self.apps.push(App {
                    peers: Vec::new(),
                    server,
                    doorbell,
                    pollers: BTreeMap::new(),
                    flows: BTreeMap::new(),
                    fallbacks: Vec::new(),
                    marked: BTreeSet::new(),
                });
                self.apps.len() - 1
            }
            ToDaemon::Join(join) => {
                assert!([TOKEN, TICKET].contains(&join.token.as_str()), "{join:?}");
                join.app as usize - 1
            }
            other => panic!("{other:?}"),
        };
        let app = &mut self.apps[number];
        let id = number as u32 + 1;
        let streaming = Streaming {
            app: id,
            region: id,
            token: TOKEN.into(),
            ticket: TICKET.into(),
            pollers: 8,
            join_listener: None,
            features: 0,
        };
        let fds = [app.server.memory().descriptor(), app.doorbell.as_fd()];
        assert_eq!(peer.send(&ToApp::Streaming(streaming), &fds), Ok(true));
        app.peers.push(peer);
    }

    /// Answers the calls of an application.
    fn serve(&mut self, app: usize) {
        for at in (0..self.apps[app].peers.len()).rev() {
            loop {
                let received = self.apps[app].peers[at].receive_call().expect("the kernel is well");
                match received {
                    (Received::Message(ToDaemon::Call { id, call }), fds) => {
                        let (reply, fds) = self.answer(app, &call, fds.into_iter().next());
                        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
                        let peer = &self.apps[app].peers[at];
                        assert_eq!(peer.send(&ToApp::Reply { id, reply }, &fds), Ok(true));
                    }
                    (Received::Nothing, _) => break,
                    (Received::Closed, _) => {
                        self.apps[app].peers.remove(at);
                        break;
                    }
                    (other, _) => panic!("{other:?}"),
                }
            }
        }
    }

    fn answer(&mut self, app: usize, call: &Call, fd: Option<OwnedFd>) -> (Reply, Vec<OwnedFd>) {
        let fd = || fd.as_ref().expect("a socket comes with this").as_fd();
        match call {
            Call::Poller => {
                let pollers = &mut self.apps[app].pollers;
                let poller = (0..8).find(|poller| !pollers.contains_key(poller));
                let Some(poller) = poller else { return (Reply::Errno { errno: 24 }, Vec::new()) };
                let (reading, writing) = rustix::pipe::pipe().expect("descriptors are left");
                pollers.insert(poller, writing);
                (Reply::Poller { poller }, vec![reading])
            }
            Call::DropPoller { poller } => {
                self.apps[app].pollers.remove(poller);
                (Reply::Done, Vec::new())
            }
            Call::Fallback { reason } => {
                self.apps[app].fallbacks.push(*reason);
                (Reply::Done, Vec::new())
            }
            Call::Adopt => match self.adopted {
                Some((region, slot)) => (Reply::Slot { region, slot }, Vec::new()),
                None => (Reply::Kernel { reason: FallbackReason::NotOurs }, Vec::new()),
            },
            Call::Unlisten { .. } => (Reply::Done, Vec::new()),
            Call::Region { region } => match self.local_pairs.contains_key(region) {
                // Who accepts asks; who connects was told.
                true => {
                    let reply = Reply::Region { kind: RegionKind::LocalPair, side: 1 };
                    (reply, self.local_pair_fds(*region, Side::One))
                }
                // An application's own, for who has adopted a socket of it.
                false => {
                    let app = &self.apps[*region as usize - 1];
                    let fds = [app.server.memory().descriptor(), app.doorbell.as_fd()];
                    let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
                    let fds = fds.map(|fd| copy(fd).expect("descriptors are left"));
                    (Reply::Region { kind: RegionKind::App, side: 0 }, fds.into())
                }
            },
            Call::Listen { backlog } => {
                let address = rustix::net::getsockname(fd()).expect("it is bound");
                let address = SocketAddr::try_from(address).expect("it is bound");
                let slot = self.apps[app].lend(Kind::Listener as u32);
                let ring = self.apps[app].server.heap().lend(10).expect("there is room");
                let words = self.words(app, slot);
                words.rx_ring.store(ring.desc().word(), Ordering::Release);
                words.local.set(Some(address));
                let backlog = Backlog::new(ring, *backlog);
                self.listeners.push(Listening { app, slot, address, backlog });
                (Reply::Slot { region: app as u32 + 1, slot }, Vec::new())
            }
            Call::Udp { remote } => {
                let slot = self.apps[app].lend(Kind::Datagram as u32);
                self.apps[app].set_up(slot);
                let words = self.words(app, slot);
                let address = rustix::net::getsockname(fd()).expect("it is bound");
                words.local.set(SocketAddr::try_from(address).ok());
                words.remote.set(*remote);
                (Reply::Slot { region: app as u32 + 1, slot }, Vec::new())
            }
            Call::Connect { remote } => self.connect(app, *remote),
        }
    }

    fn connect(&mut self, app: usize, remote: SocketAddr) -> (Reply, Vec<OwnedFd>) {
        self.next_port += 1;
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, self.next_port));
        let region = app as u32 + 1;
        if remote.port() == 0 {
            return (Reply::Kernel { reason: FallbackReason::NoRouteHere }, Vec::new());
        }
        let to = self.listeners.iter().position(|listener| listener.address == remote);
        if remote.port() == SILENT_PORT {
            let slot = self.apps[app].lend(Kind::Stream as u32 | SlotState::CONNECTING);
            let words = self.words(app, slot);
            words.tx_log2_max.store(self.log2_max, Ordering::Relaxed);
            words.remote.set(Some(remote));
            words.local.set(Some(local));
            self.apps[app].flows.insert(slot, Flow::default());
            return (Reply::Slot { region, slot }, Vec::new());
        }
        let Some(to) = to else { return (Reply::Errno { errno: 111 }, Vec::new()) };
        if LOCAL_PORTS.contains(&remote.port()) {
            return self.connect_locally(to, local);
        }
        let slot = self.open(app, local, remote);
        let listener = self.listeners[to].app;
        let accepted = self.open(listener, remote, local);
        self.flow(app, slot).other = Some((listener, accepted));
        self.flow(listener, accepted).other = Some((app, slot));
        let entry = Entry { region: listener as u32 + 1, slot: accepted };
        self.announce(to, entry);
        (Reply::Slot { region, slot }, Vec::new())
    }

    fn announce(&mut self, to: usize, entry: Entry) {
        let Listening { app, slot, backlog, .. } = &self.listeners[to];
        let app = &self.apps[*app];
        let words = app.server.memory().slot(*slot).expect("it was lent");
        assert!(backlog.push(app.server.memory(), words, entry), "the backlog has room");
        app.notify(*slot);
    }

    /// A connection that stands.
    fn open(&mut self, app: usize, local: SocketAddr, remote: SocketAddr) -> u32 {
        let slot = self.apps[app].lend(Kind::Stream as u32 | SlotState::CONNECTED);
        let log2_max = self.log2_max;
        self.apps[app].set_up(slot);
        let words = self.words(app, slot);
        words.tx_log2_max.store(log2_max, Ordering::Relaxed);
        words.local.set(Some(local));
        words.remote.set(Some(remote));
        slot
    }

    fn connect_locally(&mut self, to: usize, local: SocketAddr) -> (Reply, Vec<OwnedFd>) {
        let id = 1000;
        let local_pair = self.local_pairs.entry(id).or_insert_with(|| {
            let sizes =
                SocketSizes { slots: 64, pollers: 8, sides: 2, workers: 0, ring_bytes: 1 << 20 };
            let wake = || EventFd::new().expect("descriptors are left");
            let server = SocketServer::create("test", sizes).expect("it fits anywhere");
            LocalPair { server, wakes: [wake(), wake()], rings: Vec::new() }
        });
        let slot = local_pair.server.lend_pair().expect("there are some");
        let mut ring = || {
            let ring = local_pair.server.heap().lend(12).expect("there is room");
            let word = ring.desc().word();
            local_pair.rings.push(ring);
            word
        };
        let rings = [ring(), ring()];
        let addresses = [local, self.listeners[to].address];
        for side in 0..2 {
            let words = local_pair.server.memory().slot(slot + side).expect("it was lent");
            let (own, other) = (side as usize, 1 - side as usize);
            words.rx_ring.store(rings[other], Ordering::Relaxed);
            words.tx_ring.store(rings[own], Ordering::Relaxed);
            words.local.set(Some(addresses[own]));
            words.remote.set(Some(addresses[other]));
            let state = Kind::Stream as u32 | SlotState::CONNECTED | SlotState::LOCAL;
            words.state.store(state, Ordering::Release);
        }
        self.announce(to, Entry { region: id, slot: slot + 1 });
        (Reply::Slot { region: id, slot }, self.local_pair_fds(id, Side::Zero))
    }

    fn local_pair_fds(&self, region: u32, side: Side) -> Vec<OwnedFd> {
        let local_pair = &self.local_pairs[&region];
        let own = side as usize;
        let fds = [
            local_pair.server.memory().descriptor(),
            local_pair.wakes[1 - own].as_fd(),
            local_pair.wakes[own].as_fd(),
        ];
        fds.map(|fd| fd.try_clone_to_owned().expect("descriptors are left")).into()
    }

    fn flow(&mut self, app: usize, slot: u32) -> &mut Flow {
        self.apps[app].flows.get_mut(&slot).expect("it was set up")
    }

    /// Carries bytes between the ends of connections; whether there was anything.
    fn pump(&mut self, app: usize) -> bool {
        let mut marked = Vec::new();
        let ready_bits = worker(&self.apps[app]);
        ready_bits.disarm();
        ready_bits.take(&mut 0, 4096, |slot| marked.push(slot));
        self.apps[app].doorbell.drain();
        for &slot in &marked {
            self.apps[app].marked.insert(slot);
            self.look(app, slot);
        }
        !marked.is_empty()
    }

    fn look(&mut self, app: usize, slot: u32) {
        let Some(flow) = self.apps[app].flows.get(&slot) else { return };
        let other = flow.other;
        let words = self.words(app, slot);
        let asks = words.asks();
        if asks.has(Asks::INFO) {
            words.info_word(shm::sockets::SlotInfo::Rtt).store(1234, Ordering::Relaxed);
            words.asks.fetch_and(!Asks::INFO, Ordering::AcqRel);
            words.info_version.fetch_add(1, Ordering::Release);
        }
        let offered = RingDesc::of_word(words.tx_ring.load(Ordering::Relaxed));
        let wished = u32::from(asks.grow()).min(words.tx_log2_max.load(Ordering::Relaxed)) as u8;
        if wished > 0 {
            words.asks.fetch_and(0x00ff_ffff, Ordering::AcqRel);
            self.apps[app].is_waiting(slot);
        }
        if wished > offered.log2().unwrap_or(0) {
            self.apps[app].offer(slot, wished);
            self.apps[app].notify(slot);
        }
        let Some((peer_app, peer)) = other else { return };
        // The reader may have made room: its own writer is looked at too.
        for (from, to) in [((app, slot), (peer_app, peer)), ((peer_app, peer), (app, slot))] {
            self.carry(from, to);
        }
    }

    fn carry(&mut self, from: (usize, u32), to: (usize, u32)) {
        let room = self.apps[to.0].room(to.1);
        let bytes = self.apps[from.0].collect(from.1, room);
        if !bytes.is_empty() {
            assert!(self.apps[to.0].place(to.1, &bytes), "there was room");
            self.apps[from.0].tell_of_room(from.1);
            self.apps[to.0].notify(to.1);
        }
        let words = self.words(from.0, from.1);
        let asks = words.asks();
        let is_sent =
            words.tx_tail.load(Ordering::Acquire) == words.tx_head.load(Ordering::Relaxed);
        let theirs = self.words(to.0, to.1);
        if asks.has(Asks::ABORT) && !theirs.state().has(SlotState::BROKEN) {
            theirs.error.store(104, Ordering::Release);
            theirs.state.fetch_or(SlotState::BROKEN, Ordering::AcqRel);
            self.apps[to.0].notify(to.1);
        } else if is_sent
            && !asks.has(Asks::ABORT)
            && asks.has(Asks::SHUT_WRITE | Asks::CLOSE)
            && !theirs.state().has(SlotState::PEER_CLOSED)
        {
            theirs.state.fetch_or(SlotState::PEER_CLOSED, Ordering::AcqRel);
            self.apps[to.0].notify(to.1);
        }
    }
}

impl App {
    fn lend(&mut self, state: u32) -> u32 {
        let slot = self.server.lend_slot().expect("there are some");
        let words = self.server.memory().slot(slot).expect("it was lent");
        words.state.store(state, Ordering::Release);
        slot
    }

    /// Rings for a flow.
    fn set_up(&mut self, slot: u32) {
        self.flows.insert(slot, Flow::default());
        self.offer(slot, 12);
    }

    /// Somebody waits for room; there may be some already.
    fn is_waiting(&mut self, slot: u32) {
        if let Some(flow) = self.flows.get_mut(&slot) {
            flow.was_full = true;
            self.tell_of_room(slot);
        }
    }

    fn tell_of_room(&mut self, slot: u32) {
        let words = self.server.memory().slot(slot).expect("it was lent");
        let flow = self.flows.get_mut(&slot).expect("it was set up");
        let bytes = RingDesc::of_word(words.tx_ring_used.load(Ordering::Relaxed)).bytes();
        let left = words.tx_tail.load(Ordering::Relaxed) - flow.tx_read;
        if flow.was_full && (bytes - left) * 3 >= bytes {
            flow.was_full = false;
            self.notify(slot);
        }
    }

    fn offer(&mut self, slot: u32, log2: u8) {
        let ring = self.server.heap().lend(log2).expect("there is room");
        let words = self.server.memory().slot(slot).expect("it was lent");
        words.tx_ring.store(ring.desc().word(), Ordering::Release);
        self.flows.get_mut(&slot).expect("it was set up").tx.push(ring);
    }

    fn room(&self, slot: u32) -> usize {
        let words = self.server.memory().slot(slot).expect("it was lent");
        let flow = &self.flows[&slot];
        (1 << 14) - (flow.rx_tail - words.rx_head.load(Ordering::Acquire)) as usize
    }

    /// Copies bytes into the receive ring.
    fn place(&mut self, slot: u32, bytes: &[u8]) -> bool {
        if bytes.len() > self.room(slot) {
            return false;
        }
        let flow = self.flows.get_mut(&slot).expect("it was set up");
        let words = self.server.memory().slot(slot).expect("it was lent");
        let heap = self.server.heap();
        let ring = flow.rx.get_or_insert_with(|| heap.lend(14).expect("there is room"));
        words.rx_ring.store(ring.desc().word(), Ordering::Release);
        for &byte in bytes {
            ring.bytes_mut()[flow.rx_tail as usize % (1 << 14)] = byte;
            flow.rx_tail += 1;
        }
        words.rx_tail.store(flow.rx_tail, Ordering::Release);
        true
    }

    /// Takes what was written, `most` bytes of it at most, and acknowledges it.
    fn collect(&mut self, slot: u32, most: usize) -> Vec<u8> {
        let flow = self.flows.get_mut(&slot).expect("it was set up");
        let words = self.server.memory().slot(slot).expect("it was lent");
        let tail = words.tx_tail.load(Ordering::Acquire);
        let desc = RingDesc::of_word(words.tx_ring_used.load(Ordering::Acquire));
        let Some(ring) = flow.tx.iter().find(|ring| ring.desc() == desc) else {
            assert_eq!(tail, flow.tx_read, "bytes come in a ring that was offered");
            return Vec::new();
        };
        let count = (tail - flow.tx_read).min(most as u64);
        let bytes = (flow.tx_read..flow.tx_read + count)
            .map(|at| ring.bytes()[(at % desc.bytes()) as usize])
            .collect();
        flow.tx_read += count;
        words.tx_head.store(flow.tx_read, Ordering::Release);
        bytes
    }

    /// Tells the application's threads of news of a socket.
    fn notify(&self, slot: u32) {
        let words = self.server.memory().slot(slot).expect("it was lent");
        for (poller, pipe) in &self.pollers {
            let word = &words.pollers[(*poller / 64) as usize];
            let ready_bits =
                self.server.memory().poller(Side::Zero, *poller).expect("there is one");
            if word.load(Ordering::Acquire) & 1 << (poller % 64) != 0
                && ready_bits.set(slot)
                && ready_bits.claim_wake()
            {
                let _ = rustix::io::write(pipe, &[1]);
            }
        }
        std::sync::atomic::fence(Ordering::SeqCst);
        if words.sleepers.load(Ordering::Relaxed) != 0 {
            words.sleepers.store(0, Ordering::Relaxed);
            words.notify_word.fetch_add(1, Ordering::Release);
            sys::futex::wake(&words.notify_word, sys::futex::Scope::Shared, u32::MAX >> 1);
        }
    }
}

/// A kernel socket, bound to a port of 127.0.0.1 (zero: any).
pub(crate) fn kernel_socket(kind: SocketType, port: u16) -> OwnedFd {
    let flags = rustix::net::SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(AddressFamily::INET, kind, flags, None);
    let fd = fd.expect("descriptors are left");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    rustix::net::bind(&fd, &address).expect("the port is free");
    fd
}

pub(crate) fn address_of(fd: &OwnedFd) -> SocketAddr {
    let address = rustix::net::getsockname(fd).expect("it is bound");
    SocketAddr::try_from(address).expect("it is bound")
}
