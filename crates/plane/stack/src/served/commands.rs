//! What the slow side has asked for: applications that come and go, listeners, connections to be
//! opened and closed.

use base::{AppId, Nanos, SlotId};
use tcp::{CloseReason, ConnectError, Engine, FlowId, FlowOptions, Output};
use wire::FlowKey;

use super::accept::FIRST_SEND_LOG2;
use super::options::first_options;
use super::{Client, Conn, Sockets};
use crate::bucket::PacketCost;
use crate::command_queue::Command;
use crate::neighbours::Neighbours;
use crate::rings::Rings;
use crate::routes::{Route, Routes};

impl Sockets {
    /// Does what the slow side has asked for, that many things at most. True: there was something.
    pub(crate) fn read_commands<O: Output>(
        &mut self,
        most: usize,
        engine: &mut Engine,
        rings: &mut Rings,
        neighbours: &mut Neighbours,
        now: Nanos,
        out: &mut O,
    ) -> bool {
        let mut has_acted = false;
        if self.post.has_commands() {
            for _ in 0..most {
                let Some(command) = self.post.next() else { break };
                self.obey(command, engine, rings, neighbours, now, out);
                has_acted = true;
            }
        }
        if has_acted {
            // Flows that arrive have it read between two turns: what comes of it is done in the
            // next one.
            self.paced.wake_at(now);
        }
        has_acted
    }

    fn obey<O: Output>(
        &mut self,
        command: Command,
        engine: &mut Engine,
        rings: &mut Rings,
        neighbours: &mut Neighbours,
        now: Nanos,
        out: &mut O,
    ) {
        match command {
            Command::Add(streams) => {
                let app = streams.app.index();
                if self.clients.len() <= app {
                    self.clients.resize_with(app + 1, || None);
                }
                self.clients[app] = Some(Box::new(Client::new(streams)));
            }
            Command::Remove { app } => self.remove(app, engine, rings, out),
            Command::Listen(listening) => self.listen(listening, engine),
            Command::Unlisten { app, slot } => self.unlisten(app, slot, engine),
            Command::Close { app, slot, generation, is_abort } => {
                let server = self.client(app).map(|client| &client.streams.server);
                if server.is_none_or(|server| server.generation(slot) != generation) {
                    return;
                }
                if is_abort {
                    self.close(app, slot, is_abort, engine, rings, out);
                } else if let Some((conn, _)) = self.conn(app, slot) {
                    conn.is_closing = true;
                    self.drain_slot(app, slot, engine, rings, now, out);
                } else if self.datagrams_of(app, slot).is_some() {
                    self.finish_datagrams(app, slot);
                }
            }
            Command::Bind(socket) => self.bind(socket),
            Command::Evict(eviction) => self.evict(&eviction, engine, now),
            Command::Sources(sources) => {
                self.sources = sources;
                neighbours.outdate();
            }
            Command::Interfaces(interfaces) => {
                neighbours.readdress(&interfaces);
                self.datagrams.set_interfaces(interfaces);
            }
            Command::BeSilent => engine.be_silent(),
            Command::HandOverOrphans(_) => self.hand_over_orphans(engine, rings, now),
            Command::HandOver { app, slot, generation, request } => {
                self.hand_over((app, slot, generation), &request, engine, rings, now, out);
            }
            Command::Adopt => self.adopt_stranded(engine, rings),
            Command::Resolved { remote, next_hop } => {
                let next_hop = next_hop.as_ref().map(|(next_hop, local)| (next_hop, *local));
                neighbours.set(remote, next_hop, now);
                match next_hop {
                    Some(_) => self.outbox.unresolved.hurry(),
                    None => self.unreachable_address(remote),
                }
            }
            Command::Unasked { remote } => neighbours.ask_again(remote, now),
            // It comes by a connect probe.
            Command::Connect { .. } => {}
        }
    }

    /// Opens the connection that a connect probe is about: `key` is as the peer's packets will have
    /// it.
    pub(crate) fn open(
        &mut self,
        key: &FlowKey,
        engine: &mut Engine,
        routes: &mut Routes,
        now: Nanos,
    ) {
        let (local, remote) = (key.destination(), key.source());
        let mut due = None;
        let may = |command: &Command| {
            due = self.syn_due(command, key.is_ipv6(), now);
            due.is_none()
        };
        let command = self.post.open(local, remote, may);
        if let Some(due) = due {
            // It is called for again.
            self.paced.open_at(local, remote, due);
        }
        if let Some(Command::Connect { app, slot, options, next_hop, .. }) = command {
            let base = FlowOptions { send_ring_log2: FIRST_SEND_LOG2, ..options };
            let memory = self.client(app).map(|client| client.streams.server.memory());
            let words = memory.and_then(|memory| memory.slot(slot));
            let options = words.map_or(base, |words| first_options(words, base, remote.is_ipv6()));
            let route = Route::of_next_hop(&next_hop).and_then(|route| routes.number(route));
            let opened = match route {
                Some(route) => engine.connect(now, local, remote, options, route).map_err(refused),
                None => Err(CloseReason::Aborted),
            };
            self.connect(app, slot, opened);
        }
    }

    /// When the rate of its user lets the SYN of a connection leave, if not now. Sent again it is
    /// not paid for again: that is a few times, later and later.
    fn syn_due(&self, command: &Command, is_ipv6: bool, now: Nanos) -> Option<Nanos> {
        let client = self.client(command.app()?)?;
        let rate = client.streams.rate.as_ref()?;
        rate.take_whole(PacketCost::of_syn(is_ipv6), now).err()
    }

    /// A socket of this worker that was opened from here.
    fn connect(&mut self, app: AppId, slot: SlotId, opened: Result<FlowId, CloseReason>) {
        let Some(client) = self.client(app) else { return };
        let generation = client.streams.server.generation(slot);
        let mut conn = Conn::new(opened.ok(), generation);
        conn.was_opened = true;
        conn.reason = opened.err();
        self.insert(app, slot, conn);
        self.touch(app, slot);
    }
}

/// EADDRNOTAVAIL of asm-generic/errno.h.
const EADDRNOTAVAIL: u16 = 99;

/// How a program is told that its connection could not be opened.
fn refused(error: ConnectError) -> CloseReason {
    match error {
        // A port that it has chosen itself, of a connection that is not quite over; Linux says so
        // too.
        ConnectError::InUse => CloseReason::Unreachable(EADDRNOTAVAIL),
        ConnectError::MixedVersions | ConnectError::NoPort | ConnectError::Full => {
            CloseReason::Aborted
        }
    }
}
