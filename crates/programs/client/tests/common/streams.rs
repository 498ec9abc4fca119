//! A small daemon for sockets: the real memory, the real messages, and instead of TCP a wire that
//! carries bytes from each connection to the one at its other end.
#![allow(dead_code, reason = "each test binary uses its part")]

#[path = "streams/app.rs"]
mod app;
#[path = "streams/state.rs"]
mod state;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use app::worker;
use attach::{AttachListener, DetachReason, FallbackReason};
use base::{RegionId, SlotId};
use calisto_client::sockets::{Profile, Session, SessionOptions};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketType};
use shm::sockets::{Kind, SlotState, SlotWords};
use state::DaemonState;

/// Nobody answers at this port: a connection to it stays half open.
pub(crate) const SILENT_PORT: u16 = 1;

/// Connections to these ports are local ones; the kernel gives none of them by itself.
pub(crate) const LOCAL_PORTS: std::ops::Range<u16> = 30_000..32_000;

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
    pub(crate) fn words<R>(&self, slot: SlotId, body: impl FnOnce(&SlotWords) -> R) -> R {
        self.daemon_state(|daemon_state| body(daemon_state.words(0, slot)))
    }

    /// It tells the first application these addresses, all of which it serves, and returns how
    /// often it has told others.
    pub(crate) fn tell_addresses(&self, addresses: &[std::net::IpAddr]) -> u32 {
        self.daemon_state(|daemon_state| {
            let memory = daemon_state.apps[0].server.memory();
            memory.set_host_addresses(addresses, addresses);
            memory.addresses_version()
        })
    }

    /// It puts the first application out, and goes on itself.
    pub(crate) fn put_out(&self, reason: DetachReason) {
        self.daemon_state(|daemon_state| {
            daemon_state.apps[0].server.memory().end(reason.number());
        });
    }

    /// The same of a slot of the local pair.
    pub(crate) fn local_words<R>(&self, slot: SlotId, body: impl FnOnce(&SlotWords) -> R) -> R {
        self.daemon_state(|daemon_state| {
            let local_pair = daemon_state.local_pairs.values().next().expect("there is one");
            body(local_pair.server.memory().slot(slot).expect("it was lent"))
        })
    }

    /// Bytes arrive for a connection of the first application that has no other end.
    pub(crate) fn deliver(&self, slot: SlotId, bytes: &[u8]) {
        self.daemon_state(|daemon_state| {
            let app = &mut daemon_state.apps[0];
            assert!(app.place(slot, bytes), "they fit");
            app.notify(slot);
        });
    }

    /// What it has written, which is acknowledged with this.
    pub(crate) fn acknowledge(&self, slot: SlotId) -> Vec<u8> {
        self.daemon_state(|daemon_state| {
            let app = &mut daemon_state.apps[0];
            let bytes = app.collect(slot, usize::MAX);
            app.tell_of_room(slot);
            bytes
        })
    }

    /// Sets flags of its state, and its error.
    pub(crate) fn become_state(&self, slot: SlotId, flags: u32, error: u32) {
        self.daemon_state(|daemon_state| {
            let app = &mut daemon_state.apps[0];
            let words = app.server.memory().slot(slot).expect("it was lent");
            words.error.store(error, Ordering::Release);
            words.state.fetch_or(flags, Ordering::AcqRel);
            app.notify(slot);
        });
    }

    /// An answer has come to the SYN of a silent port.
    pub(crate) fn establish(&self, slot: SlotId) {
        self.daemon_state(|daemon_state| {
            let app = &mut daemon_state.apps[0];
            app.offer(slot, 12);
            let words = app.server.memory().slot(slot).expect("it was lent");
            words.state.store(Kind::Stream as u32 | SlotState::CONNECTED, Ordering::Release);
            app.notify(slot);
        });
    }

    /// A ring that the application should write to.
    pub(crate) fn offer(&self, slot: SlotId, log2: u8) {
        self.daemon_state(|daemon_state| {
            daemon_state.apps[0].offer(slot, log2);
            daemon_state.apps[0].notify(slot);
        });
    }

    /// A datagram record arrives.
    pub(crate) fn place_raw(&self, slot: SlotId, bytes: &[u8]) {
        self.deliver(slot, bytes);
    }

    /// Whether the application has told of news of a slot since this was asked last.
    pub(crate) fn was_marked(&self, slot: SlotId) -> bool {
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
    pub(crate) fn adopt_as(&self, region: RegionId, slot: SlotId) {
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
