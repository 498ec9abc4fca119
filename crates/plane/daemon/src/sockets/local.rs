//! Connections within this host: two applications share a region, a *local pair*, and the daemon
//! stands aside.
//!
//! Each side knows the region by a number of its own, so that a program may be connected to itself. A
//! connection is a pair of slots: the first is the connecting side's, the second the accepting side's.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use attach::{FallbackReason, RegionKind, Reply};
use rustix::io::Errno;
use shm::sockets::{
    Asks, Entry, Heap, Kind, Quota, RingMemory, Side, SlotOption, SlotState, SlotWords,
    SocketServer, SocketSizes,
};
use sys::eventfd::EventFd;
use sys::futex::{self, Scope};
use sys::socket;

use super::calls::{Answer, Context, Refusal};
use super::ends::Nameless;
use super::examine::{Examined, covers};
use super::names::SlotKey;
use super::notifier::Pipes;
use super::records::{Record, What};
use super::table::{Region, SocketTable};
use crate::attach_server_counters::AttachServerEvent;

/// Connections of one local pair, at most.
const PAIRS_MAX: u32 = 8192;

/// Descriptors of a local pair: its memory and the two ways to wake a side.
const DESCRIPTORS: usize = 3;

/// Bytes of each of a connection's two rings, as a logarithm: what is wished for, and what it may be when memory
/// is short.
const RING_LOG2: [u8; 2] = [18, 14];

const SIDES: [Side; 2] = [Side::Zero, Side::One];

/// A region of two applications.
pub(super) struct LocalPair {
    server: SocketServer,
    ends: [End; 2],
    /// By the number of the first slot.
    pairs: BTreeMap<u32, Pair>,
    /// The first slots of those whose accepted end has no name yet.
    unnamed: BTreeSet<u32>,
    /// Whose both sides are.
    uid: u32,
}

/// One application's side.
struct End {
    app: u16,
    region: u32,
    /// How the other side wakes this side's pollers. Both have it, and can have whoever writes
    /// there wait: the daemon never does.
    wake: EventFd,
    /// How the daemon wakes them.
    pipes: Arc<Pipes>,
    is_gone: bool,
}

struct Pair {
    rings: [RingMemory; 2],
    is_named: [bool; 2],
    is_over: [bool; 2],
}

impl LocalPair {
    /// What its sockets take is counted for `quota`: that of who connects.
    fn create(ends: [End; 2], uid: u32, memory_mib: u32, quota: Arc<Quota>) -> Option<Self> {
        let sizes = SocketSizes {
            slots: 2 * PAIRS_MAX,
            pollers: shm::sockets::POLLERS_MAX,
            sides: 2,
            workers: 0,
            ring_bytes: u64::from(memory_mib.clamp(1, 1 << 16)) << 20,
        };
        let server = SocketServer::within("local_pair", sizes, quota).ok()?;
        Some(Self { server, ends, pairs: BTreeMap::new(), unnamed: BTreeSet::new(), uid })
    }

    /// Whose a side is.
    pub(super) fn app(&self, side: Side) -> u16 {
        self.ends[side as usize].app
    }

    /// What is said about the region to a side.
    pub(super) fn describe(&self, side: Side) -> Reply {
        Reply::Region { kind: RegionKind::LocalPair, side: side as u8 }
    }

    /// Adds what a side needs: the memory, how to wake the other side, how it is woken.
    pub(super) fn give(&self, side: Side, answer: Answer) -> rustix::io::Result<Answer> {
        let own = side as usize;
        answer
            .with(self.server.memory().descriptor())?
            .with(self.ends[1 - own].wake.as_fd())?
            .with(self.ends[own].wake.as_fd())
    }

    /// Whether a socket of the application lives here that a descriptor stands for.
    pub(super) fn has_named_end(&self, app: u16) -> bool {
        self.pairs.values().any(|pair| {
            (0..2).any(|at| self.ends[at].app == app && pair.is_named[at] && !pair.is_over[at])
        })
    }

    /// The accepted ends of an application that have no name.
    pub(super) fn unnamed_of(&self, app: u16) -> impl Iterator<Item = Nameless> {
        let End { app: accepting, region, .. } = self.ends[1];
        let firsts = self.unnamed.iter().filter(move |_| accepting == app);
        firsts.map(move |first| {
            let place = (region, first + 1);
            Nameless { place, generation: self.server.generation(place.1) }
        })
    }

    pub(super) fn words(&self, slot: u32) -> Option<&SlotWords> {
        self.server.memory().slot(slot)
    }

    /// A side's sockets that are not over.
    pub(super) fn slots(&self, side: Side) -> Vec<u32> {
        let living = self.pairs.iter().filter(|(_, pair)| !pair.is_over[side as usize]);
        living.map(|(first, _)| first + side as u32).collect()
    }

    /// Opens a connection: the number of its first slot.
    fn open(&mut self, local: SocketAddr, remote: SocketAddr, cookie: u64) -> Option<u32> {
        let heap = self.server.heap();
        let (out, back) = RING_LOG2.into_iter().find_map(|log2| lend_two(heap, log2))?;
        let Some(first) = self.server.lend_pair() else {
            heap.take_back(out);
            heap.take_back(back);
            return None;
        };
        let log2 = u32::from(out.desc().log2().unwrap_or_default());
        let halves = [(first, local, remote, &out, &back), (first + 1, remote, local, &back, &out)];
        for (slot, own, other, send, receive) in halves {
            let Some(words) = self.server.memory().slot(slot) else { continue };
            words.local.set(Some(own));
            words.remote.set(Some(other));
            words.rx_ring.store(receive.desc().word(), Ordering::Relaxed);
            words.tx_ring.store(send.desc().word(), Ordering::Relaxed);
            words.tx_ring_used.store(send.desc().word(), Ordering::Relaxed);
            words.tx_log2_max.store(log2, Ordering::Relaxed);
        }
        if let Some(words) = self.words(first) {
            words.cookie.store(cookie, Ordering::Relaxed);
        }
        for slot in [first, first + 1] {
            let state = Kind::Stream as u32 | SlotState::CONNECTED | SlotState::LOCAL;
            if let Some(words) = self.words(slot) {
                words.state.store(state, Ordering::Release);
            }
        }
        let rings = [out, back];
        self.unnamed.insert(first);
        self.pairs.insert(first, Pair { rings, is_named: [true, false], is_over: [false; 2] });
        Some(first)
    }

    /// One end is over: the other learns it. True: so are both, and the pair is free.
    fn end(&mut self, slot: u32) -> bool {
        let (first, own) = (slot & !1, (slot & 1) as usize);
        let Some(pair) = self.pairs.get_mut(&first) else { return false };
        if std::mem::replace(&mut pair.is_over[own], true) {
            return false;
        }
        if !pair.is_over[1 - own] {
            if let Some(words) = self.words(slot) {
                words.asks.fetch_or(Asks::CLOSE, Ordering::AcqRel);
            }
            self.tell(slot ^ 1);
            return false;
        }
        self.unnamed.remove(&first);
        if let Some(pair) = self.pairs.remove(&first) {
            pair.rings.into_iter().for_each(|ring| self.server.heap().take_back(ring));
        }
        self.server.take_back_slot(first);
        self.server.take_back_slot(first + 1);
        true
    }

    /// Tells whoever waits for a slot that there is news.
    fn tell(&self, slot: u32) {
        let (memory, side) = (self.server.memory(), SIDES[(slot & 1) as usize]);
        let Some(words) = memory.slot(slot) else { return };
        fence(Ordering::SeqCst);
        for (at, word) in words.pollers.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let poller = at as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let ready_bits = memory.poller(side, poller);
                if ready_bits
                    .is_some_and(|ready_bits| ready_bits.set(slot) && ready_bits.claim_wake())
                {
                    self.ends[side as usize].pipes.ring(poller);
                }
            }
        }
        if words.sleepers.swap(0, Ordering::Relaxed) != 0 {
            words.notify_word.fetch_add(1, Ordering::Release);
            futex::wake(&words.notify_word, Scope::Shared, u32::MAX);
        }
    }

    /// Accepted ends whose descriptor has been named since the last look: slot and cookie.
    fn learn(&mut self) -> Vec<(u32, u64)> {
        let memory = self.server.memory();
        let mut learned = Vec::new();
        let pairs = &mut self.pairs;
        self.unnamed.retain(|first| {
            let (Some(words), Some(pair)) = (memory.slot(first + 1), pairs.get_mut(first)) else {
                return false;
            };
            let is_named = words.asks().has(Asks::NAMED);
            if is_named {
                pair.is_named[1] = true;
                learned.push((first + 1, words.cookie.load(Ordering::Relaxed)));
            }
            !is_named
        });
        learned
    }

    /// Whether it has no connections.
    pub(super) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    fn is_over(&self) -> bool {
        self.ends.iter().all(|end| end.is_gone)
            || (self.pairs.is_empty() && self.ends.iter().any(|end| end.is_gone))
    }
}

/// Two rings, or none.
fn lend_two(heap: &Heap, log2: u8) -> Option<(RingMemory, RingMemory)> {
    let one = heap.lend(log2)?;
    match heap.lend(log2) {
        Some(other) => Some((one, other)),
        None => {
            heap.take_back(one);
            None
        }
    }
}

impl SocketTable {
    /// Connects to a program on this host, if it listens here.
    pub(super) fn connect_within(
        &mut self,
        context: &mut Context<'_>,
        examined: &Examined,
        remote: SocketAddr,
        source: IpAddr,
    ) -> Result<Answer, Refusal> {
        let app = self.apps.get(&context.member.app).ok_or(Refusal::Errno(Errno::INVAL))?;
        if !app.tenant.may_connect(remote) {
            return Err(Refusal::denied(app.tenant.denied));
        }
        let nobody = FallbackReason::LoopbackPeerNotAccelerated;
        let (listening, accepting) = self.listener_at(remote, examined.cookie).ok_or(nobody)?;
        if self.apps.get(&accepting).is_none_or(|other| other.uid != app.uid) {
            // Each could write the other's words, its locks and settings too.
            return Err(FallbackReason::OtherUser.into());
        }
        let number = self.local_pair(app.number(), accepting).ok_or(FallbackReason::NoMemory)?;
        let local = match examined.local.port() {
            0 => socket::bind(examined.socket.as_fd(), SocketAddr::new(source, 0))
                .map(socket::canonical)
                .map_err(|error| Refusal::Errno(error.errno()))?,
            port => SocketAddr::new(source, port),
        };
        let local_pair = self.local_pairs.get_mut(&number).ok_or(FallbackReason::NoMemory)?;
        let first = local_pair.open(local, remote, examined.cookie);
        let first = first.ok_or(FallbackReason::TooManySockets)?;
        let [own, other] = [local_pair.ends[0].region, local_pair.ends[1].region];
        if !self.announce(listening, Entry { region: other, slot: first + 1 }, number) {
            if let Some(local_pair) = self.local_pairs.get_mut(&number) {
                local_pair.end(first);
                local_pair.end(first + 1);
            }
            // The kernel's listener has a queue of its own.
            return Err(nobody.into());
        }
        let record = Record {
            app: context.member.app,
            generation: 0,
            cookie: examined.cookie,
            inode: examined.inode,
            what: What::Local,
        };
        self.records.insert((own, first), record);
        let answer = Answer::new(Reply::Slot { region: own, slot: first });
        if !context.member.knows.insert(own) {
            return Ok(answer);
        }
        let local_pair = self.local_pairs.get(&number).ok_or(FallbackReason::NoMemory)?;
        local_pair.give(Side::Zero, answer).map_err(Refusal::Errno)
    }

    /// Who listens at an address of this host: the place, and the application. Who listens at just that
    /// address goes before those who listen at all; several share by the socket that connects.
    fn listener_at(&self, address: SocketAddr, cookie: u64) -> Option<(SlotKey, u16)> {
        let fits = self.records.listeners().filter(|(_, record, listener)| {
            listener.local.port() == address.port()
                && covers(listener.local.ip(), listener.takes, address.ip())
                && self
                    .apps
                    .get(&record.app)
                    .is_some_and(|app| app.tenant.may_listen(app.uid, address))
        });
        let mut fits: Vec<_> = fits.collect();
        if fits.iter().any(|(.., listener)| !listener.local.ip().is_unspecified()) {
            fits.retain(|(.., listener)| !listener.local.ip().is_unspecified());
        }
        let at = usize::try_from(cookie).unwrap_or(0) % fits.len().max(1);
        fits.get(at).map(|(place, record, _)| (*place, record.app))
    }

    /// The local pair between two applications; a new one if there is none.
    fn local_pair(&mut self, connecting: u16, accepting: u16) -> Option<u32> {
        let is_it = |local_pair: &LocalPair| {
            let [one, other] = &local_pair.ends;
            (one.app, other.app) == (connecting, accepting) && !one.is_gone && !other.is_gone
        };
        if let Some((number, _)) = self.local_pairs.iter().find(|(_, local_pair)| is_it(local_pair))
        {
            return Some(*number);
        }
        let memory = |app: u16| self.apps.get(&app).map(|app| app.tenant.memory_mib);
        let memory_mib = memory(connecting)?.min(memory(accepting)?);
        let uid = self.apps.get(&connecting)?.uid;
        if !self.descriptors.has_room(uid, DESCRIPTORS) {
            self.table_config.counters.count(AttachServerEvent::DescriptorShareUsedUp);
            return None;
        }
        let regions = [self.new_region()?, self.new_region()?];
        let end = |app: u16, region| {
            let pipes = Arc::clone(&self.apps.get(&app)?.pipes);
            Some(End { app, region, wake: EventFd::new().ok()?, pipes, is_gone: false })
        };
        let ends = [end(connecting, regions[0])?, end(accepting, regions[1])?];
        let quota = Arc::clone(&self.apps.get(&connecting)?.quota);
        let local_pair = LocalPair::create(ends, uid, memory_mib, quota)?;
        self.descriptors.take(uid, DESCRIPTORS);
        // The number is as unique as the regions' are.
        let number = regions[0];
        for (region, side) in regions.into_iter().zip(SIDES) {
            self.regions.insert(region, Region::LocalPair(number, side));
        }
        self.local_pairs.insert(number, local_pair);
        Some(number)
    }

    /// Adds a connection to those that wait at a listener.
    fn announce(&self, place: SlotKey, entry: Entry, number: u32) -> bool {
        let Some(record) = self.records.get(place) else { return false };
        let (What::Listener(listener), Some(app)) = (&record.what, self.apps.get(&record.app))
        else {
            return false;
        };
        let Some(words) = app.words(place.1) else { return false };
        let local_pair = self.local_pairs.get(&number);
        if let Some(accepted) = local_pair.and_then(|local_pair| local_pair.words(entry.slot)) {
            inherit(words, accepted);
        }
        let is_added = listener.backlog.push(app.streams.server.memory(), words, entry);
        if is_added {
            app.tell(place.1);
        }
        is_added
    }

    /// The end of a connection within this host, at `place`, is over, if it is that application's.
    pub(super) fn end_local(&mut self, place: SlotKey, app: u16) {
        let (region, slot) = place;
        let Some(Region::LocalPair(number, side)) = self.regions.get(&region).copied() else {
            return;
        };
        let Some(local_pair) = self.local_pairs.get_mut(&number) else { return };
        if local_pair.app(side) != app || slot & 1 != side as u32 {
            return;
        }
        local_pair.end(slot);
        self.records.remove(place);
        self.sweep_local_pairs();
    }

    /// Accepted ends that were named since the last look get their records.
    pub(super) fn learn_names(&mut self) {
        let mut late = Vec::new();
        for local_pair in self.local_pairs.values_mut() {
            let End { app, region, .. } = local_pair.ends[1];
            for (slot, cookie) in local_pair.learn() {
                let what = What::Local;
                let record = Record { app, generation: 0, cookie, inode: 0, what };
                if !self.records.insert((region, slot), record) {
                    late.push(((region, slot), app));
                }
            }
        }
        for (place, app) in late {
            self.end_local(place, app);
        }
    }

    /// An application goes: its ends are over.
    pub(super) fn end_local_pairs_of(&mut self, app: u16) {
        for local_pair in self.local_pairs.values_mut() {
            for at in 0..2 {
                if local_pair.ends[at].app != app {
                    continue;
                }
                local_pair.ends[at].is_gone = true;
                let region = local_pair.ends[at].region;
                self.regions.remove(&region);
                let slots: Vec<u32> =
                    local_pair.pairs.keys().map(|first| first + at as u32).collect();
                for slot in slots {
                    local_pair.end(slot);
                    self.records.remove((region, slot));
                }
            }
        }
        self.sweep_local_pairs();
    }

    fn sweep_local_pairs(&mut self) {
        let Self { regions, descriptors, .. } = self;
        self.local_pairs.retain(|_, local_pair| {
            let is_over = local_pair.is_over();
            if is_over {
                local_pair.server.memory().end(attach::DetachReason::Left.number());
                local_pair.ends.iter().for_each(|end| _ = regions.remove(&end.region));
                descriptors.give_back(local_pair.uid, DESCRIPTORS);
            }
            !is_over
        });
    }
}

/// What an accepted socket has from its listener: all but what belongs to the descriptor.
fn inherit(from: &SlotWords, to: &SlotWords) {
    for (value, place) in from.options.iter().zip(&to.options) {
        place.store(value.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    // Timeouts of accept are the listener's own.
    for own in [SlotOption::ReceiveTimeout, SlotOption::SendTimeout] {
        to.options[own as usize].store(0, Ordering::Relaxed);
    }
}
