//! The daemon is dead: the kernel goes on with the connections of its programs.
//!
//! As at an end in order ([`crate::sockets`], `to_kernel.rs`), with two differences: no worker is
//! asked what a connection was, since its record says so, and all that a worker would do in its
//! last look at a slot is done here, by the same rules.

mod asked;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

use attach::DetachReason;
use base::{AppId, SlotId};
use port::xdp::{Flow, Protocol};
use shm::sockets::{Kind, SEIZED, Side, SlotState, SlotWords};
use stack::{Heritage, Inherited, Notifier};
use sys::futex::{self, Scope};
use sys::{clock, socket_options};

use super::counts::Counts;
use super::held::Held;
use super::leave::{leave_all_to_kernel, leave_to_kernel};
use super::mapped::{Mapped, in_turn};
use super::process::say;
use crate::apps::GIVEN_BYTES_MAX;
use crate::open_sockets::OpenSockets;
use crate::sockets::aside::{Aside, Passed};
use crate::sockets::budget::Budget;
use crate::sockets::closer::Closer;
use crate::sockets::raw_segments::RawSegments;
use crate::sockets::successor::{self, follows, give, is_nonblocking, release_both, seize_both};
use crate::sockets::tell::tell;

/// For descriptors, and for programs in the middle of a copy, nobody waits after this.
const ALL_WITHIN: Duration = Duration::from_secs(5);

/// What does not stand after this is lost: its peers have waited for long enough, and so has the
/// next daemon.
const DONE_WITHIN: Duration = Duration::from_secs(8);

/// Nobody looks longer for the descriptors of one user's applications while another's wait.
const USER_COPIED_WITHIN: Duration = Duration::from_secs(1);

/// The programs of one user get so long to end the copies that they are in the middle of.
const USER_SEIZED_WITHIN: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// Connections that are under way at once: each is a copy of two rings.
const BATCH: usize = 32;

/// A connection, a copy of its program's descriptor, and who has it.
struct Candidate {
    slot: SlotId,
    cookie: u64,
    heritage: Heritage,
    socket: Passed,
    holders: Vec<u32>,
}

/// One whose program copies no more, with the socket that it is to go on in.
struct Ready {
    candidate: Candidate,
    successor: OwnedFd,
}

/// One that the kernel has, of which its program has not been told.
struct Standing {
    candidate: Candidate,
    socket: Passed,
    has_peer_closed: bool,
}

/// Wakes an application's sleepers.
struct Ringer<'a> {
    held: &'a Held,
    app: AppId,
}

impl Notifier for Ringer<'_> {
    fn poller(&self, _: Side, poller: u32) {
        let mut all = self.held.pollers.iter();
        if let Some(found) = all.find(|one| one.app == self.app && one.number == poller) {
            // Full means woken already.
            let _ = rustix::io::write(&found.pipe, &[1]);
        }
    }

    fn futex(&self, word: &AtomicU32) {
        futex::wake(word, Scope::Shared, u32::MAX);
    }
}

/// Gives all connections to the kernel that it can go on with, says so in one line, and lets go of
/// everything.
pub(super) fn all(mut held: Held, looker: OpenSockets, raw_segments: &RawSegments) {
    let begun = Instant::now();
    leave_to_kernel(&held);
    let threads = Closer::start().and_then(|closer| Ok((closer, Aside::start()?)));
    let (closer, aside) = match threads {
        Ok(threads) => threads,
        Err(error) => return say(format_args!("the guardian: {error}")),
    };
    let mut rescue = Rescue {
        held: &held,
        looker,
        raw_segments,
        until: begun + ALL_WITHIN,
        done_until: begun + DONE_WITHIN,
        waited: BTreeMap::new(),
        looking: Budget::new(USER_COPIED_WITHIN),
        users: 0,
        counts: Counts::default(),
        closer,
        aside,
    };
    let mapped: Vec<Mapped<'_>> = held.apps.iter().filter_map(Mapped::of).collect();
    let turn = in_turn(&mapped);
    for (at, mapped) in turn.iter().enumerate() {
        let later: BTreeSet<u32> = turn[at..].iter().map(|later| later.app.uid).collect();
        rescue.users = later.len();
        rescue.give_app(mapped);
    }
    mapped.iter().for_each(|mapped| rescue.give_orphans(mapped));
    let Rescue { counts, closer, aside, .. } = rescue;
    for mapped in &mapped {
        // What was not given is over. Who is told so looks at its own connection first.
        mapped.memory.end(DetachReason::DaemonGone.number());
    }
    drop(mapped);
    let stood = begun.elapsed().as_millis();
    // To detach a program from an interface takes as long as others have the kernel's lock of all
    // interfaces (seen: 20 s), and no packets are to wait for that.
    leave_all_to_kernel(&held);
    held.let_go_of_interfaces();
    let took = begun.elapsed().as_millis();
    say(format_args!(
        "the daemon has died: {counts}, {stood} ms; the interfaces are free after {took} ms"
    ));
    // The last close of a connection may wait for its peer, but not at the end of a process.
    std::mem::forget((closer, aside));
}

pub(super) struct Rescue<'a> {
    held: &'a Held,
    looker: OpenSockets,
    pub(super) raw_segments: &'a RawSegments,
    until: Instant,
    done_until: Instant,
    /// By user: how long its programs have been waited for.
    waited: BTreeMap<u32, Duration>,
    /// How long their descriptors may be looked for.
    looking: Budget,
    /// Users whose turn has not come or is not over.
    users: usize,
    pub(super) counts: Counts,
    /// Closes programs' sockets, which may take as long as they like. It is to be soon: a set of
    /// epoll has a file until its last copy is closed.
    pub(super) closer: Closer,
    /// Asks programs' sockets, which may take as long.
    aside: Aside,
}

impl Rescue<'_> {
    /// Whether the time for all is over: what is left then is lost, so that the next daemon can
    /// begin.
    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= self.done_until
    }

    fn give_app(&mut self, mapped: &Mapped<'_>) {
        let mut wanted: BTreeMap<u64, (SlotId, Heritage)> = BTreeMap::new();
        for slot in (0..mapped.records.slots()).map(SlotId) {
            let record = mapped.records.get(slot).and_then(Heritage::read);
            let Some(heritage) = record.filter(|heritage| !heritage.is_orphan()) else { continue };
            let Some(words) = mapped.words(slot) else { continue };
            let state = words.state();
            // What the program says of itself here harms nobody else: its descriptor is looked for
            // in its own processes.
            let is_its = state.kind() == Kind::Stream
                && words.generation.load(Ordering::Relaxed) == heritage.generation().0;
            let cookie = words.cookie.load(Ordering::Relaxed);
            if !is_its || !follows(words) || cookie == 0 || wanted.contains_key(&cookie) {
                self.counts.unnamed += 1;
                continue;
            }
            wanted.insert(cookie, (slot, heritage));
        }
        if wanted.is_empty() {
            return;
        }
        for member in self.held.members_of(mapped.app.number) {
            sys::unix_socket::make_room(member.peer.as_fd(), GIVEN_BYTES_MAX);
        }
        let found = self.find(mapped, &mut wanted);
        for (slot, heritage) in wanted.into_values() {
            self.give_closed(mapped, slot, &heritage);
        }
        let mut found = found.into_iter();
        loop {
            let batch: Vec<Candidate> = found.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                break;
            }
            self.give_batch(mapped, batch);
        }
    }

    fn give_batch(&mut self, mapped: &Mapped<'_>, batch: Vec<Candidate>) {
        let mut rightful = Vec::new();
        for candidate in batch {
            if !mapped.has_right_to_port(&candidate.heritage) {
                self.counts.port += 1;
                self.closer.close(mapped.app.uid, candidate.socket);
                continue;
            }
            rightful.push(candidate);
        }
        let mut left = Vec::new();
        for (candidate, successor) in self.with_successors(mapped, rightful) {
            match successor {
                Some(Ok(successor)) => left.push(Ready { candidate, successor }),
                Some(Err(_)) => self.lose(mapped, candidate, |counts| &mut counts.refused),
                None => self.lose(mapped, candidate, |counts| &mut counts.busy),
            }
        }
        let mut standing = Vec::new();
        for ready in self.seize(mapped, left) {
            if self.is_late() {
                self.lose(mapped, ready.candidate, |counts| &mut counts.busy);
                continue;
            }
            standing.extend(self.go_on(mapped, ready));
        }
        let told = standing.iter().filter(|standing| standing.has_peer_closed);
        RawSegments::await_ends(told.map(|standing| standing.socket.as_fd()));
        for Standing { candidate, socket, has_peer_closed } in standing {
            // Without its peer's end it would wait for that for ever.
            let has_heard = !has_peer_closed || sys::tcp_repair::has_heard_end(socket.as_fd());
            match has_heard && self.tell_holders(mapped, &candidate, &socket) {
                true => {
                    self.counts.given += 1;
                    self.closer.close(mapped.app.uid, candidate.socket);
                }
                false => self.lose(mapped, candidate, |counts| &mut counts.refused),
            }
            self.closer.close(mapped.app.uid, socket);
        }
    }

    /// Those whose programs copy no more.
    fn seize(&mut self, mapped: &Mapped<'_>, mut left: Vec<Ready>) -> Vec<Ready> {
        let waited = self.waited.entry(mapped.app.uid).or_default();
        let begun = Instant::now();
        let give_up = self.until.min(begun + USER_SEIZED_WITHIN.saturating_sub(*waited));
        let mut seized = Vec::new();
        loop {
            let mut still = Vec::new();
            for ready in left {
                let words = mapped.words(ready.candidate.slot);
                match words.is_some_and(|words| is_seized(words) || seize_both(words)) {
                    true => seized.push(ready),
                    false => still.push(ready),
                }
            }
            left = still;
            if left.is_empty() || Instant::now() >= give_up {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        *waited += begun.elapsed();
        for ready in left {
            self.lose(mapped, ready.candidate, |counts| &mut counts.busy);
        }
        seized
    }

    /// The kernel goes on with one, or nobody does.
    fn go_on(&mut self, mapped: &Mapped<'_>, ready: Ready) -> Option<Standing> {
        let Ready { candidate, successor: socket } = ready;
        let words = mapped.words(candidate.slot)?;
        let inherited = candidate.heritage.inherit(&mapped.memory, words, clock::now());
        let connection = match inherited {
            Ok(connection) => connection,
            Err(stack::NoHeritage::NoRepair(_)) => {
                self.lose(mapped, candidate, |counts| &mut counts.state);
                return None;
            }
            Err(stack::NoHeritage::Violation) => {
                self.lose(mapped, candidate, |counts| &mut counts.violation);
                return None;
            }
        };
        let has_peer_closed = connection.repair.has_peer_closed;
        let name_is_known = || self.leave_flow(&connection);
        let given = successor::set_nonblocking(&socket, is_nonblocking(words))
            .and_then(|()| {
                give(&connection, words.asks(), &socket, self.raw_segments, name_is_known)
            })
            .and_then(|()| socket_options::copy_linger(candidate.socket.as_fd(), socket.as_fd()));
        match given {
            Ok(()) => Some(Standing { candidate, socket: Passed::new(socket), has_peer_closed }),
            Err(_) => {
                self.closer.close(mapped.app.uid, socket);
                self.lose(mapped, candidate, |counts| &mut counts.refused);
                None
            }
        }
    }

    /// A connection that was opened here has an entry of its own in the interfaces' programs.
    pub(super) fn leave_flow(&self, connection: &Inherited) {
        if !connection.was_opened {
            return;
        }
        let key = connection.repair.key;
        let (local, remote) = (key.destination(), key.source());
        let flow = Flow { protocol: Protocol::Tcp, local, remote };
        for interface in &self.held.interfaces {
            let _ = interface.flows().remove(flow);
        }
    }

    /// The processes that had it get the kernel's socket for it; whether any has.
    fn tell_holders(&self, mapped: &Mapped<'_>, candidate: &Candidate, socket: &Passed) -> bool {
        let Some(words) = mapped.words(candidate.slot) else { return false };
        let number = mapped.app.number;
        let given = candidate.holders.iter().filter(|pid| {
            // By its latest connection: an earlier one of the same number is another program's.
            let mut members = self.held.members_of(number).rev();
            let member = members.find(|member| member.pid() == **pid);
            member.is_some_and(|member| {
                member.lives() && member.give(candidate.cookie, socket.as_fd())
            })
        });
        if given.count() == 0 {
            return false;
        }
        words.state.fetch_or(SlotState::KERNELS, Ordering::AcqRel);
        // Who closes it, or says that its calls are not to wait, looks after that whether it was
        // given away.
        fence(Ordering::SeqCst);
        successor::catch_up(&self.aside, mapped.app.uid, socket, words);
        tell(&mapped.memory, candidate.slot, &Ringer { held: self.held, app: number });
        true
    }

    /// Nobody goes on with it: its program is told when the region is over.
    fn lose(
        &mut self,
        mapped: &Mapped<'_>,
        candidate: Candidate,
        which: impl FnOnce(&mut Counts) -> &mut u32,
    ) {
        *which(&mut self.counts) += 1;
        if let Some(words) = mapped.words(candidate.slot) {
            release_both(words);
        }
        self.closer.close(mapped.app.uid, candidate.socket);
    }
}

/// Whether the daemon had the locks when it died.
fn is_seized(words: &SlotWords) -> bool {
    [&words.rx_lock, &words.tx_lock].iter().all(|lock| lock.load(Ordering::Acquire) == SEIZED)
}
