//! The attach server's thread: attaches, monitors and detaches applications.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use attach::{AttachListener, Attached, JoinListener, PortInfo, Received, ToApp, ToDaemon};
use base::Nanos;
use datapath::DetachReason;
use port::xdp::Destination;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::clock;
use sys::eventfd::EventFd;
use sys::pidfd::PidFd;

use crate::apps::admission::Handshakes;
use crate::apps::arrival::Terms;
use crate::apps::chatter::Chatter;
use crate::apps::claims::Claims;
use crate::apps::client::{App, Client};
use crate::apps::entrances::Entrances;
use crate::apps::notices::{Ending, Notice, Notices};
use crate::apps::rules::Rules;
use crate::apps::socket_file::{self, SocketFile};
use crate::apps::strangers::STRANGER_TIMEOUT;
use crate::ask::Asks;
use crate::attach_server_counters::{AttachServerCounters, AttachServerEvent};
use crate::log;
use crate::setup::destination;
use crate::sockets::SocketTable;
use crate::sockets::closer::Closer;

/// A user whose application has violated the protocol waits this long before its next one is let
/// in: to make and remove an application's memory takes a CPU about a millisecond, and a liar is
/// back at once.
const PENALTY: Duration = Duration::from_millis(100);

/// What the attach server knows and holds.
pub(crate) struct AttachServer {
    pub(super) entrances: Entrances,
    file: SocketFile,
    pub(super) rules: Rules,
    terms: Terms,
    ports: Vec<PortInfo>,
    pub(super) claims: Claims,
    pub(super) apps_max: usize,
    pub(super) clients: Vec<Client>,
    /// Absent when the workers serve no sockets.
    pub(super) socket_table: Option<SocketTable>,
    /// Closes what applications have as well, unless the socket table does.
    pub(super) closer: Option<Closer>,
    pub(super) ending: Arc<Ending>,
    notices: Receiver<Notice>,
    eventfd: Arc<EventFd>,
    pub(super) handshakes: Handshakes,
    pub(super) chatter: Chatter,
    pub(crate) counters: Arc<AttachServerCounters>,
    /// Users whose applications have violated the protocol lately, and until when they wait.
    pub(super) waiting: Vec<(u32, Instant)>,
}

impl AttachServer {
    pub(crate) fn new(
        listener: AttachListener,
        rules: Rules,
        terms: Terms,
        ports: Vec<PortInfo>,
        claims: Claims,
        apps_max: usize,
        eventfd: Arc<EventFd>,
    ) -> (Self, Notices) {
        let (sender, notices) = channel();
        let ending = Arc::<Ending>::default();
        let to_attach_server = Notices::new(sender, Arc::clone(&eventfd), Arc::clone(&ending));
        let attach_server = Self {
            file: SocketFile::of(&listener),
            entrances: Entrances::new(listener),
            rules,
            terms,
            ports,
            claims,
            apps_max,
            clients: Vec::new(),
            socket_table: None,
            closer: Closer::start().ok(),
            ending,
            notices,
            eventfd,
            handshakes: Handshakes::new(),
            chatter: Chatter::new(|text| {
                tracing::info!(name: log::BOUNDED, target: log::APPS, "{text}");
            }),
            counters: Arc::default(),
            waiting: Vec::new(),
        };
        (attach_server, to_attach_server)
    }

    /// From now on programs may have their sockets served.
    pub(crate) fn serve_sockets(&mut self, socket_table: SocketTable) {
        self.socket_table = Some(socket_table);
        self.closer = None;
        // Without it, who cannot see the file of ours any more has no way in.
        self.entrances.side = JoinListener::open()
            .inspect_err(|error| tracing::warn!(target: log::APPS, "{error}"))
            .ok();
    }

    /// Serves until the daemon ends; then the socket's file goes.
    pub(crate) fn serve(mut self, asks: &Asks) {
        loop {
            self.wait();
            self.eventfd.drain();
            let now = Instant::now();
            self.waiting.retain(|&(_, until)| until > now);
            if !self.hear_the_loop() {
                self.close_sockets();
                return;
            }
            self.tend_sockets();
            self.hear_clients(asks);
            self.accept();
            self.chatter.tend(clock::now());
            if let Some(listener) = self.file.look(&self.entrances.main) {
                self.entrances.main = listener;
            }
        }
    }

    /// Until somebody has something to say, or a stranger's patience is over.
    fn wait(&mut self) {
        let mut fds = vec![PollFd::from_borrowed_fd(self.eventfd.as_fd(), PollFlags::IN)];
        let entrances = self.entrances.descriptors();
        fds.extend(entrances.map(|entrance| PollFd::from_borrowed_fd(entrance, PollFlags::IN)));
        let before = fds.len();
        let mut whose = Vec::new();
        for (at, client) in self.clients.iter().enumerate() {
            if self.must_wait(client) {
                continue;
            }
            fds.push(PollFd::from_borrowed_fd(client.peer.as_fd(), PollFlags::IN));
            whose.push(at);
            if let Some(process) = client.process() {
                fds.push(PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN));
                whose.push(at);
            }
        }
        if let Some(socket_table) = &self.socket_table {
            let news = socket_table.descriptors();
            fds.extend(news.map(|news| PollFd::from_borrowed_fd(news, PollFlags::IN)));
        }
        let strangers = match self.strangers() {
            0 if !self.chatter.is_owing() => Nanos::FAR_FUTURE,
            _ if !self.clients.iter().any(|client| self.must_wait(client)) => Nanos::from_secs(1),
            _ => Nanos::from(PENALTY),
        };
        let file = Nanos::from(socket_file::LOOK_EVERY);
        let at_most = strangers.min(self.sockets_are_due_in()).min(file);
        let timeout = Timespec {
            tv_sec: (at_most.0 / 1_000_000_000) as i64,
            tv_nsec: (at_most.0 % 1_000_000_000) as i64,
        };
        // An interrupted wait is a wait that is over.
        let _ = poll(&mut fds, (at_most != Nanos::FAR_FUTURE).then_some(&timeout));
        let news = whose.iter().zip(&fds[before..]).filter(|(_, fd)| !fd.revents().is_empty());
        let news: Vec<usize> = news.map(|(at, _)| *at).collect();
        drop(fds);
        for client in &mut self.clients {
            // Time counts against a stranger.
            client.has_news = client.is_stranger();
        }
        news.into_iter().for_each(|at| self.clients[at].has_news = true);
    }

    /// Applications that the loop has detached are told why. False: that was all.
    fn hear_the_loop(&mut self) -> bool {
        while let Ok(notice) = self.notices.try_recv() {
            let (app, uid, reason, remains) = match notice {
                Notice::Detached { app, uid, reason, remains } => (app, uid, reason, remains),
                Notice::Close(uid, thing) => {
                    self.close_later(uid, thing);
                    continue;
                }
                Notice::IsTurning(asker) => {
                    let _ = asker.try_send(());
                    continue;
                }
                Notice::Ask(command, about, asker) => {
                    // One that has gone needs no answer.
                    let _ = asker.try_send(self.tell_of_sockets(&command, about.as_deref()));
                    continue;
                }
                Notice::Trace(what, asker) => {
                    let _ = asker.try_send(self.trace(what));
                    continue;
                }
                Notice::Claim(come, asker) => {
                    let _ = asker.try_send(self.claim(&come));
                    continue;
                }
                Notice::Unclaim(come) => {
                    come.iter().for_each(|one| self.claims.remove(destination(one)));
                    continue;
                }
                Notice::Change(change) => {
                    self.change(*change);
                    continue;
                }
                Notice::Drain => {
                    self.drain_sockets();
                    continue;
                }
                Notice::End => return false,
            };
            drop(remains);
            let line = || format!("detached: {app}: {reason}");
            self.chatter.say(uid.unwrap_or_default(), line, clock::now());
            let is_it = |client: &Client| client.app.as_ref().is_some_and(|is| is.id == app);
            let Some(at) = self.clients.iter().position(is_it) else { continue };
            let client = self.clients.swap_remove(at);
            let uid = client.peer.credentials().uid;
            let waits = self.waiting.iter().any(|&(user, _)| user == uid);
            if matches!(reason, DetachReason::Violation(_)) && !waits {
                self.waiting.push((uid, Instant::now() + PENALTY));
            }
            client.detach(reason);
            self.forget(client);
        }
        true
    }

    fn hear_clients(&mut self, asks: &Asks) {
        let mut at = 0;
        while at < self.clients.len() {
            self.clients[at].was_heard = true;
            if !self.clients[at].has_news || self.must_wait(&self.clients[at]) {
                at += 1;
                continue;
            }
            let client = &mut self.clients[at];
            let dead = client.process().is_some_and(PidFd::is_dead);
            if client.member.is_some() {
                match self.hear_member(at, dead) {
                    Ok(()) => at += 1,
                    Err(reason) => self.see_member_out(at, reason),
                }
                continue;
            }
            let received = match client.pending.take() {
                Some(pending) => Ok(Received::Message(pending)),
                None => client.peer.receive(),
            };
            if let Ok(Received::Message(message)) = &received
                && client.is_stranger()
                && matches!(message, ToDaemon::Attach(_) | ToDaemon::Stream(_))
                && !self.handshakes.take(client.peer.credentials().uid, clock::now())
            {
                self.counters.count(AttachServerEvent::HandshakesDelayed);
                if let Ok(Received::Message(message)) = received {
                    client.pending = Some(message);
                }
                at += 1;
                continue;
            }
            let stays = match received {
                Ok(Received::Nothing) if dead => Err(DetachReason::Died),
                Ok(Received::Nothing) => match &client.app {
                    None if client.since.elapsed() > STRANGER_TIMEOUT => {
                        Err(client.refused("it did not say what it wants within 5 seconds"))
                    }
                    _ => Ok(()),
                },
                Ok(Received::Message(message)) if !client.may_begin_with(&message) => {
                    Err(client.refused("whoever comes by the join listener joins an application"))
                }
                Ok(Received::Message(ToDaemon::Attach(request))) if client.app.is_none() => {
                    self.attach(at, &request, asks)
                }
                Ok(Received::Message(message)) if client.app.is_none() => {
                    self.let_member_in(at, &message)
                }
                Ok(Received::Message(_)) => Err(DetachReason::Protocol),
                Ok(Received::Bad(why)) => Err(client.refused(&why)),
                Ok(Received::Closed) | Err(_) => Err(client.gone()),
            };
            match stays {
                Ok(()) => at += 1,
                // It was let in, and went before it could be told.
                Err(reason) if self.clients[at].member.is_some() => self.see_member_out(at, reason),
                Err(reason) => {
                    let client = self.clients.swap_remove(at);
                    if let Some(app) = &client.app {
                        asks.leave(app.id, reason);
                    }
                    self.forget(client);
                }
            }
        }
    }

    /// A request of the client at `at`: in, or out with a sentence.
    fn attach(
        &mut self,
        at: usize,
        request: &attach::AttachRequest,
        asks: &Asks,
    ) -> Result<(), DetachReason> {
        match self.admit(at, request, asks) {
            Ok(()) => Ok(()),
            Err(why) => {
                self.clients[at].refuse(&why);
                Err(DetachReason::Protocol)
            }
        }
    }

    fn admit(
        &mut self,
        at: usize,
        request: &attach::AttachRequest,
        asks: &Asks,
    ) -> Result<(), String> {
        let who = self.clients[at].peer.credentials();
        let rule = self.rules.of(who.uid).ok_or_else(|| {
            format!("user {} may not attach: an operator can add a rule to `apps.allow`", who.uid)
        })?;
        self.check_count(who.uid)?;
        let attached = self.clients.iter().filter(|client| client.app.is_some());
        let same = attached.filter(|client| client.peer.credentials().uid == who.uid).count();
        if same >= rule.apps as usize {
            return Err(format!(
                "user {} has {same} applications attached and may have no more (`apps.allow`)",
                who.uid
            ));
        }
        let (arrival, handout) = self
            .terms
            .arrange(request, &self.clients[at].peer, rule)
            .map_err(|why| why.to_string())?;
        let listeners = arrival.app_dispatch.listeners();
        let destinations: Vec<Destination> = listeners.iter().map(destination).collect();
        for (destination, name) in destinations.iter().zip(&arrival.facts.listen) {
            self.check_free(*destination, name, who.uid)?;
        }
        let listen = arrival.facts.listen.join(" ");
        let id = asks.attach(arrival)?;
        let (name, pid, uid) = (&request.name, who.pid, who.uid);
        let line = || format!("attached: {id} {name:?} of process {pid} (user {uid}) on {listen}");
        self.chatter.say(uid, line, clock::now());
        // From here on the application is forgotten by the way of all who leave.
        let process = PidFd::of_peer(self.clients[at].peer.as_fd()).ok();
        let app = App { id, process, destinations: Vec::new() };
        let app = self.clients[at].app.insert(app);
        for destination in destinations {
            self.claims.add_alone(destination).map_err(|error| error.to_string())?;
            app.destinations.push(destination);
        }
        let answer = ToApp::Attached(Attached {
            id: id.number(),
            workers: request.workers,
            ports: self.ports.clone(),
            on_granted_cores: request.cores.is_some(),
            features: 0,
        });
        let answered = self.clients[at].peer.send(&answer, &handout.descriptors());
        self.close_later(uid, handout);
        match answered {
            Ok(true) => Ok(()),
            Ok(false) => Err("it does not read its answers".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The connection ends; what it took from the kernel goes back to it.
    pub(super) fn forget(&mut self, client: Client) {
        client.end();
        for destination in client.app.into_iter().flat_map(|app| app.destinations) {
            self.claims.remove(destination);
        }
        // What it has sent and nobody has read may be slow to close.
        self.close_later(client.peer.credentials().uid, client.peer);
    }
}
