//! Connections that change hands together.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use shm::sockets::{SlotState, SlotWords};
use stack::{Command, LetGo, LetGoRequest, Parcel};
use sys::socket_options;

use super::super::super::app::App;
use super::super::super::aside::Passed;
use super::super::super::names::SlotKey;
use super::super::super::raw_segments::RawSegments;
use super::super::super::records::What;
use super::super::super::successor::{self, give, is_nonblocking};
use super::super::super::successor::{release_both, seize_both};
use super::super::SocketTable;
use super::{Candidate, LET_GO_WITHIN, LOOK_EVERY, Processes};
use crate::apps::Claims;
use crate::attach_server_counters::AttachServerEvent as Event;
use crate::log;

/// The programs of a batch get so long to end the copies that they are in the middle of.
const SEIZED_WITHIN: Duration = Duration::from_millis(50);

/// All programs of a user together get so long for that, however many batches they have.
const USER_SEIZED_WITHIN: Duration = Duration::from_millis(500);

/// Ports below are their owners' alone (`net.ipv4.ip_unprivileged_port_start`).
const FIRST_FREE_PORT: u16 = 1024;

/// One that has a socket of the kernel to go on in.
struct Ready {
    candidate: Candidate,
    successor: OwnedFd,
    request: LetGoRequest,
}

/// A connection that the kernel has, of which its program has not been told.
struct Standing {
    candidate: Candidate,
    user: u32,
    socket: Passed,
    /// Its peer has closed its side, which was said to the kernel's socket again.
    has_peer_closed: bool,
}

impl SocketTable {
    /// These, of one user; the time for all is over at `until`. `waited` is how long the user's
    /// programs have been waited for so far.
    pub(super) fn give_batch(
        &mut self,
        batch: Vec<Candidate>,
        claims: &mut Claims,
        processes: &dyn Processes,
        until: Instant,
        waited: &mut Duration,
    ) {
        let mut seized: BTreeMap<SlotKey, Ready> = BTreeMap::new();
        let begun = Instant::now();
        let (most, count) = (USER_SEIZED_WITHIN.saturating_sub(*waited), batch.len());
        let mut left = self.ready(batch, until.min(begun + most));
        *waited += successor::kept(begun.elapsed(), count);
        let begun = Instant::now();
        let timeout = SEIZED_WITHIN.min(USER_SEIZED_WITHIN.saturating_sub(*waited));
        let give_up = (begun + timeout).min(until);
        loop {
            for ready in std::mem::take(&mut left) {
                match self.words_of(&ready.candidate).is_some_and(seize_both) {
                    true => _ = seized.insert(ready.candidate.place, ready),
                    false => left.push(ready),
                }
            }
            if left.is_empty() || Instant::now() >= give_up {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        *waited += begun.elapsed();
        self.count_kept(Event::HandOverBusy, left.len() as u64);
        for Ready { candidate, .. } in left {
            self.let_be(candidate);
        }
        for Ready { candidate, request, .. } in seized.values() {
            let Candidate { app, place, generation, .. } = *candidate;
            let (slot, request) = (place.1, request.clone());
            let command = Command::HandOver { app, slot, generation, request };
            self.table_config.command_queue.command(&command);
        }
        let mut standing: Vec<Standing> = Vec::new();
        let give_up = Instant::now() + LET_GO_WITHIN;
        while !seized.is_empty() {
            let parcels = self.table_config.command_queue.take_parcels();
            if parcels.is_empty() {
                std::thread::sleep(LOOK_EVERY);
            }
            for parcel in parcels {
                let place = (parcel.app.region, parcel.slot);
                let Some(ready) = seized.remove(&place) else {
                    self.lose(parcel);
                    continue;
                };
                standing.extend(self.go_on(ready, parcel, claims));
            }
            if Instant::now() < give_up {
                continue;
            }
            // Its worker has lost it just now, or has too much to do: it goes on as it is. One
            // whose worker has decided meanwhile is on its way.
            let is_over = Instant::now() >= give_up + LET_GO_WITHIN;
            for (place, ready) in std::mem::take(&mut seized) {
                if !ready.request.decide() && !is_over {
                    seized.insert(place, ready);
                    continue;
                }
                self.words_of(&ready.candidate).into_iter().for_each(release_both);
                self.count_kept(Event::HandOverBusy, 1);
                self.let_be(ready.candidate);
            }
        }
        let told = standing.iter().filter(|standing| standing.has_peer_closed);
        RawSegments::await_ends(told.map(|standing| standing.socket.as_fd()));
        for standing in standing {
            let has_heard = !standing.has_peer_closed
                || sys::tcp_repair::has_heard_end(standing.socket.as_fd());
            // Without its peer's end it would wait for that for ever.
            match has_heard {
                true => self.tell_holders(standing, processes),
                false => {
                    self.close_later(standing.user, standing.socket);
                    self.fail_given(standing.candidate, standing.user);
                }
            }
        }
    }

    /// Those for which the kernel has a socket; the others are left to their workers.
    fn ready(&mut self, batch: Vec<Candidate>, until: Instant) -> Vec<Ready> {
        let app = batch.first().and_then(|first| self.apps.get(first.app));
        let Some(uid) = app.map(|app| app.uid) else {
            batch.into_iter().for_each(|candidate| self.let_be(candidate));
            return Vec::new();
        };
        let old: Vec<Passed> =
            batch.iter().map(|candidate| Passed::clone(&candidate.socket)).collect();
        let made = successor::all_in_place_of(&self.threads.aside, &old, uid, until);
        drop(old);
        let mut all = Vec::new();
        for (candidate, made) in batch.into_iter().zip(made) {
            match made {
                Some(Ok(successor)) => {
                    all.push(Ready { candidate, successor, request: LetGoRequest::default() });
                }
                None => {
                    self.count_kept(Event::HandOverBusy, 1);
                    self.let_be(candidate);
                }
                Some(Err(error)) => {
                    let app = candidate.app.0;
                    tracing::warn!(target: log::SOCKETS, app, "a connection stays: {error}");
                    self.count_kept(Event::HandOverRefused, 1);
                    self.let_be(candidate);
                }
            }
        }
        all
    }

    /// A connection stays with its worker.
    fn let_be(&mut self, candidate: Candidate) {
        let user = self.apps.get(candidate.app).map_or(0, |app| app.uid);
        self.close_later(user, candidate.socket);
    }

    /// A worker was too late, and nobody has that connection any more: its program is told.
    pub(super) fn lose(&mut self, parcel: Parcel) {
        let Ok(let_go) = parcel.connection else { return };
        let_go.give_back();
        let app = self.apps.get(parcel.app.app);
        app.into_iter().for_each(|app| app.fail(parcel.slot, Errno::CONNRESET));
        self.endings.given.add_lost(parcel.app.app);
    }

    /// A worker has answered: a socket of the kernel goes on with what it says, or nobody does.
    fn go_on(&mut self, ready: Ready, parcel: Parcel, claims: &mut Claims) -> Option<Standing> {
        let Ready { candidate, successor: socket, .. } = ready;
        let app = self.apps.get(candidate.app)?;
        let words = app.words(candidate.place.1)?;
        let Ok(let_go) = parcel.connection else {
            release_both(words);
            self.count_kept(Event::HandOverState, 1);
            self.let_be(candidate);
            return None;
        };
        if !self.has_right_to_port(app, &let_go) {
            self.count_kept(Event::HandOverPort, 1);
            let_go.give_back();
            self.fail_given(candidate, parcel.app.user);
            return None;
        }
        let asks = words.asks();
        let waits = !is_nonblocking(words);
        let key = (candidate.app, candidate.place.1, candidate.generation);
        let claimed = &mut self.claimed.holds;
        let descriptors = &mut self.descriptors;
        let name_is_known = || {
            if let_go.was_opened {
                claimed.give_to_kernel(key, claims, descriptors);
            }
        };
        let raw_segments = &self.endings.given.raw_segments;
        let has_peer_closed = let_go.repair.has_peer_closed;
        let given = successor::set_nonblocking(&socket, !waits)
            .and_then(|()| give(&let_go.inherited(), asks, &socket, raw_segments, name_is_known));
        let_go.give_back();
        let user = parcel.app.user;
        // Not before: until here its last close would wait.
        let given = given
            .and_then(|()| socket_options::copy_linger(candidate.socket.as_fd(), socket.as_fd()));
        match given {
            Ok(()) => {
                Some(Standing { candidate, user, socket: Passed::new(socket), has_peer_closed })
            }
            Err(error) => {
                tracing::warn!(
                    target: log::SOCKETS,
                    app = candidate.app.0,
                    "a connection is lost: {error}"
                );
                self.close_later(user, socket);
                self.fail_given(candidate, user);
                None
            }
        }
    }

    /// Whether a program may have a socket of the kernel that is bound to a connection's port: it
    /// could listen there, once nobody else does.
    fn has_right_to_port(&self, app: &App, let_go: &LetGo) -> bool {
        let port = let_go.repair.key.destination().port();
        let mut own = self.records.of_region(app.region());
        let_go.was_opened
            || app.uid == 0
            || port >= FIRST_FREE_PORT
            || own.any(|(_, record)| match &record.what {
                What::Listener(listener) => listener.local.port() == port,
                _ => false,
            })
    }

    /// The processes that had a connection get the kernel's socket for it.
    fn tell_holders(&mut self, standing: Standing, processes: &dyn Processes) {
        let Standing { candidate, user, socket, .. } = standing;
        let app = self.apps.get(candidate.app);
        let Some((app, words)) = app.and_then(|app| Some((app, app.words(candidate.place.1)?)))
        else {
            self.close_later(user, socket);
            self.close_later(user, candidate.socket);
            return;
        };
        let (number, cookie) = (candidate.app, candidate.cookie);
        let sent = candidate.holders.iter().filter(|pid| {
            processes.lives(number, **pid) && processes.give(number, **pid, cookie, socket.as_fd())
        });
        if sent.count() == 0 {
            self.close_later(user, socket);
            self.fail_given(candidate, user);
            return;
        }
        // Who sees it waits for the socket that is on its way.
        words.state.fetch_or(SlotState::KERNELS, Ordering::AcqRel);
        // Who closes it, or says that its calls are not to wait, looks after that whether it was
        // given away.
        fence(Ordering::SeqCst);
        successor::catch_up(&self.threads.aside, user, &socket, words);
        app.tell(candidate.place.1);
        self.endings.given.add(number);
        self.table_config.counters.count(Event::HandedOver);
        self.close_later(user, socket);
        self.close_later(user, candidate.socket);
    }

    /// Nobody goes on with a connection that its worker has let go of: its program is told.
    fn fail_given(&mut self, candidate: Candidate, user: u32) {
        if let Some(app) = self.apps.get(candidate.app) {
            app.fail(candidate.place.1, Errno::CONNRESET);
            app.words(candidate.place.1).into_iter().for_each(release_both);
        }
        self.endings.given.add_lost(candidate.app);
        self.count_kept(Event::HandOverRefused, 1);
        self.close_later(user, candidate.socket);
    }

    fn words_of(&self, candidate: &Candidate) -> Option<&SlotWords> {
        self.apps.get(candidate.app)?.words(candidate.place.1)
    }
}
