//! Gives connections to the kernel when the daemon ends: their programs and peers notice nothing.
//!
//! For each connection: nobody of its program copies any more ([`shm::sockets::seize`]), its worker
//! lets it go and says what it was, and the socket of the program's own descriptor, which was never
//! connected, goes on with it ([`sys::tcp_repair`]). Meanwhile nobody answers its peer, who sends
//! again what that costs. From the moment at which the kernel's socket has the name, packets are
//! its: the interfaces' programs ask. Last, the program is told by a flag in the slot, and uses its
//! descriptor as any other from then on.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType};
use shm::sockets::{Asks, SlotState, SlotWords, release, seize};
use stack::{Command, LetGo, Parcel};
use sys::SysError;
use sys::tcp_repair::{Record as KernelRecord, Repaired, Window};
use tcp::Repair;

use super::super::app::App;
use super::super::names::SlotKey;
use super::super::peer_ends::PeerEnds;
use super::super::records::What;
use super::SocketTable;
use crate::apps::Claims;
use crate::attach_server_counters::AttachServerEvent as Event;
use crate::log;
use crate::open_sockets::OpenSockets;

/// All connections together get so long, or `sockets.drain_ms` if that is less: then the workers
/// end.
const ALL_WITHIN: Duration = Duration::from_secs(5);

/// Connections that are under way at once: none is answered by anybody for longer than these take.
const BATCH: usize = 32;

/// The programs of a batch get so long to end the copies that they are in the middle of, and
/// workers to let go.
const SEIZED_WITHIN: Duration = Duration::from_millis(50);
const LET_GO_WITHIN: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// What workers have let go of is here so soon after they have heard of it.
const ORPHANS_WITHIN: Duration = Duration::from_millis(5);

/// A segment that comes while a socket is made ready can spoil that; nobody has heard of it then.
const TRIES: usize = 5;

/// A connection and a copy of its program's descriptor.
struct Candidate {
    place: SlotKey,
    app: u16,
    generation: u32,
    socket: OwnedFd,
}

impl SocketTable {
    /// Gives all connections to the kernel that it can go on with. `lives` says whether the number
    /// of a process is still that of the process which attached.
    pub(crate) fn give_to_kernel(&mut self, claims: &mut Claims, lives: &dyn Fn(u32) -> bool) {
        let now = sys::clock::now();
        self.hear_workers(now);
        self.learn_names();
        let before = self.endings.given.counts();
        claims.leave_connections();
        self.table_config.command_queue.command(&Command::BeSilent);
        self.table_config.await_workers();
        let drain = Duration::from_millis(self.table_config.config.sockets.drain_ms.into());
        let until = Instant::now() + ALL_WITHIN.min(drain);
        // It is asked while the table changes.
        let mut looker =
            std::mem::replace(&mut self.table_config.open_sockets, OpenSockets::Nobody);
        let apps: Vec<u16> = self.apps.iter().map(App::number).collect();
        for app in apps {
            self.give_app(app, &mut looker, claims, lives, until);
        }
        self.table_config.open_sockets = looker;
        self.give_orphans(claims);
        let after = self.endings.given.counts();
        let [given, kept] = [0, 1].map(|at| after[at] - before[at]);
        if given + kept > 0 {
            tracing::info!(
                target: log::SOCKETS,
                given,
                kept,
                "the kernel goes on with {given} connections; {kept} stay, and are reset at the end"
            );
        }
    }

    /// Those of one application.
    fn give_app(
        &mut self,
        number: u16,
        looker: &mut OpenSockets,
        claims: &mut Claims,
        lives: &dyn Fn(u32) -> bool,
        until: Instant,
    ) {
        let Some(app) = self.apps.get(number) else { return };
        let region = app.region();
        // While a socket is repaired, whoever has it may bind and connect it as only the kernel's
        // own rights allow: to another user's port, among others.
        let is_trusted = app.uid == 0;
        let mut wanted: BTreeMap<u64, (SlotKey, u32)> = BTreeMap::new();
        let (mut deaf, mut local, mut others) = (0, 0, 0);
        for (place, record) in self.records.of_region(region) {
            match record.what {
                What::Stream if !is_trusted => others += 1,
                What::Stream if app.words(place.1).is_some_and(follows) => {
                    wanted.insert(record.cookie, (place, record.generation));
                }
                What::Stream => deaf += 1,
                What::Local => local += 1,
                What::Listener(_) | What::Unsent | What::Datagram(_) => {}
            }
        }
        let pids = app.pids.clone();
        self.count_kept(Event::HandOverLibrary, deaf);
        self.count_kept(Event::HandOverLocal, local);
        self.count_kept(Event::HandOverUser, others);
        if !is_trusted {
            return;
        }
        let mut batch = Vec::new();
        let asked = looker.copies(&pids, |pid, socket| {
            let cookie = sys::socket::cookie_of(socket.as_fd()).unwrap_or_default();
            // Only of a process that lives after its descriptor was copied is it known whose it is.
            if !wanted.contains_key(&cookie) || !lives(pid) {
                return !wanted.is_empty();
            }
            let Some((place, generation)) = wanted.remove(&cookie) else { return true };
            batch.push(Candidate { place, app: number, generation, socket });
            if batch.len() == BATCH {
                self.give_batch(std::mem::take(&mut batch), claims, until);
            }
            !wanted.is_empty() && Instant::now() < until
        });
        self.give_batch(batch, claims, until);
        if let Err(error) = asked {
            tracing::warn!(
                target: log::SOCKETS,
                app = number,
                "the descriptors of application {number} are not known: {error}"
            );
        }
        self.count_kept(Event::HandOverDescriptor, wanted.len() as u64);
    }

    fn give_batch(&mut self, batch: Vec<Candidate>, claims: &mut Claims, until: Instant) {
        let mut seized: BTreeMap<SlotKey, Candidate> = BTreeMap::new();
        let mut left = batch;
        let give_up = (Instant::now() + SEIZED_WITHIN).min(until);
        loop {
            for candidate in std::mem::take(&mut left) {
                match self.words_of(&candidate).is_some_and(seize_both) {
                    true => _ = seized.insert(candidate.place, candidate),
                    false => left.push(candidate),
                }
            }
            if left.is_empty() || Instant::now() >= give_up {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        self.count_kept(Event::HandOverBusy, left.len() as u64);
        for Candidate { app, socket, .. } in left {
            self.close_later(self.apps.get(app).map_or(0, |app| app.uid), socket);
        }
        for Candidate { app, place, generation, .. } in seized.values() {
            let (app, slot, generation) = (*app, place.1, *generation);
            self.table_config.command_queue.command(&Command::HandOver { app, slot, generation });
        }
        let give_up = Instant::now() + LET_GO_WITHIN;
        while !seized.is_empty() && Instant::now() < give_up {
            let parcels = self.table_config.command_queue.take_parcels();
            if parcels.is_empty() {
                std::thread::sleep(LOOK_EVERY);
            }
            for parcel in parcels {
                let place = (parcel.app.region, parcel.slot);
                let Some(candidate) = seized.remove(&place) else {
                    self.lose(parcel);
                    continue;
                };
                self.finish(candidate, parcel, claims);
            }
        }
        for candidate in seized.into_values() {
            // Its worker has lost it just now, or has too much to do: it goes on as it is.
            self.words_of(&candidate).into_iter().for_each(release_both);
            self.count_kept(Event::HandOverBusy, 1);
            let user = self.apps.get(candidate.app).map_or(0, |app| app.uid);
            self.close_later(user, candidate.socket);
        }
    }

    /// A worker was too late, and nobody has that connection any more: its program is told.
    fn lose(&mut self, parcel: Parcel) {
        let Ok(let_go) = parcel.connection else { return };
        let_go.give_back();
        let app = self.apps.get(parcel.app.app);
        app.into_iter().for_each(|app| app.fail(parcel.slot, Errno::CONNRESET));
        self.endings.given.add_lost(parcel.app.app);
    }

    /// A worker has answered.
    fn finish(&mut self, candidate: Candidate, parcel: Parcel, claims: &mut Claims) {
        let Candidate { app: number, place, generation, socket } = candidate;
        let Some(app) = self.apps.get(number) else { return };
        let Some(words) = app.words(place.1) else { return };
        let Ok(let_go) = parcel.connection else {
            release_both(words);
            self.count_kept(Event::HandOverState, 1);
            return;
        };
        let asks = words.asks();
        let key = (number, place.1, generation);
        let claimed = &mut self.claimed.holds;
        let descriptors = &mut self.descriptors;
        let name_is_known = || {
            if let_go.was_opened {
                claimed.give_to_kernel(key, claims, descriptors);
            }
        };
        let given = give(&let_go, asks, &socket, &self.endings.given.peer_ends, name_is_known);
        let_go.give_back();
        let Some(app) = self.apps.get(number) else { return };
        let Some(words) = app.words(place.1) else { return };
        match given {
            Ok(()) => {
                let is_nonblocking =
                    words.file_flags.load(Ordering::Relaxed) & OFlags::NONBLOCK.bits() != 0;
                let flags = if is_nonblocking { OFlags::NONBLOCK } else { OFlags::empty() };
                let _ = rustix::fs::fcntl_setfl(&socket, flags);
                words.state.fetch_or(SlotState::KERNELS, Ordering::AcqRel);
                app.tell(place.1);
                self.endings.given.add(number);
                self.table_config.counters.count(Event::HandedOver);
            }
            Err(error) => {
                tracing::warn!(target: log::SOCKETS, app = number, "a connection is lost: {error}");
                app.fail(place.1, Errno::CONNRESET);
                release_both(words);
                self.endings.given.add_lost(number);
                self.count_kept(Event::HandOverRefused, 1);
            }
        }
        self.close_later(parcel.app.user, socket);
    }

    /// Those that their programs have closed: the kernel brings what is left to their peers, as it
    /// does for its own.
    fn give_orphans(&mut self, claims: &mut Claims) {
        let command_queue = self.table_config.command_queue.clone();
        command_queue.command(&Command::HandOverOrphans);
        self.table_config.await_workers();
        std::thread::sleep(ORPHANS_WITHIN);
        for parcel in command_queue.take_parcels() {
            let record = self.records.get((parcel.app.region, parcel.slot));
            if record.is_some_and(|record| record.generation == parcel.generation) {
                // No orphan, but one of those above.
                self.lose(parcel);
                continue;
            }
            let Parcel { app, slot, generation, connection } = parcel;
            let Ok(let_go) = connection else { continue };
            let family = match let_go.repair.key.is_ipv6() {
                false => AddressFamily::INET,
                true => AddressFamily::INET6,
            };
            let flags = SocketFlags::CLOEXEC;
            let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None);
            let key = (app.app, slot, generation);
            let holds = &mut self.claimed.holds;
            let descriptors = &mut self.descriptors;
            let name_is_known = || {
                if let_go.was_opened {
                    holds.give_to_kernel(key, claims, descriptors);
                }
            };
            let asks = Asks(Asks::SHUT_WRITE);
            let given = socket.is_ok_and(|socket| {
                give(&let_go, asks, &socket, &self.endings.given.peer_ends, name_is_known).is_ok()
            });
            let_go.give_back();
            match given {
                true => self.endings.given.add_orphan(),
                false => self.endings.given.add_kept(1),
            }
            let event = if given { Event::HandedOver } else { Event::HandOverRefused };
            self.table_config.counters.count(event);
        }
    }

    fn words_of(&self, candidate: &Candidate) -> Option<&SlotWords> {
        self.apps.get(candidate.app)?.words(candidate.place.1)
    }

    fn count_kept(&mut self, event: Event, count: u64) {
        self.table_config.counters.add(event, count);
        self.endings.given.add_kept(count);
    }
}

fn follows(words: &SlotWords) -> bool {
    words.follows.load(Ordering::Acquire) != 0
}

/// Keeps its program from copying into its rings and out of them; false: it is in the middle of
/// that.
fn seize_both(words: &SlotWords) -> bool {
    if !seize(&words.rx_lock) {
        return false;
    }
    let is_seized = seize(&words.tx_lock);
    if !is_seized {
        release(&words.rx_lock);
    }
    is_seized
}

fn release_both(words: &SlotWords) {
    release(&words.rx_lock);
    release(&words.tx_lock);
}

/// Has `socket` go on with a connection. `is_named` is called when the kernel knows its name.
fn give(
    let_go: &LetGo,
    asks: Asks,
    socket: &OwnedFd,
    peer_ends: &PeerEnds,
    is_named: impl FnOnce(),
) -> Result<(), SysError> {
    let repair = &let_go.repair;
    let (unread, queued) = (let_go.unread(), let_go.queued());
    let (sent, unsent) = queued.split_at((repair.sent_bytes as usize).min(queued.len()));
    let record = record(repair, unread.len(), queued.len(), let_go.was_opened);
    let mut tries = TRIES;
    let repaired = loop {
        tries -= 1;
        match Repaired::begin(socket.as_fd(), &record, &unread, sent) {
            Ok(repaired) => break repaired,
            Err(error) if tries == 0 => return Err(error),
            Err(_) => {}
        }
    };
    is_named();
    repaired.go_on(unsent)?;
    if repair.has_peer_closed {
        peer_ends.tell(repair, socket.as_fd())?;
    }
    // One that its peer has reset by now is told so by the next call.
    if repair.is_shut || asks.has(Asks::SHUT_WRITE) {
        let _ = rustix::net::shutdown(socket, Shutdown::Write);
    }
    if asks.has(Asks::SHUT_READ) {
        let _ = rustix::net::shutdown(socket, Shutdown::Read);
    }
    Ok(())
}

/// What the kernel is to know.
fn record(repair: &Repair, unread: usize, queued: usize, was_opened: bool) -> KernelRecord {
    let window = &repair.window;
    KernelRecord {
        local: repair.key.destination(),
        remote: repair.key.source(),
        send_first: repair.send_first.0,
        receive_first: repair.receive_first.0,
        mss: repair.mss,
        shifts: repair.shifts,
        sack: repair.sack,
        timestamp: repair.timestamp,
        window: Window {
            snd_wl1: window.snd_wl1.0,
            snd_wnd: window.snd_wnd,
            max_window: window.snd_wnd_max,
            rcv_wnd: window.rcv_wnd,
            rcv_wup: window.rcv_wup.0,
        },
        room: [unread + window.rcv_wnd as usize, queued],
        // A listener may come back beside the connections that it has accepted.
        reuses_address: !was_opened,
    }
}
