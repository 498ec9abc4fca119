//! What applications ask, and the answers.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use attach::{Call, FallbackReason, RegionKind, Reply};
use base::{AppId, Generation, Nanos, RegionId, SlotId};
use rustix::io::Errno;
use shm::sockets::{Kind, Side, SlotWords};

use super::super::answer::{Answer, Context, Refusal};
use super::super::app::{App, Member};
use super::super::aside::Passed;
use super::super::examine;
use super::super::fallbacks::Fallback;
use super::super::names::SlotKey;
use super::super::proofs::Ids;
use super::super::records::{Record, What};
use super::super::regions::Region;
use super::SocketTable;
use crate::apps::Claims;
use crate::attach_server_counters::AttachServerEvent;
use crate::log;

/// Sockets among which the name of one that is given on is looked for: some milliseconds.
const NAMES_LOOKED_AT_MAX: usize = 1 << 16;

impl SocketTable {
    /// Answers a call of a process; `socket` came beside it.
    pub(crate) fn call(
        &mut self,
        member: &mut Member,
        call: &Call,
        socket: Option<OwnedFd>,
        claims: &mut Claims,
        now: Nanos,
    ) -> Answer {
        let mut context = Context { member, claims, now };
        let context = &mut context;
        if !call.has_descriptor() {
            if let Some(socket) = socket {
                // It came all the same.
                self.close_later(context.member.uid, socket);
            }
            return match *call {
                Call::Poller => self.open_poller(context),
                Call::DropPoller { poller } => self.drop_poller(context, poller),
                Call::Unlisten { region, slot } => {
                    self.unlisten(context, (RegionId(region), SlotId(slot)))
                }
                Call::Region { region } => self.give_region(context, RegionId(region)),
                _ => Answer::errno(Errno::INVAL),
            };
        }
        let Some(socket) = socket else {
            // It did not fit into this process.
            return Answer::new(Reply::Kernel { reason: FallbackReason::DaemonBusy });
        };
        let socket = Arc::new(socket);
        let (cookie, inode) = examine::identity(&socket);
        let answered = match *call {
            _ if self.apps.is_draining() => Err(FallbackReason::DaemonBusy.into()),
            Call::Listen { backlog } => self.listen(context, &socket, backlog),
            Call::Connect { remote } => self.connect(context, &socket, remote),
            Call::Udp { remote } => self.udp(context, &socket, remote),
            Call::Adopt => {
                self.adopt(context, &socket, cookie).ok_or(Refusal::Kernel(FallbackReason::NotOurs))
            }
            Call::Fallback { reason } => {
                // What comes from now on is the kernel's, if it had a half of ours until now.
                let _ = self.datagrams_of(context, cookie);
                self.note_fallback(context.member, cookie, inode, reason);
                Ok(Answer::done())
            }
            _ => Ok(Answer::errno(Errno::INVAL)),
        };
        let answer = match answered {
            Ok(answer) => answer,
            Err(Refusal::Errno(errno)) => Answer::errno(errno),
            Err(Refusal::Kernel(reason)) => {
                // Whoever adopts asks whether, and has not lost anything when not.
                if reason != FallbackReason::NotOurs {
                    self.note_fallback(context.member, cookie, inode, reason);
                }
                Answer::new(Reply::Kernel { reason })
            }
        };
        self.close_passed(context.member.uid, socket);
        answer
    }

    fn note_fallback(&mut self, member: &Member, cookie: u64, inode: u64, reason: FallbackReason) {
        let Some(app) = self.apps.get(member.app) else { return };
        let app_name = app.name.clone();
        let (app, uid, pid) = (member.app, app.uid, member.pid);
        tracing::debug!(target: log::SOCKETS, app = app.0, app_name, pid, ?reason, "left to the kernel");
        self.fallbacks.add(Fallback { app, app_name, uid, pid, cookie, inode, reason, count: 1 });
    }

    fn open_poller(&mut self, context: &mut Context<'_>) -> Answer {
        let Some(app) = self.apps.get(context.member.app) else {
            return Answer::errno(Errno::INVAL);
        };
        let payer = context.member.payer();
        if !self.descriptors.has_room(payer, 1) {
            self.table_config.counters.count(AttachServerEvent::DescriptorShareUsedUp);
            return Answer::errno(Errno::NFILE);
        }
        let pollers = app.streams.server.pollers(Side::Zero);
        let Some(poller) = pollers.take() else { return Answer::errno(Errno::NOSPC) };
        let guardian = self.table_config.guardian.as_ref();
        match app.wakers.open(poller, guardian.map(|guardian| (guardian, app.number()))) {
            Ok(pipe) => {
                context.member.pollers.push(poller);
                self.descriptors.take(payer, 1);
                Answer { reply: Reply::Poller { poller }, descriptors: vec![pipe] }
            }
            Err(error) => {
                pollers.give_back(poller);
                Answer::errno(error.errno())
            }
        }
    }

    fn drop_poller(&mut self, context: &mut Context<'_>, poller: u32) -> Answer {
        let own = context.member.pollers.iter().position(|other| *other == poller);
        let (Some(at), Some(app)) = (own, self.apps.get(context.member.app)) else {
            return Answer::errno(Errno::INVAL);
        };
        context.member.pollers.swap_remove(at);
        self.descriptors.give_back(context.member.payer(), 1);
        app.wakers.close(poller);
        app.streams.server.pollers(Side::Zero).give_back(poller);
        Answer::done()
    }

    /// A socket that came from elsewhere: from before an exec, or from another process. With it
    /// comes the whole region of its application, so one of another application is given to its
    /// user and group only, as a ticket is. A listener that came to somebody else is the kernel's
    /// from now on: there the calls are taken that nobody would take here.
    fn adopt(&mut self, context: &mut Context<'_>, socket: &Passed, cookie: u64) -> Option<Answer> {
        // Accepted ends of connections within the host may have been named a moment ago.
        self.learn_names();
        let (own, who) = (context.member.app, context.member.who);
        let ids = Ids::of_process(who.pid);
        let may = |app: &App| app.number() == own || app.proofs.is_same(who, ids);
        if self.records.named(cookie).next().is_none()
            && self.is_untouched(context, socket)
            && let Some((app, slot, generation)) = self.named_just_now(cookie, may)
        {
            self.name(app, slot, generation, cookie, context.now);
        }
        let may_have =
            |(_, record): &(SlotKey, &Record)| self.apps.get(record.app).is_some_and(may);
        let found = self.records.named(cookie).find(may_have).map(|(place, _)| place);
        let Some((region, slot)) = found else {
            let is_listener =
                |(_, record): &(SlotKey, &Record)| matches!(record.what, What::Listener(_));
            let listeners = self.records.named(cookie).filter(is_listener);
            let places: Vec<SlotKey> = listeners.map(|(place, _)| place).collect();
            places.into_iter().for_each(|place| self.end_listener(place, context.now));
            return None;
        };
        context.member.may_map.insert(region);
        Some(Answer::slot((region, slot)))
    }

    fn is_untouched(&mut self, context: &Context<'_>, socket: &Passed) -> bool {
        let socket = Passed::clone(socket);
        let asked = self.ask_aside(context.member.uid, move || examine::is_untouched(&socket));
        asked.unwrap_or(false)
    }

    /// An accepted connection that was named so a moment ago, and whose worker has not told of it
    /// yet: whoever took it may have given it on at once. Its application says whose descriptor it
    /// is, as it does to the worker.
    fn named_just_now(
        &self,
        cookie: u64,
        may: impl Fn(&App) -> bool,
    ) -> Option<(AppId, SlotId, Generation)> {
        let is_it = |words: &SlotWords| {
            let is_stream = words.state().kind() == Kind::Stream;
            is_stream && words.cookie.load(Ordering::Acquire) == cookie
        };
        let own = self.apps.iter().filter(|app| cookie != 0 && may(app));
        let places = own.flat_map(|app| {
            let server = &app.streams.server;
            let slots = (0..server.memory().sizes().slots).map(SlotId);
            let slots = slots.filter(|slot| server.is_taken(*slot));
            slots.take(server.slots_taken() as usize).map(move |slot| (app, slot))
        });
        let mut places = places.take(NAMES_LOOKED_AT_MAX);
        let (app, slot) = places.find(|(app, slot)| app.words(*slot).is_some_and(is_it))?;
        Some((app.number(), slot, app.streams.server.generation(slot)))
    }

    fn give_region(&mut self, context: &mut Context<'_>, region: RegionId) -> Answer {
        let member = &mut *context.member;
        let given = match self.regions.get(region) {
            Some(Region::App(number)) if member.may_map.contains(&region) => {
                self.apps.get(number).map(|app| {
                    let memory = app.streams.server.memory();
                    let answer = Answer::new(Reply::Region { kind: RegionKind::App, side: 0 });
                    answer.with(memory.descriptor())?.with(app.doorbell.as_fd())
                })
            }
            Some(Region::LocalPair(number, side)) => self.local_pairs.get(&number).and_then(|of| {
                let app = of.app(side);
                // Whoever has the region of a listener takes its callers of this host too.
                let has_listener = |app: &App| member.may_map.contains(&app.region());
                let may = app == member.app
                    || member.may_map.contains(&region)
                    || self.apps.get(app).is_some_and(has_listener);
                may.then(|| of.give(side, Answer::new(of.describe(side))))
            }),
            _ => None,
        };
        match given {
            Some(Ok(answer)) => {
                member.knows.insert(region);
                answer
            }
            Some(Err(errno)) => Answer::errno(errno),
            None => Answer::errno(Errno::ACCESS),
        }
    }
}
