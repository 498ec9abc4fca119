//! Applications with sockets, their processes and regions: they come, and they go.
//!
//! The table holds the parts, each of which owns what it keeps; the files of the folder say what
//! the table does with several of them at once. A part returns what has ended, and only the table
//! settles it.

mod app_rows;
mod calls;
mod connect;
mod ends;
mod firewall;
mod guardian;
mod lingering;
mod listen;
mod local;
mod memory;
mod named;
mod passed;
mod rights;
mod rows;
mod sources;
#[cfg(test)]
mod tests;
mod to_kernel;
mod traces;
mod udp;

pub(crate) use to_kernel::Processes;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use attach::{JoinRequest, PeerCredentials, SocketsRequest, Streaming};
use base::{AppId, Nanos, RegionId};
use config::Config;
use datapath::DetachReason;
use shm::sockets::{Budget, Side};
use stack::Command;
use sys::SysError;

use super::answer::Answer;
use super::app::{App, Member, NewApp};
use super::apps::{Apps, Gone};
use super::asking::AsideThreads;
use super::claimed::Claimed;
use super::descriptors::{APP_DESCRIPTORS, Descriptors, MEMBER_DESCRIPTORS};
use super::endings::Endings;
use super::fallbacks::Fallbacks;
use super::local_pair::LocalPair;
use super::network::Network;
use super::proofs::{Denial, Ids};
use super::records::Records;
use super::regions::{Region, Regions};
use super::table_config::SocketTableConfig;
use super::waiting::Waiting;
use crate::attach_server_counters::AttachServerEvent;
use crate::guardian::Guardian;
use crate::ring_memory;

/// Everybody, and everything that they have.
pub(crate) struct SocketTable {
    table_config: SocketTableConfig,
    pub(super) apps: Apps,
    pub(super) regions: Regions,
    pub(super) records: Records,
    pub(super) local_pairs: BTreeMap<RegionId, LocalPair>,
    network: Network,
    pub(super) claimed: Claimed,
    waiting: Waiting,
    pub(super) endings: Endings,
    pub(super) fallbacks: Fallbacks,
    threads: AsideThreads,
    pub(super) descriptors: Descriptors,
}

/// Processes of one application at the attach server: each is a connection, and asked about at
/// every look.
const PROCESSES_MAX: usize = 1024;

impl SocketTable {
    /// An empty one, in this thread's network namespace.
    pub(crate) fn new(table_config: SocketTableConfig) -> Result<Self, SysError> {
        let (links, names) = (table_config.links.clone(), table_config.names.clone());
        let interfaces = links.iter().map(|link| link.interface);
        let is_firewall_ignored = table_config.config.sockets.ignore_firewall;
        let budget = Budget::new(ring_memory::budget_bytes(table_config.config.sockets.memory_mib));
        table_config.counters.note_memory(&budget);
        Ok(Self {
            apps: Apps::new(budget),
            regions: Regions::default(),
            records: Records::default(),
            local_pairs: BTreeMap::new(),
            claimed: Claimed::new(interfaces),
            network: Network::watch(links, names, is_firewall_ignored)?,
            waiting: Waiting::default(),
            endings: Endings::watch()?,
            fallbacks: Fallbacks::default(),
            threads: AsideThreads::start()?,
            descriptors: Descriptors::new(table_config.config.sockets.descriptors),
            table_config,
        })
    }

    /// The configuration has changed: what users may do holds for all that is asked for from now
    /// on, what their programs get for those that come.
    pub(crate) fn change(&mut self, config: Arc<Config>) {
        self.network.ignore_filters(config.sockets.ignore_firewall);
        self.descriptors.set_limit(config.sockets.descriptors);
        for app in self.apps.iter_mut() {
            app.tenant = Arc::new(config.tenant(app.uid));
        }
        self.table_config.config = config;
    }

    /// What is to be waited for.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.endings.ends.as_fd()]
            .into_iter()
            .chain(self.network.descriptors())
            .chain(self.table_config.open_sockets.descriptor())
            .chain(self.table_config.guardian.as_ref().and_then(Guardian::descriptor))
    }

    /// Who goes on with connections when this process is dead.
    pub(crate) fn guardian(&self) -> Option<&Guardian> {
        self.table_config.guardian.as_ref()
    }

    /// Applications that are here.
    pub(crate) fn count(&self) -> usize {
        self.apps.count()
    }

    /// Applications of a user that are here.
    pub(crate) fn count_of(&self, uid: u32) -> usize {
        self.apps.count_of(uid)
    }

    /// Closes something that a process of user `uid` has passed.
    pub(crate) fn close_later(&mut self, uid: u32, thing: impl std::any::Any + Send) {
        self.threads.closer.close(uid, thing);
    }

    /// Whether so much of a user's waits to be closed that whoever of its processes sends more must
    /// go.
    pub(crate) fn is_flooded(&self, uid: u32) -> bool {
        self.threads.closer.is_full(uid)
    }

    /// An application comes.
    pub(crate) fn attach(
        &mut self,
        request: &SocketsRequest,
        who: PeerCredentials,
        now: Nanos,
    ) -> Result<(Member, Streaming, Answer), String> {
        if self.apps.is_draining() {
            return Err("the daemon is ending".to_owned());
        }
        if let Some(joined) = self.join_again(request, who) {
            return joined;
        }
        let tenant = Arc::new(self.table_config.config.tenant(who.uid));
        let same = self.count_of(who.uid);
        if same >= tenant.apps as usize {
            return Err(format!(
                "user {} has {same} programs attached and may have no more (`apps` of its \
                 `[[tenant]]`)",
                who.uid
            ));
        }
        self.apps.check_processes(who.uid)?;
        let count = APP_DESCRIPTORS + MEMBER_DESCRIPTORS;
        self.check_descriptors(who.uid, self.descriptors.has_room_for_new(who.uid, count))?;
        let number = self.apps.free_number(now).ok_or("too many programs are attached")?;
        let region = self.regions.new_number().ok_or("too many programs were attached")?;
        let rate = self.apps.rate_of(who.uid, &tenant);
        let quota = self.apps.quota_of(who.uid, &tenant);
        let mut app = App::new(NewApp {
            number,
            region,
            name: request.name.clone(),
            who,
            profile: request.profile,
            tenant,
            workers: u32::from(self.table_config.config.workers.max),
            rate,
            quota,
            guardian: self.table_config.guardian.clone(),
        })?;
        request.token_before.iter().for_each(|token| app.proofs.set_before(token));
        self.descriptors.take(app.payer(), count);
        self.regions.insert(region, Region::App(number));
        self.table_config.doorbells.add(number, Arc::clone(&app.doorbell));
        self.table_config.command_queue.command(&Command::Add(Arc::clone(&app.streams)));
        let neighbours = &self.network.neighbours;
        let (all, served) = (neighbours.host_addresses(), neighbours.addresses());
        app.streams.server.memory().set_host_addresses(all, served);
        let welcome = welcome(&app).map_err(|error| error.to_string());
        self.apps.insert(app);
        let member = Member::new(number, who, region);
        match welcome {
            Ok((streaming, answer)) => Ok((member, streaming, answer)),
            Err(why) => {
                self.leave(member, DetachReason::Protocol, now);
                Err(why)
            }
        }
    }

    /// A further process of an application comes. One that may not is counted among those that were
    /// left to the kernel, and told why; it can come as an application of its own.
    pub(crate) fn join(
        &mut self,
        request: &JoinRequest,
        who: PeerCredentials,
    ) -> Result<(Member, Streaming, Answer), String> {
        let number = u16::try_from(request.app).ok().map(AppId);
        let app = number.and_then(|number| self.apps.get(number));
        let payer = app.ok_or(Denial::Unknown.sentence())?.payer();
        self.check_descriptors(who.uid, self.descriptors.has_room(payer, MEMBER_DESCRIPTORS))?;
        let app = self.apps.get_mut(payer.app).ok_or(Denial::Unknown.sentence())?;
        let ids = Ids::of_process(who.pid);
        if let Err(denial) = app.proofs.check(&request.token, who, ids) {
            let refused = denial.note(app.number(), &app.name, who);
            refused.into_iter().for_each(|refused| self.fallbacks.add(refused));
            return Err(denial.sentence().to_owned());
        }
        let number = app.number();
        self.add_member(number, who)
    }

    /// A process comes whose application was served by the daemon before, if another one of it has
    /// come already.
    fn join_again(
        &mut self,
        request: &SocketsRequest,
        who: PeerCredentials,
    ) -> Option<Result<(Member, Streaming, Answer), String>> {
        let token = request.token_before.as_deref()?;
        let ids = Ids::of_process(who.pid);
        let is_its = |app: &&App| app.proofs.was_one_with(token, who, ids);
        let app = self.apps.iter().find(is_its)?;
        let (number, payer) = (app.number(), app.payer());
        let has_room = self.descriptors.has_room(payer, MEMBER_DESCRIPTORS);
        let room = self.check_descriptors(who.uid, has_room);
        Some(room.and_then(|()| self.add_member(number, who)))
    }

    fn add_member(
        &mut self,
        number: AppId,
        who: PeerCredentials,
    ) -> Result<(Member, Streaming, Answer), String> {
        let app = self.apps.get_mut(number).ok_or(Denial::Unknown.sentence())?;
        if app.pids.len() >= PROCESSES_MAX {
            return Err(format!("an application has at most {PROCESSES_MAX} processes here"));
        }
        let uid = app.uid;
        self.apps.check_processes(uid)?;
        let app = self.apps.get_mut(number).ok_or(Denial::Unknown.sentence())?;
        let (streaming, answer) = welcome(app).map_err(|error| error.to_string())?;
        app.add_process(who);
        let payer = app.payer();
        self.descriptors.take(payer, MEMBER_DESCRIPTORS);
        Ok((Member::new(app.number(), who, app.region()), streaming, answer))
    }

    /// A process is gone, or its connection. The application lives while any of its processes or
    /// sockets do.
    pub(crate) fn leave(&mut self, member: Member, reason: DetachReason, now: Nanos) {
        let count = member.pollers.len() + MEMBER_DESCRIPTORS;
        self.descriptors.give_back(member.payer(), count);
        let Some(app) = self.apps.get_mut(member.app) else { return };
        for poller in member.pollers {
            app.wakers.close(poller);
            app.streams.server.pollers(Side::Zero).give_back(poller);
        }
        if let Some(at) = app.pids.iter().position(|pid| *pid == member.pid) {
            app.pids.swap_remove(at);
        }
        self.settle(member.app, reason, now);
        self.suspect(member.app, now);
    }

    /// An application without processes and named sockets goes: nobody can name what is left.
    pub(super) fn settle(&mut self, number: AppId, reason: DetachReason, now: Nanos) {
        let Some(app) = self.apps.get(number) else { return };
        let has_sockets = || {
            self.records.of_region(app.region()).next().is_some()
                || self.local_pairs.values().any(|local_pair| local_pair.has_named_end(number))
        };
        if app.pids.is_empty() && !has_sockets() {
            self.detach(number, reason, now);
        }
    }

    /// An application goes, with everything that it has.
    pub(crate) fn detach(&mut self, number: AppId, reason: DetachReason, now: Nanos) {
        let Some(app) = self.apps.remove(number, reason, now) else { return };
        if self.apps.put_out().note(&app, reason, now) {
            self.table_config.counters.count(AttachServerEvent::ProgramsPutOut);
        }
        self.descriptors.give_back(app.payer(), APP_DESCRIPTORS);
        self.end_local_pairs_of(number);
        let places: Vec<_> = self.records.of_region(app.region()).map(|(place, _)| place).collect();
        for place in places {
            if let Some(record) = self.records.remove(place) {
                self.claimed.release(record);
            }
        }
        self.waiting.connects.retain(|pending| pending.app != number);
        // Before workers free its slots: a connection that is gone without that would pass for one
        // that has ended in order.
        app.streams.server.memory().end(reason.code());
        app.wakers.close_all();
        self.table_config.command_queue.command(&Command::Remove { app: number });
        self.table_config.doorbells.remove(number);
        self.regions.remove(app.region());
        self.claimed.holds.finish_all(number, now + self.time_wait());
        // Its program has it, too, and may keep whoever closes the last copy.
        let App { uid, doorbell, .. } = app;
        self.close_later(uid, doorbell);
    }

    /// No new connections and listeners from now on.
    pub(crate) fn drain(&mut self, now: Nanos) {
        self.apps.drain();
        let places: Vec<_> = self.records.listeners().map(|(place, ..)| place).collect();
        for place in places {
            self.end_listener(place, now);
        }
    }

    /// Whether it is to be drained and no connection is left.
    pub(crate) fn is_drained(&self) -> bool {
        let has_sockets = |app: &App| {
            app.streams.server.slots_taken() > self.endings.given.slots_of(app.number())
        };
        self.apps.is_draining()
            && self.local_pairs.values().all(LocalPair::is_empty)
            && !self.apps.iter().any(has_sockets)
    }

    /// All applications go.
    pub(crate) fn detach_all(&mut self, reason: DetachReason, now: Nanos) {
        let all: Vec<AppId> = self.apps.iter().map(App::number).collect();
        for number in all {
            self.detach(number, reason, now);
        }
    }

    /// Applications that are gone since the last call.
    pub(crate) fn take_gone(&mut self) -> Vec<Gone> {
        self.apps.take_gone()
    }

    /// How long a connection's name stays taken.
    fn time_wait(&self) -> Nanos {
        Nanos::from_millis(u64::from(self.table_config.config.tcp.time_wait_ms) + 1000)
    }

    /// Whether there are descriptors for what a user wants; why not, as a sentence.
    fn check_descriptors(&self, uid: u32, has_room: bool) -> Result<(), String> {
        if has_room {
            return Ok(());
        }
        self.table_config.counters.count(AttachServerEvent::DescriptorShareUsedUp);
        Err(format!(
            "user {uid} has as many of the daemon's descriptors as it may have (`sockets.descriptors`, \
             LimitNOFILE)"
        ))
    }
}

/// What a process of `app` is told and gets.
fn welcome(app: &App) -> rustix::io::Result<(Streaming, Answer)> {
    let mut streaming = Streaming {
        app: app.number().0.into(),
        region: app.region().0,
        token: String::new(),
        ticket: String::new(),
        pollers: shm::sockets::POLLERS_MAX,
        join_listener: None,
        features: 0,
    };
    app.proofs.tell(&mut streaming);
    let memory = app.streams.server.memory();
    Ok((streaming, Answer::done().with(memory.descriptor())?.with(app.doorbell.as_fd())?))
}
