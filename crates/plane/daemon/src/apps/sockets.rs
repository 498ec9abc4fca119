//! Processes whose sockets the daemon serves, at the attach server: in, heard, out.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use admin::{Command, ReplyBody};
use attach::{Received, ToApp, ToDaemon};
use base::{AppId, Nanos};
use datapath::DetachReason;
use sys::clock;
use sys::pidfd::PidFd;

use crate::admin_socket::error;
use crate::apps::attach_server::AttachServer;
use crate::apps::client::{Client, Membership};
use crate::apps::notices::TraceAsk;
use crate::sockets::{Answer, Member, Processes};

/// Calls of one process that are answered before others are heard.
const CALLS: usize = 16;

/// Bytes of messages about connections that are the kernel's, which wait for one process that may
/// be stopped, at most: some ten thousand connections'.
pub(crate) const GIVEN_BYTES_MAX: u32 = 32 << 20;

/// The processes whose sockets are served.
struct Members<'a>(&'a [Client]);

impl Members<'_> {
    fn of(&self, app: AppId, pid: u32) -> impl DoubleEndedIterator<Item = (&Client, &Membership)> {
        let members = self.0.iter().filter_map(|client| Some((client, client.member.as_ref()?)));
        let is_its = move |member: &Member| member.pid() == pid && member.app() == app;
        members.filter(move |(_, membership)| is_its(&membership.member))
    }
}

impl Processes for Members<'_> {
    fn lives(&self, app: AppId, pid: u32) -> bool {
        let members = self.of(app, pid);
        let mut processes = members.filter_map(|(_, membership)| membership.process.as_ref());
        processes.any(|process| !process.is_dead())
    }

    fn give(&self, app: AppId, pid: u32, cookie: u64, socket: BorrowedFd<'_>) -> bool {
        // By its latest connection: an earlier one of the same number is another program's.
        self.of(app, pid).next_back().is_some_and(|(client, _)| {
            client.peer.send(&ToApp::Given { cookie }, &[socket]).unwrap_or(false)
        })
    }
}

impl AttachServer {
    /// A process wants its sockets to be served.
    pub(super) fn let_member_in(
        &mut self,
        at: usize,
        message: &ToDaemon,
    ) -> Result<(), DetachReason> {
        match self.try_to_let_member_in(at, message) {
            Ok(()) => Ok(()),
            Err(why) => {
                self.clients[at].refuse(&why);
                Err(DetachReason::Protocol)
            }
        }
    }

    fn try_to_let_member_in(&mut self, at: usize, message: &ToDaemon) -> Result<(), String> {
        if matches!(message, ToDaemon::Stream(_)) {
            let uid = self.clients[at].peer.credentials().uid;
            self.check_count(uid)?;
        }
        let socket_table = self.socket_table.as_mut().ok_or(
            "this daemon serves no sockets: start it with `calisto up` and an XDP port, without \
             anything to listen on, or with `workers.job = \"sockets\"`",
        )?;
        let who = self.clients[at].peer.credentials();
        let now = clock::now();
        let (member, mut streaming, answer) = match message {
            ToDaemon::Stream(request) => {
                let came = socket_table.attach(request, who, now)?;
                let (number, name, profile) = (came.0.app(), &request.name, request.profile);
                let (pid, uid) = (who.pid, who.uid);
                let line = || {
                    format!(
                        "attached: {number} {name:?} with sockets, process {pid} (user {uid}), \
                         profile {profile}"
                    )
                };
                self.chatter.say(uid, line, now);
                came
            }
            ToDaemon::Join(request) => socket_table.join(request, who)?,
            ToDaemon::Attach(_) | ToDaemon::Call { .. } => {
                return Err("that comes first from nobody".to_owned());
            }
        };
        streaming.join_listener = self.entrances.side.as_ref().map(|side| side.name().to_owned());
        let client = &mut self.clients[at];
        let process = PidFd::of_peer(client.peer.as_fd()).ok();
        client.member = Some(Membership { member, process, guarded: None });
        client.guard(socket_table.guardian());
        client.peer.accept_descriptors();
        self.answer(at, &ToApp::Streaming(streaming), &answer)
    }

    /// Closes, some time, what a program of user `uid` has, or may have, as well.
    pub(super) fn close_later(&mut self, uid: u32, thing: impl std::any::Any + Send) {
        if let Some(socket_table) = &mut self.socket_table {
            socket_table.close_later(uid, thing);
        } else if let Some(closer) = &mut self.closer {
            closer.close(uid, thing);
        }
    }

    fn answer(&self, at: usize, message: &ToApp, answer: &Answer) -> Result<(), String> {
        match self.clients[at].peer.send(message, &answer.borrowed()) {
            Ok(true) => Ok(()),
            Ok(false) => Err("it does not read its answers".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Answers what a process asks.
    pub(super) fn hear_member(&mut self, at: usize, is_dead: bool) -> Result<(), DetachReason> {
        let uid = self.clients[at].peer.credentials().uid;
        for _ in 0..CALLS {
            let client = &mut self.clients[at];
            let (Some(socket_table), Some(membership)) =
                (&mut self.socket_table, &mut client.member)
            else {
                return Ok(());
            };
            let Ok(received) = client.peer.receive_call() else { return Err(client.gone()) };
            let reply = match received {
                (Received::Nothing, _) if is_dead => return Err(DetachReason::Died),
                (Received::Nothing, _) => return Ok(()),
                (Received::Closed, _) => return Err(client.gone()),
                (Received::Message(ToDaemon::Call { id, call }), sockets) => {
                    let socket = sockets.into_iter().next();
                    let member = &mut membership.member;
                    let now = clock::now();
                    let answer = socket_table.call(member, &call, socket, &mut self.claims, now);
                    (id, answer)
                }
                (Received::Message(_), descriptors) => {
                    descriptors.into_iter().for_each(|one| socket_table.close_later(uid, one));
                    return Err(DetachReason::Protocol);
                }
                (Received::Bad(why), descriptors) => {
                    descriptors.into_iter().for_each(|one| socket_table.close_later(uid, one));
                    client.refuse(&why);
                    return Err(DetachReason::Protocol);
                }
            };
            let (id, answer) = reply;
            let has_waited = socket_table.has_waited();
            if socket_table.is_flooded(uid) {
                // It passes descriptors faster than they can be closed.
                return Err(DetachReason::Protocol);
            }
            let message = ToApp::Reply { id, reply: answer.reply.clone() };
            let answered = self.answer(at, &message, &answer);
            // It may have put them into a set by now, closed them, and have us be the last.
            if !answer.descriptors.is_empty() {
                self.close_later(uid, answer.descriptors);
            }
            answered.map_err(|_| DetachReason::Protocol)?;
            if has_waited {
                // The others have waited, too, and are next.
                return Ok(());
            }
        }
        Ok(())
    }

    /// A process is gone, or its connection.
    pub(super) fn see_member_out(&mut self, at: usize, reason: DetachReason) {
        let client = self.clients.swap_remove(at);
        client.detach(reason);
        client.end();
        let Some(socket_table) = &mut self.socket_table else { return };
        if let Some(Membership { member, .. }) = client.member {
            socket_table.leave(member, reason, clock::now());
        }
        // What it has sent and nobody has read may be slow to close.
        socket_table.close_later(client.peer.credentials().uid, client.peer);
        self.see_apps_out();
    }

    /// Does what is due, and says who is gone.
    pub(super) fn tend_sockets(&mut self) {
        let Some(socket_table) = &mut self.socket_table else { return };
        socket_table.tend(&mut self.claims, clock::now());
        self.give_back_lost();
        let Some(socket_table) = &mut self.socket_table else { return };
        if socket_table.is_guarded_anew(clock::now()) {
            self.clients.iter_mut().for_each(|client| client.guard(socket_table.guardian()));
        }
        if socket_table.is_drained() {
            self.ending.is_drained.store(true, Ordering::Release);
        }
        self.see_apps_out();
    }

    fn see_apps_out(&mut self) {
        let Some(socket_table) = &mut self.socket_table else { return };
        for gone in socket_table.take_gone() {
            let (app, reason) = (gone.app, gone.reason);
            let line = || format!("detached: {app} {:?}: {reason}", gone.name);
            self.chatter.say(gone.uid, line, clock::now());
            let is_its = |client: &mut super::client::Client| {
                client.member.as_ref().is_some_and(|membership| membership.member.app() == app)
            };
            for mut client in self.clients.extract_if(.., is_its) {
                client.detach(reason);
                client.end();
                if let Some(Membership { member, .. }) = client.member.take() {
                    socket_table.leave(member, reason, clock::now());
                }
                socket_table.close_later(client.peer.credentials().uid, client.peer);
            }
        }
    }

    /// How long the socket table can wait.
    pub(super) fn sockets_are_due_in(&self) -> Nanos {
        let due = self
            .socket_table
            .as_ref()
            .map_or(Nanos::FAR_FUTURE, |socket_table| socket_table.next_deadline());
        match due {
            Nanos::FAR_FUTURE => due,
            due => due.since(clock::now()),
        }
    }

    /// What an operator asks about sockets and who has them.
    pub(super) fn tell_of_sockets(&mut self, command: &Command, app: Option<&str>) -> ReplyBody {
        match (&mut self.socket_table, command) {
            (Some(socket_table), Command::Detach) => {
                let detached = socket_table.detach_named(app.unwrap_or_default(), clock::now());
                self.see_apps_out();
                detached.map_or_else(|why| error(&why), |()| ReplyBody::Done)
            }
            (Some(socket_table), Command::Sockets { from, count }) => {
                socket_table.socket_rows(app, *from, *count)
            }
            (Some(socket_table), Command::Apps) => {
                ReplyBody::Apps { apps: socket_table.app_rows() }
            }
            (Some(socket_table), Command::Fallbacks) => socket_table.fallback_rows(clock::now()),
            _ => error("this daemon serves no sockets of programs"),
        }
    }

    /// What an operator that traces asks.
    pub(super) fn trace(&mut self, ask: TraceAsk) -> ReplyBody {
        let Some(socket_table) = &mut self.socket_table else {
            return error("this daemon serves no sockets of programs");
        };
        match ask {
            TraceAsk::Begin(client, app, one_in) => socket_table
                .begin_trace(client, app, one_in)
                .map_or_else(|why| error(&why), |()| socket_table.traced()),
            TraceAsk::Take => socket_table.traced(),
            TraceAsk::End(client) => {
                socket_table.end_trace(client);
                ReplyBody::Done
            }
        }
    }

    /// No new connections from now on: the daemon is about to end, and the kernel goes on with what
    /// there is.
    pub(super) fn drain_sockets(&mut self) {
        if let Some(socket_table) = &mut self.socket_table {
            socket_table.drain(clock::now());
            for client in self.clients.iter().filter(|client| client.member.is_some()) {
                sys::unix_socket::make_room(client.peer.as_fd(), GIVEN_BYTES_MAX);
            }
            socket_table.give_to_kernel(&mut self.claims, &Members(&self.clients));
        }
        self.ending.is_handed_over.store(true, Ordering::Release);
    }

    /// The daemon ends: everybody is told.
    pub(super) fn close_sockets(&mut self) {
        let Some(socket_table) = &mut self.socket_table else { return };
        socket_table.detach_all(DetachReason::DaemonEnds, clock::now());
        self.see_apps_out();
    }
}
