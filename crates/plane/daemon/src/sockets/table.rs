//! Who is here: applications with sockets, their processes, their regions.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};

use attach::{JoinRequest, PeerCredentials, SocketsRequest, Streaming};
use base::Nanos;
use config::Tenant;
use datapath::DetachReason;
use port::xdp::{Destination, Protocol};
use shm::sockets::{Quota, Side};
use stack::{Command, Rate};
use sys::SysError;
use sys::socket_end::SocketEnds;

use super::app::{App, Member, NewApp};
use super::calls::Answer;
use super::closer::Closer;
use super::connect::Pending;
use super::ends::Suspects;
use super::examine;
use super::fallbacks::Fallbacks;
use super::firewall::Firewall;
use super::guards::{Holds, destination};
use super::interfaces::Interfaces;
use super::lingering::Lingering;
use super::local_pair::LocalPair;
use super::proofs::{Denial, Ids};
use super::records::{Record, Records, What};
use super::rights::Rights;
use super::routes::Neighbours;
use super::shares::{self, APP_DESCRIPTORS, MEMBER_DESCRIPTORS, Shares};
use super::table_config::SocketTableConfig;
use super::udp::Unresolved;

/// A number is not given to another application for so long: what workers still say is about the
/// old one.
const NUMBER_RESTS: Nanos = Nanos::from_secs(10);

/// Everybody, and everything that they have.
pub(crate) struct SocketTable {
    pub(super) table_config: SocketTableConfig,
    pub(super) namespace: u64,
    pub(super) apps: BTreeMap<u16, App>,
    /// Numbers that applications had, and until when they rest.
    resting: BTreeMap<u16, Nanos>,
    pub(super) regions: BTreeMap<u32, Region>,
    last_region: u32,
    pub(super) records: Records,
    pub(super) local_pairs: BTreeMap<u32, LocalPair>,
    pub(super) neighbours: Neighbours,
    pub(super) rights: Rights,
    pub(super) interfaces: Interfaces,
    pub(super) holds: Holds,
    pub(super) lingering: Lingering,
    /// Destinations that nobody here wants any more.
    pub(super) released: Vec<Destination>,
    pub(super) pending: Vec<Pending>,
    pub(super) unresolved: Vec<Unresolved>,
    pub(super) suspects: Vec<Suspects>,
    pub(super) ends: SocketEnds,
    pub(super) fallbacks: Fallbacks,
    pub(super) closer: Closer,
    rates: BTreeMap<u32, Arc<Rate>>,
    /// By user: what its programs have together. One lives as long as any of their memory.
    quotas: BTreeMap<u32, Weak<Quota>>,
    /// The daemon's own, by the user for whom it has them.
    pub(super) descriptors: Shares,
    pub(super) firewall: Firewall,
    pub(super) is_draining: bool,
    pub(super) gone: Vec<Gone>,
}

/// An application that is here no more, and why.
pub(crate) struct Gone {
    pub(crate) app: u16,
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) reason: DetachReason,
}

/// Whose memory a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Region {
    App(u16),
    /// One side of a local pair: each has a number of its own.
    LocalPair(u32, Side),
}

/// Processes of one application at the attach server: each is a connection, and asked about at
/// every look.
const PROCESSES_MAX: usize = 1024;

impl SocketTable {
    /// An empty one, in this thread's network namespace.
    pub(crate) fn new(table_config: SocketTableConfig) -> Result<Self, SysError> {
        let links = table_config.links.clone();
        let names = table_config.names.clone();
        let is_firewall_ignored = table_config.config.sockets.ignore_firewall;
        Ok(Self {
            table_config,
            namespace: examine::own_namespace()?,
            apps: BTreeMap::new(),
            resting: BTreeMap::new(),
            regions: BTreeMap::new(),
            last_region: 0,
            records: Records::default(),
            local_pairs: BTreeMap::new(),
            interfaces: Interfaces::new(names),
            rights: Rights::new(links.iter().map(|link| link.interface)),
            neighbours: Neighbours::new(links)?,
            holds: Holds::default(),
            lingering: Lingering::default(),
            released: Vec::new(),
            pending: Vec::new(),
            unresolved: Vec::new(),
            suspects: Vec::new(),
            ends: SocketEnds::watch()?,
            fallbacks: Fallbacks::default(),
            closer: Closer::start()?,
            rates: BTreeMap::new(),
            quotas: BTreeMap::new(),
            descriptors: Shares::new(shares::descriptors()),
            firewall: Firewall::watch(is_firewall_ignored)?,
            is_draining: false,
            gone: Vec::new(),
        })
    }

    /// What is to be waited for.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.ends.as_fd(), self.neighbours.as_fd()].into_iter().chain(self.firewall.descriptor())
    }

    /// Applications that are here.
    pub(crate) fn count(&self) -> usize {
        self.apps.len()
    }

    /// Applications of a user that are here.
    pub(crate) fn count_of(&self, uid: u32) -> usize {
        self.apps.values().filter(|app| app.uid == uid).count()
    }

    /// Closes something that a process of user `uid` has passed.
    pub(crate) fn close_later(&mut self, uid: u32, thing: impl std::any::Any + Send) {
        self.closer.close(uid, thing);
    }

    /// Whether so much of a user's waits to be closed that whoever of its processes sends more must
    /// go.
    pub(crate) fn is_flooded(&self, uid: u32) -> bool {
        self.closer.is_full(uid)
    }

    /// An application comes.
    pub(crate) fn attach(
        &mut self,
        request: &SocketsRequest,
        who: PeerCredentials,
        now: Nanos,
    ) -> Result<(Member, Streaming, Answer), String> {
        if self.is_draining {
            return Err("the daemon is ending".to_owned());
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
        self.check_descriptors(who.uid, APP_DESCRIPTORS + MEMBER_DESCRIPTORS)?;
        let number = self.free_number(now).ok_or("too many programs are attached")?;
        let region = self.new_region().ok_or("too many programs were attached")?;
        let rate = (tenant.rate_mbit > 0).then(|| {
            let bytes_per_s = u64::from(tenant.rate_mbit) * 1_000_000 / 8;
            let new = || Arc::new(Rate::new(bytes_per_s, u64::from(tenant.burst_kib) << 10));
            // One for all programs of a user.
            Arc::clone(self.rates.entry(who.uid).or_insert_with(new))
        });
        let quota = self.quota_of(who.uid, &tenant);
        let app = App::new(NewApp {
            number,
            region,
            name: request.name.clone(),
            who,
            profile: request.profile,
            tenant,
            workers: u32::from(self.table_config.config.workers.max),
            rate,
            quota,
        })?;
        self.descriptors.take(who.uid, APP_DESCRIPTORS + MEMBER_DESCRIPTORS);
        self.regions.insert(region, Region::App(number));
        self.table_config.doorbells.add(number, Arc::clone(&app.doorbell));
        self.table_config.command_queue.command(&Command::Add(Arc::clone(&app.streams)));
        let app = self.apps.entry(number).or_insert(app);
        let welcome = welcome(app).map_err(|error| error.to_string());
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
        self.check_descriptors(who.uid, MEMBER_DESCRIPTORS)?;
        let number = u16::try_from(request.app).ok();
        let app = number.and_then(|number| self.apps.get_mut(&number));
        let app = app.ok_or(Denial::Unknown.sentence())?;
        let ids = Ids::of_process(who.pid);
        if let Err(denial) = app.proofs.check(&request.token, who, ids) {
            let refused = denial.note(app.number(), &app.name, who);
            refused.into_iter().for_each(|refused| self.fallbacks.add(refused));
            return Err(denial.sentence().to_owned());
        }
        if app.pids.len() >= PROCESSES_MAX {
            return Err(format!("an application has at most {PROCESSES_MAX} processes here"));
        }
        let (streaming, answer) = welcome(app).map_err(|error| error.to_string())?;
        app.pids.push(who.pid);
        self.descriptors.take(who.uid, MEMBER_DESCRIPTORS);
        Ok((Member::new(app.number(), who, app.region()), streaming, answer))
    }

    /// A process is gone, or its connection. The application lives while any of its processes or
    /// sockets do.
    pub(crate) fn leave(&mut self, member: Member, reason: DetachReason, now: Nanos) {
        let count = member.pollers.len() + MEMBER_DESCRIPTORS;
        self.descriptors.give_back(member.uid, count);
        let Some(app) = self.apps.get_mut(&member.app) else { return };
        for poller in member.pollers {
            app.pipes.close(poller);
            app.streams.server.pollers(Side::Zero).give_back(poller);
        }
        if let Some(at) = app.pids.iter().position(|pid| *pid == member.pid) {
            app.pids.swap_remove(at);
        }
        self.settle(member.app, reason, now);
        self.suspect(member.app, now);
    }

    /// An application without processes and named sockets goes: nobody can name what is left.
    pub(super) fn settle(&mut self, number: u16, reason: DetachReason, now: Nanos) {
        let Some(app) = self.apps.get(&number) else { return };
        let has_sockets = || {
            self.records.of_region(app.region()).next().is_some()
                || self.local_pairs.values().any(|local_pair| local_pair.has_named_end(number))
        };
        if app.pids.is_empty() && !has_sockets() {
            self.detach(number, reason, now);
        }
    }

    /// An application goes, with everything that it has.
    pub(crate) fn detach(&mut self, number: u16, reason: DetachReason, now: Nanos) {
        let Some(app) = self.apps.remove(&number) else { return };
        self.resting.insert(number, now + NUMBER_RESTS);
        self.descriptors.give_back(app.uid, APP_DESCRIPTORS);
        self.end_local_pairs_of(number);
        let places: Vec<_> = self.records.of_region(app.region()).map(|(place, _)| place).collect();
        for place in places {
            if let Some(record) = self.records.remove(place) {
                self.release(record);
            }
        }
        self.pending.retain(|pending| pending.app != number);
        self.table_config.command_queue.command(&Command::Remove { app: number });
        self.table_config.doorbells.remove(number);
        app.streams.server.memory().end(reason.code());
        self.regions.remove(&app.region());
        self.holds.finish_all(number, now + self.time_wait());
        if !self.apps.values().any(|other| other.uid == app.uid) {
            self.rates.remove(&app.uid);
        }
        self.gone.push(Gone { app: number, name: app.name, uid: app.uid, reason });
    }

    /// No new connections and listeners from now on.
    pub(crate) fn drain(&mut self, now: Nanos) {
        self.is_draining = true;
        let places: Vec<_> = self.records.listeners().map(|(place, ..)| place).collect();
        for place in places {
            self.end_listener(place, now);
        }
    }

    /// Whether it is to be drained and no connection is left.
    pub(crate) fn is_drained(&self) -> bool {
        let has_sockets = |app: &App| app.streams.server.slots_taken() > 0;
        self.is_draining
            && self.local_pairs.values().all(LocalPair::is_empty)
            && !self.apps.values().any(has_sockets)
    }

    /// All applications go.
    pub(crate) fn detach_all(&mut self, reason: DetachReason, now: Nanos) {
        while let Some(number) = self.apps.keys().next().copied() {
            self.detach(number, reason, now);
        }
    }

    /// What a socket of an application that is gone had taken from the kernel goes back.
    fn release(&mut self, record: Record) {
        match record.what {
            What::Listener(listener) => {
                let addresses = listener.addresses.iter();
                self.released.extend(addresses.map(|at| destination(Protocol::Tcp, *at)));
            }
            What::Datagram(bound) => self.released.extend(bound.destinations),
            What::Stream | What::Unsent | What::Local => {}
        }
    }

    /// Applications that are gone since the last call.
    pub(crate) fn take_gone(&mut self) -> Vec<Gone> {
        std::mem::take(&mut self.gone)
    }

    /// How long a connection's name stays taken.
    pub(super) fn time_wait(&self) -> Nanos {
        Nanos::from_millis(u64::from(self.table_config.config.tcp.time_wait_ms) + 1000)
    }

    /// What the programs of a user may have together.
    fn quota_of(&mut self, uid: u32, tenant: &Tenant) -> Arc<Quota> {
        self.quotas.retain(|_, quota| quota.strong_count() > 0);
        if let Some(quota) = self.quotas.get(&uid).and_then(Weak::upgrade) {
            return quota;
        }
        let bytes = u64::from(tenant.memory_mib) << 20;
        let quota = Arc::new(Quota::new(tenant.connections, bytes));
        self.quotas.insert(uid, Arc::downgrade(&quota));
        quota
    }

    fn free_number(&mut self, now: Nanos) -> Option<u16> {
        self.resting.retain(|_, until| *until > now);
        // Zero is nobody's, so that a word that was never written names nobody.
        (1..u16::MAX)
            .find(|number| !self.apps.contains_key(number) && !self.resting.contains_key(number))
    }

    /// A number that no region ever had.
    pub(super) fn new_region(&mut self) -> Option<u32> {
        self.last_region = self.last_region.checked_add(1)?;
        Some(self.last_region)
    }
}

/// What a process of `app` is told and gets.
fn welcome(app: &App) -> rustix::io::Result<(Streaming, Answer)> {
    let mut streaming = Streaming {
        app: u32::from(app.number()),
        region: app.region(),
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
