//! What the small daemon answers, and how it carries bytes between the ends of connections.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use attach::{Call, FallbackReason, Peer, Received, RegionKind, Reply, Streaming, ToApp, ToDaemon};
use base::{RegionId, SlotId};
use shm::sockets::{
    Asks, Backlog, Entry, Kind, RingDesc, RingMemory, Side, SlotState, SlotWords, SocketServer,
    SocketSizes,
};
use sys::eventfd::EventFd;

use super::app::{App, Flow, worker};
use super::{LOCAL_PORTS, SILENT_PORT};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// What programs that its processes become know.
const TICKET: &str = "fedcba9876543210fedcba9876543210";

pub(crate) struct LocalPair {
    pub(crate) server: SocketServer,
    pub(crate) wakes: [EventFd; 2],
    pub(crate) rings: Vec<RingMemory>,
}

pub(crate) struct Listening {
    pub(crate) app: usize,
    pub(crate) slot: SlotId,
    pub(crate) address: SocketAddr,
    pub(crate) backlog: Backlog,
}

#[derive(Default)]
pub(crate) struct DaemonState {
    pub(crate) apps: Vec<App>,
    pub(crate) local_pairs: BTreeMap<RegionId, LocalPair>,
    pub(crate) listeners: Vec<Listening>,
    pub(crate) next_port: u16,
    pub(crate) log2_max: u32,
    /// What a descriptor that comes from elsewhere stands for.
    pub(crate) adopted: Option<(RegionId, SlotId)>,
}

impl DaemonState {
    pub(crate) fn words(&self, app: usize, slot: SlotId) -> &SlotWords {
        self.apps[app].server.memory().slot(slot).expect("it was lent")
    }

    /// A process says who it is.
    pub(crate) fn welcome(&mut self, peer: Peer) {
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
    pub(crate) fn serve(&mut self, app: usize) {
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

    pub(crate) fn answer(
        &mut self,
        app: usize,
        call: &Call,
        fd: Option<OwnedFd>,
    ) -> (Reply, Vec<OwnedFd>) {
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
                Some((region, slot)) => {
                    (Reply::Slot { region: region.0, slot: slot.0 }, Vec::new())
                }
                None => (Reply::Kernel { reason: FallbackReason::NotOurs }, Vec::new()),
            },
            Call::Unlisten { .. } => (Reply::Done, Vec::new()),
            Call::Region { region } => match self.local_pairs.contains_key(&RegionId(*region)) {
                // Who accepts asks; who connects was told.
                true => {
                    let reply = Reply::Region { kind: RegionKind::LocalPair, side: 1 };
                    (reply, self.local_pair_fds(RegionId(*region), Side::One))
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
                (Reply::Slot { region: app as u32 + 1, slot: slot.0 }, Vec::new())
            }
            Call::Udp { remote } => {
                let slot = self.apps[app].lend(Kind::Datagram as u32);
                self.apps[app].set_up(slot);
                let words = self.words(app, slot);
                let address = rustix::net::getsockname(fd()).expect("it is bound");
                words.local.set(SocketAddr::try_from(address).ok());
                words.remote.set(*remote);
                (Reply::Slot { region: app as u32 + 1, slot: slot.0 }, Vec::new())
            }
            Call::Connect { remote } => self.connect(app, *remote),
        }
    }

    pub(crate) fn connect(&mut self, app: usize, remote: SocketAddr) -> (Reply, Vec<OwnedFd>) {
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
            return (Reply::Slot { region, slot: slot.0 }, Vec::new());
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
        let entry = Entry { region: RegionId(listener as u32 + 1), slot: accepted };
        self.announce(to, entry);
        (Reply::Slot { region, slot: slot.0 }, Vec::new())
    }

    pub(crate) fn announce(&mut self, to: usize, entry: Entry) {
        let Listening { app, slot, backlog, .. } = &self.listeners[to];
        let app = &self.apps[*app];
        let words = app.server.memory().slot(*slot).expect("it was lent");
        assert!(backlog.push(app.server.memory(), words, entry), "the backlog has room");
        app.notify(*slot);
    }

    /// A connection that stands.
    pub(crate) fn open(&mut self, app: usize, local: SocketAddr, remote: SocketAddr) -> SlotId {
        let slot = self.apps[app].lend(Kind::Stream as u32 | SlotState::CONNECTED);
        let log2_max = self.log2_max;
        self.apps[app].set_up(slot);
        let words = self.words(app, slot);
        words.tx_log2_max.store(log2_max, Ordering::Relaxed);
        words.local.set(Some(local));
        words.remote.set(Some(remote));
        slot
    }

    pub(crate) fn connect_locally(
        &mut self,
        to: usize,
        local: SocketAddr,
    ) -> (Reply, Vec<OwnedFd>) {
        let id = RegionId(1000);
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
        for (own, slot) in [slot, slot.next()].into_iter().enumerate() {
            let words = local_pair.server.memory().slot(slot).expect("it was lent");
            let other = 1 - own;
            words.rx_ring.store(rings[other], Ordering::Relaxed);
            words.tx_ring.store(rings[own], Ordering::Relaxed);
            words.local.set(Some(addresses[own]));
            words.remote.set(Some(addresses[other]));
            let state = Kind::Stream as u32 | SlotState::CONNECTED | SlotState::LOCAL;
            words.state.store(state, Ordering::Release);
        }
        self.announce(to, Entry { region: id, slot: slot.next() });
        (Reply::Slot { region: id.0, slot: slot.0 }, self.local_pair_fds(id, Side::Zero))
    }

    pub(crate) fn local_pair_fds(&self, region: RegionId, side: Side) -> Vec<OwnedFd> {
        let local_pair = &self.local_pairs[&region];
        let own = side as usize;
        let fds = [
            local_pair.server.memory().descriptor(),
            local_pair.wakes[1 - own].as_fd(),
            local_pair.wakes[own].as_fd(),
        ];
        fds.map(|fd| fd.try_clone_to_owned().expect("descriptors are left")).into()
    }

    pub(crate) fn flow(&mut self, app: usize, slot: SlotId) -> &mut Flow {
        self.apps[app].flows.get_mut(&slot).expect("it was set up")
    }

    /// Carries bytes between the ends of connections; whether there was anything.
    pub(crate) fn pump(&mut self, app: usize) -> bool {
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

    pub(crate) fn look(&mut self, app: usize, slot: SlotId) {
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
            words.asks.fetch_and(!Asks::GROW, Ordering::AcqRel);
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

    pub(crate) fn carry(&mut self, from: (usize, SlotId), to: (usize, SlotId)) {
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
