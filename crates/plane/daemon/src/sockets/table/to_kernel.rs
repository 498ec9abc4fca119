//! Gives connections to the kernel when the daemon ends: their programs and peers notice nothing.
//!
//! For each connection: nobody of its program copies any more ([`shm::sockets::seize`]), its worker
//! lets it go and says what it was, and a new socket of the kernel goes on with it
//! ([`sys::tcp_repair`]). Meanwhile nobody answers its peer, who sends again what that costs. From
//! the moment at which the kernel's socket has the name, packets are its: the interfaces' programs
//! ask. Last, each process that has the program's descriptor is sent that socket, and told by a
//! flag in the slot: it uses it in the place of its own from then on.

mod batch;
mod orphans;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use base::{AppId, Generation};
use stack::Command;

use super::super::aside::Passed;
use super::super::budget::Budget;
use super::super::names::SlotKey;
use super::super::records::What;
use super::super::successor::follows;
use super::SocketTable;
use crate::apps::Claims;
use crate::attach_server_counters::AttachServerEvent as Event;
use crate::log;
use crate::open_sockets::OpenSockets;

/// All connections together get this long. The daemon waits for it; `sockets.drain_ms` begins
/// afterwards, for what is left.
const ALL_WITHIN: Duration = Duration::from_secs(8);

/// For the descriptors of one user's applications nobody looks longer than this in all while
/// another's wait.
const USER_COPIED_WITHIN: Duration = Duration::from_secs(1);

/// Connections that are under way at once: none is answered by anybody for longer than these take.
const BATCH: usize = 32;

/// Workers get so long to let go.
const LET_GO_WITHIN: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// Processes of applications, as far as the attach server speaks to them.
pub(crate) trait Processes {
    /// Whether the number of a process is still that of one which is of this application.
    fn lives(&self, app: AppId, pid: u32) -> bool;

    /// Has a process of an application put a socket in the place of the one with this cookie.
    /// False: it is gone, or does not read.
    fn give(&self, app: AppId, pid: u32, cookie: u64, socket: BorrowedFd<'_>) -> bool;
}

/// A connection, a copy of its program's descriptor, and the processes that have it.
struct Candidate {
    place: SlotKey,
    app: AppId,
    generation: Generation,
    cookie: u64,
    socket: Passed,
    holders: Vec<u32>,
}

/// Time that went to users so far.
struct Spent {
    /// Looking for descriptors: what is left.
    looking: Budget,
    /// Users whose turn has not come or is not over, this one included.
    users: usize,
    /// Waiting for programs in the middle of a copy.
    waited: BTreeMap<u32, Duration>,
}

impl SocketTable {
    /// Gives all connections to the kernel that it can go on with.
    pub(crate) fn give_to_kernel(&mut self, claims: &mut Claims, processes: &dyn Processes) {
        let now = sys::clock::now();
        self.hear_workers(now);
        self.learn_names();
        let before = self.endings.given.counts();
        claims.leave_connections();
        self.table_config.command_queue.command(&Command::BeSilent);
        self.table_config.await_workers();
        let until = Instant::now() + ALL_WITHIN;
        // It is asked while the table changes.
        let mut looker =
            std::mem::replace(&mut self.table_config.open_sockets, OpenSockets::Nobody);
        let looking = Budget::new(USER_COPIED_WITHIN);
        let mut spent = Spent { looking, users: 0, waited: BTreeMap::new() };
        let turn = self.in_turn();
        for (at, (app, _)) in turn.iter().enumerate() {
            let later: BTreeSet<u32> = turn[at..].iter().map(|(_, user)| *user).collect();
            spent.users = later.len();
            self.give_app(*app, &mut looker, claims, processes, until, &mut spent);
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

    /// The applications with their users: one of each user, then the next one of each.
    fn in_turn(&self) -> Vec<(AppId, u32)> {
        let mut of_user: BTreeMap<u32, usize> = BTreeMap::new();
        let turns = self.apps.iter().map(|app| {
            let turn = of_user.entry(app.uid).or_default();
            *turn += 1;
            (*turn, app.number(), app.uid)
        });
        let mut turns: Vec<(usize, AppId, u32)> = turns.collect();
        turns.sort_unstable();
        turns.into_iter().map(|(_, app, user)| (app, user)).collect()
    }

    /// Those of one application.
    fn give_app(
        &mut self,
        number: AppId,
        looker: &mut OpenSockets,
        claims: &mut Claims,
        processes: &dyn Processes,
        until: Instant,
        spent: &mut Spent,
    ) {
        let Some(app) = self.apps.get(number) else { return };
        let region = app.region();
        let mut wanted: BTreeMap<u64, (SlotKey, Generation)> = BTreeMap::new();
        let (mut deaf, mut local) = (0, 0);
        for (place, record) in self.records.of_region(region) {
            match record.what {
                What::Stream if app.words(place.1).is_some_and(follows) => {
                    wanted.insert(record.cookie, (place, record.generation));
                }
                What::Stream => deaf += 1,
                What::Local => local += 1,
                What::Listener(_) | What::Unsent | What::Datagram(_) => {}
            }
        }
        let (pids, user) = (app.pids.clone(), app.uid);
        self.count_kept(Event::HandOverLibrary, deaf);
        self.count_kept(Event::HandOverLocal, local);
        let mut found: BTreeMap<u64, Candidate> = BTreeMap::new();
        let begun = Instant::now();
        let copied_until = spent.looking.until(user, begun, until, spent.users);
        let asked = looker.copies(&pids, copied_until, |pid, socket| {
            let cookie = sys::socket::cookie_of(socket.as_fd()).unwrap_or_default();
            // Only of a process that lives after its descriptor was copied is it known whose it is.
            if Instant::now() < until && processes.lives(number, pid) {
                if let Some(candidate) = found.get_mut(&cookie) {
                    candidate.holders.push(pid);
                } else if let Some((place, generation)) = wanted.remove(&cookie) {
                    let holders = vec![pid];
                    let (app, socket) = (number, Passed::new(socket));
                    let candidate = Candidate { place, app, generation, cookie, socket, holders };
                    found.insert(cookie, candidate);
                    return;
                }
            }
            // It may be connected by now, and linger.
            self.close_later(user, socket);
        });
        spent.looking.spend(user, begun.elapsed());
        let is_short = asked.is_ok() && !wanted.is_empty() && Instant::now() >= copied_until;
        let mut found = found.into_values();
        loop {
            let batch: Vec<Candidate> = found.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                break;
            }
            self.give_batch(batch, claims, processes, until, spent.waited.entry(user).or_default());
        }
        if let Err(error) = asked {
            tracing::warn!(
                target: log::SOCKETS,
                app = number.0,
                "the descriptors of application {number} are not known: {error}"
            );
        }
        if is_short {
            tracing::warn!(
                target: log::SOCKETS,
                app = number.0,
                "the descriptors of application {number} are not all known: its user's time is over"
            );
        }
        self.count_kept(Event::HandOverDescriptor, wanted.len() as u64);
    }

    /// Counts connections that are left to their workers.
    fn count_kept(&mut self, event: Event, count: u64) {
        self.table_config.counters.add(event, count);
        self.endings.given.add_kept(count);
    }
}
