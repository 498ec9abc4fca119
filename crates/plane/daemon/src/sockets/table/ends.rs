//! What ends a socket: its last descriptor is closed, wherever and by whoever; or a worker says so.

use std::collections::BTreeSet;

use base::{AppId, Generation, Nanos, SlotId};
use datapath::DetachReason;
use stack::{Command, SocketEvent};
use sys::socket_end::SocketEnd;

use super::super::app::App;
use super::super::endings::{Nameless, Suspects};
use super::super::interfaces::Moved;
use super::super::names::SlotKey;
use super::super::reach::Cause;
use super::super::records::{Record, What};
use super::SocketTable;
use crate::apps::Claims;
use crate::attach_server_counters::AttachServerEvent;
use crate::guardian::Guardian;
use crate::log;
use crate::open_sockets::OpenSockets::Nobody;

/// Ends that are heard in one turn of the attach server: others want to be heard too.
const ENDS: usize = 4096;

/// Whoever has accepted a connection names it so soon.
const NAMED_WITHIN: Nanos = Nanos::from_secs(2);

/// The user of a process that is not attached any more.
const NOBODY: u32 = 65_534;

/// Time between two looks whether all connections are closed.
const DRAIN_EVERY: Nanos = Nanos::from_millis(20);

impl SocketTable {
    /// Hears of everything that has happened, and does what is due.
    pub(crate) fn tend(&mut self, claims: &mut Claims, now: Nanos) {
        self.hear_workers(now);
        self.hear_ends(now);
        self.watch_looker();
        self.watch_guardian(now);
        self.tend_firewall(now);
        let changed = self.network.neighbours.hear();
        if changed.links {
            let (said, moved) = self.network.interfaces.look(&self.table_config.counters);
            said.iter().for_each(|text| tracing::warn!(target: log::SOCKETS, "{text}"));
            for Moved { from, to, mac } in moved {
                self.network.neighbours.renumber(from, to, mac);
                self.network.sources.renumber(from, to);
                self.network.firewall.renumber(from, to);
                self.claimed.rights.renumber(from, to);
                let interfaces = self.network.neighbours.interfaces();
                self.table_config.command_queue.command(&Command::Interfaces(interfaces));
            }
        }
        if changed.links || changed.addresses || changed.routes {
            self.network.sources.note_change(now);
        }
        self.tend_sources(now);
        if changed.links || changed.addresses {
            self.follow_addresses(claims);
            let neighbours = &self.network.neighbours;
            let (all, served) = (neighbours.host_addresses(), neighbours.addresses());
            for app in self.apps.iter() {
                app.streams.server.memory().set_host_addresses(all, served);
            }
        }
        self.tend_pending(now);
        self.tend_unresolved(now);
        self.check_rights(now);
        self.tend_lingering(now);
        self.tend_suspects(now);
        if self.endings.is_look_due(now) {
            self.look_for_ends(None, now);
        }
        self.network.neighbours.refresh(now);
        self.tend_memory(now);
        self.claimed.tend(now, claims, &mut self.descriptors);
        self.table_config.counters.note_descriptors(self.descriptors.counts());
        self.table_config.counters.note_programs(self.apps.iter().count());
    }

    /// When something is due although nobody says anything.
    pub(crate) fn next_deadline(&self) -> Nanos {
        let is_anybody_served = !self.apps.is_empty();
        let parts = [
            self.apps.next_deadline(),
            self.waiting.next_deadline(),
            self.claimed.next_deadline(),
            self.endings.next_deadline(),
            self.network.neighbours.next_deadline(),
            self.network.firewall.next_deadline(is_anybody_served),
            self.network.control_groups.next_deadline(is_anybody_served),
            self.network.sources.next_deadline(),
            self.table_config.guardian.as_ref().map_or(Nanos::FAR_FUTURE, Guardian::again_at),
            // Whoever waits for the last one to close wants to hear of it soon.
            if self.apps.is_draining() {
                sys::clock::now() + DRAIN_EVERY
            } else {
                Nanos::FAR_FUTURE
            },
        ];
        parts.into_iter().min().unwrap_or(Nanos::FAR_FUTURE)
    }

    fn watch_looker(&mut self) {
        let (has_ended, late) = self.table_config.open_sockets.hear();
        for (pid, copy) in late {
            let its = self.apps.iter().find(|app| app.pids.contains(&pid));
            let uid = its.map_or(NOBODY, |app| app.uid);
            self.close_later(uid, copy);
        }
        if has_ended {
            self.table_config.counters.count(AttachServerEvent::LookerEnded);
            tracing::warn!(
                target: log::SOCKETS,
                "the process that looks for open sockets has ended: connections whose end the \
                 kernel does not tell stay until their program ends; start the daemon anew when \
                 it can be"
            );
        }
    }

    pub(super) fn hear_workers(&mut self, now: Nanos) {
        let mut events = Vec::new();
        self.table_config.command_queue.hear(|event| events.push(event));
        for event in events {
            match event {
                SocketEvent::Named { app, slot, generation, cookie } => {
                    self.name(app, slot, generation, cookie, now);
                }
                SocketEvent::Finished { app, slot, generation, may_linger } => {
                    let until = if may_linger { now + self.time_wait() } else { now };
                    self.claimed.holds.finish((app, slot, generation), until);
                }
                SocketEvent::Freed { app, slot, generation } => {
                    self.forget(app, slot, generation, now);
                }
                SocketEvent::Violation { app } => {
                    self.detach(
                        app,
                        DetachReason::Violation(shm::ProtocolViolation::RingIndex),
                        now,
                    );
                }
                SocketEvent::Unresolved { remote, user, is_answer } => {
                    let cause = if is_answer { Cause::Answer } else { Cause::Send };
                    self.resolve(remote, (user, cause), now);
                }
            }
        }
        for error in self.table_config.command_queue.take_for_kernel() {
            let is_given = self.network.errors.give(&error, now);
            let counted = match is_given {
                true => AttachServerEvent::ErrorsGiven,
                false => AttachServerEvent::ErrorsNotGiven,
            };
            self.table_config.counters.count(counted);
        }
    }

    /// An accepted connection's descriptor has been named.
    pub(super) fn name(
        &mut self,
        number: AppId,
        slot: SlotId,
        generation: Generation,
        cookie: u64,
        now: Nanos,
    ) {
        let Some(app) = self.apps.get(number) else { return };
        let place = (app.region(), slot);
        // One that was set up here has its name from the kernel. The slot may be another socket's
        // by now.
        let is_known = self.records.get(place).is_some_and(|at| at.generation == generation);
        let server = &app.streams.server;
        if is_known || !server.is_taken(slot) || server.generation(slot) != generation {
            return;
        }
        let what = What::Stream;
        let record = Record { app: number, generation, cookie, inode: 0, what };
        if !self.keep(place, record) {
            self.close(place, now);
        }
    }

    /// Writes down whose a slot is. False: the last descriptor of its name was closed already. If
    /// its worker has given it back from another socket and was not heard yet, what was taken from
    /// the kernel for that one goes back too.
    pub(super) fn keep(&mut self, place: SlotKey, record: Record) -> bool {
        if let Some(before) = self.records.remove(place) {
            self.claimed.release(before);
        }
        self.records.insert(place, record)
    }

    /// A worker has given a slot back.
    fn forget(&mut self, number: AppId, slot: SlotId, generation: Generation, now: Nanos) {
        let Some(app) = self.apps.get(number) else { return };
        let place = (app.region(), slot);
        if self.records.get(place).is_some_and(|record| record.generation == generation) {
            if let Some(Record { what: What::Datagram(bound), .. }) = self.records.remove(place) {
                self.claimed.released.extend(bound.destinations);
            }
            self.settle(number, DetachReason::Left, now);
        }
    }

    /// Has a worker close the socket at `place`.
    fn close(&mut self, place: SlotKey, now: Nanos) {
        let Some(record) = self.records.get(place) else { return };
        if self.table_config.command_queue.withdraw(record.app, place.1) {
            return self.drop_unsent(place, now);
        }
        self.table_config.command_queue.command(&Command::Close {
            app: record.app,
            slot: place.1,
            generation: record.generation,
            is_abort: false,
        });
    }

    fn hear_ends(&mut self, now: Nanos) {
        for _ in 0..ENDS {
            match self.endings.ends.next() {
                SocketEnd::Ended { cookie } => self.end_of(cookie, now),
                SocketEnd::Lost => self.look_for_ends(None, now),
                SocketEnd::Nothing => return,
            }
        }
    }

    /// The last descriptor with this cookie was closed.
    fn end_of(&mut self, cookie: u64, now: Nanos) {
        // What was named before the end is known only now.
        self.learn_names();
        self.fallbacks.end(cookie);
        for place in self.records.end(cookie) {
            let Some(record) = self.records.get(place) else { continue };
            let app = record.app;
            match &record.what {
                What::Listener(_) => self.end_listener(place, now),
                What::Stream => self.close(place, now),
                What::Datagram(_) => self.end_datagrams(place, now),
                What::Unsent => self.drop_unsent(place, now),
                What::Local => self.end_local(place, app),
            }
            self.settle(app, DetachReason::Left, now);
        }
    }

    pub(super) fn end_datagrams(&mut self, place: SlotKey, now: Nanos) {
        self.close(place, now);
        // The kernel's socket, which had the port reserved, is gone: so nothing more may come here.
        let record = self.records.get_mut(place).map(|record| &mut record.what);
        if let Some(What::Datagram(bound)) = record {
            self.claimed.released.append(&mut bound.destinations);
        }
    }

    /// A process of an application is gone: what it had taken from a listener and not named yet has
    /// no owner. It may be another's that is about to name it, too, so there is a second look.
    /// Without any process, an application may have named files that never were.
    pub(super) fn suspect(&mut self, number: AppId, now: Nanos) {
        if self.endings.look_again(number) {
            return;
        }
        self.learn_names();
        let Some(app) = self.apps.get(number) else { return };
        let nameless = self.nameless(app);
        if !nameless.is_empty() || app.pids.is_empty() {
            let look_at = now + NAMED_WITHIN;
            self.endings.suspects.push(Suspects { app: number, nameless, look_at, again: false });
        }
    }

    fn tend_suspects(&mut self, now: Nanos) {
        for suspects in self.endings.take_due(now) {
            self.learn_names();
            let number = suspects.app;
            let Some(app) = self.apps.get(number) else { continue };
            let (own, has_nobody) = (app.region(), app.pids.is_empty());
            let mut still = self.nameless(app);
            still.retain(|one| suspects.nameless.contains(one));
            for Nameless { place, generation } in still {
                if place.0 != own {
                    self.end_local(place, number);
                    continue;
                }
                let (app, slot) = (number, place.1);
                let close = Command::Close { app, slot, generation, is_abort: true };
                self.table_config.command_queue.command(&close);
            }
            if has_nobody {
                self.look_for_ends(Some(number), now);
            }
            if suspects.again {
                self.suspect(number, now);
            }
        }
    }

    /// Connections that were taken from their listeners, and that no descriptor stands for as far
    /// as is known. By what is known here: a process that dies may have said nothing of them, and
    /// one that lives anything.
    pub(super) fn nameless(&self, app: &App) -> Vec<Nameless> {
        let number = app.number();
        let memory = app.streams.server.memory();
        let own = self.records.listeners().filter(|(_, record, _)| record.app == number);
        let waiting: BTreeSet<SlotKey> = own
            .flat_map(|(.., listener)| listener.backlog.waiting(memory))
            .map(|entry| (entry.region, entry.slot))
            .collect();
        let is_nameless =
            |place: &SlotKey| self.records.get(*place).is_none() && !waiting.contains(place);
        let server = &app.streams.server;
        let slots = (0..memory.sizes().slots).map(SlotId).filter(|slot| server.is_taken(*slot));
        let slots = slots.take(server.slots_taken() as usize);
        let ours = slots.map(|slot| (app.region(), slot)).filter(is_nameless);
        let ours = ours.map(|place| Nameless { place, generation: server.generation(place.1) });
        let local = self.local_pairs.values().flat_map(|local_pair| local_pair.unnamed_of(number));
        ours.chain(local.filter(|one| is_nameless(&one.place))).collect()
    }

    /// More ended than can be told: what no process holds any more has ended, of an application or
    /// of all.
    fn look_for_ends(&mut self, of: Option<AppId>, now: Nanos) {
        let is_meant = |record: &Record| of.is_none_or(|app| record.app == app);
        let is_in_sight =
            |record: &Record| self.apps.get(record.app).is_some_and(|app| !app.has_hidden_process);
        let meant = |cookie: &u64| {
            let mut named = self.records.named(*cookie);
            named.any(|(_, record)| is_meant(record) && is_in_sight(record))
        };
        let mut over: Vec<u64> = self.records.cookies().filter(meant).collect();
        if over.is_empty() {
            return self.endings.note_look(of.is_none(), true, now);
        }
        let attached: Vec<u32> =
            self.apps.iter().flat_map(|app| app.pids.iter().copied()).collect();
        let asked = self.table_config.open_sockets.cookies(attached);
        // Who looks has ended for good, if it has.
        let is_known = asked.is_ok() || matches!(self.table_config.open_sockets, Nobody);
        self.endings.note_look(of.is_none(), is_known, now);
        let open = match asked {
            Ok(open) => open,
            Err(error) => {
                tracing::warn!(
                    target: log::SOCKETS,
                    "which sockets are open is not known ({error}): connections whose end was not \
                     told stay until that is known, or their program ends"
                );
                return;
            }
        };
        over.retain(|cookie| !open.contains(cookie));
        for cookie in over {
            self.end_of(cookie, now);
        }
    }
}
