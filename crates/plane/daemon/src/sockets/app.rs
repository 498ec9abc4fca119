//! One application with sockets, and the connections of its processes to the attach server.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use attach::{PeerCredentials, Profile};
use base::{AppId, RegionId, SlotId};
use config::Tenant;
use rustix::io::Errno;
use shm::sockets::{Kind, Quota, SlotState, SlotWords, SocketServer, SocketSizes};
use stack::{AppSockets, FlowRecords, Rate};
use sys::eventfd::EventFd;

use super::descriptors::Payer;
use super::notifier::{Ringer, Wakers};
use super::proofs::Proofs;
use super::tell::tell;
use crate::engine::algorithm;
use crate::guardian::{Guarded, Guardian, Guards};

/// Pollers that an application may have at once.
const POLLERS: u32 = shm::sockets::POLLERS_MAX;

/// An application: one process, and those that it forked.
pub(super) struct App {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) profile: Profile,
    pub(super) proofs: Proofs,
    pub(super) tenant: Arc<Tenant>,
    pub(super) streams: Arc<AppSockets>,
    pub(super) quota: Arc<Quota>,
    pub(super) wakers: Arc<Wakers>,
    /// Rung by the application when a worker sleeps.
    pub(super) doorbell: Arc<EventFd>,
    /// Processes that are connected.
    pub(super) pids: Vec<u32>,
    /// One of them is or was in a PID namespace that is not ours: what it has open is not to be
    /// seen in /proc.
    pub(super) has_hidden_process: bool,
    /// The guardian has its memory too.
    guarded: Option<Guarded>,
}

/// What a new application is made from.
pub(super) struct NewApp {
    pub(super) number: AppId,
    pub(super) region: RegionId,
    pub(super) name: String,
    pub(super) who: PeerCredentials,
    pub(super) profile: Profile,
    pub(super) tenant: Arc<Tenant>,
    /// Workers that the daemon may ever have.
    pub(super) workers: u32,
    pub(super) rate: Option<Arc<Rate>>,
    /// What all programs of the user may have together.
    pub(super) quota: Arc<Quota>,
    /// Who goes on with its connections when this process is dead.
    pub(super) guardian: Option<Guardian>,
}

impl App {
    /// Makes its memory.
    pub(super) fn new(new_app: NewApp) -> Result<Self, String> {
        let NewApp { number, region, name, who, profile, tenant, workers, rate, quota, guardian } =
            new_app;
        let failed =
            |error: &dyn std::fmt::Display| format!("the daemon ran out of resources: {error}");
        let sizes = SocketSizes {
            slots: tenant.connections.clamp(2, shm::sockets::SLOTS_MAX),
            pollers: POLLERS,
            sides: 1,
            workers: workers.min(shm::sockets::WORKERS_MAX),
            ring_bytes: u64::from(tenant.memory_mib).min(1 << 16) << 20,
        };
        let server = SocketServer::within(&name, sizes, Arc::clone(&quota))
            .map_err(|error| failed(&error))?;
        let records =
            guardian.is_some().then(|| FlowRecords::create("calisto-repair", sizes.slots));
        let records = records.transpose().map_err(|error| failed(&error))?.map(Arc::new);
        let doorbell = Arc::new(EventFd::new().map_err(|error| failed(&error))?);
        let proofs = Proofs::new(who).map_err(|error| failed(&error))?;
        let wakers = Wakers::new();
        let notifier = Box::new(Ringer(Arc::clone(&wakers)));
        let limits = Arc::clone(&tenant);
        let permits =
            tenant.connect.is_some().then(|| -> Box<dyn Fn(SocketAddr) -> bool + Send + Sync> {
                Box::new(move |remote| limits.may_connect(remote))
            });
        let spins = profile != Profile::Safe;
        let streams = AppSockets {
            app: number,
            user: who.uid,
            region,
            records,
            server,
            notifier,
            spins,
            rate,
            permits,
            congestions: tenant.congestion.iter().map(|one| algorithm(*one)).collect(),
            trace_one_in: AtomicU32::new(0),
        };
        let streams = Arc::new(streams);
        let uid = who.uid;
        let mut app = Self {
            name,
            uid,
            profile,
            proofs,
            tenant,
            streams,
            quota,
            wakers,
            doorbell,
            pids: vec![who.pid],
            has_hidden_process: is_hidden(who),
            guarded: None,
        };
        guardian.iter().for_each(|guardian| app.guard(guardian));
        Ok(app)
    }

    /// The guardian, or another one, is to have its memory and its pollers.
    pub(super) fn guard(&mut self, guardian: &Guardian) {
        let Some(records) = &self.streams.records else { return };
        let (number, uid) = (self.number(), self.uid.into());
        let memory = self.streams.server.memory().descriptor();
        let descriptors = [memory, records.table().descriptor()];
        self.guarded = Some(guardian.hold(Guards::App, number, uid, &descriptors));
        self.wakers.guard(guardian, number);
    }

    /// A further process of it is here.
    pub(super) fn add_process(&mut self, who: PeerCredentials) {
        self.pids.push(who.pid);
        self.has_hidden_process |= is_hidden(who);
    }

    /// Whether an operator means it by that name or number.
    pub(super) fn answers_to(&self, text: &str) -> bool {
        self.name == text || self.number().to_string() == text
    }

    /// Its number.
    pub(super) fn number(&self) -> AppId {
        self.streams.app
    }

    /// On whose account the daemon has descriptors for it.
    pub(super) fn payer(&self) -> Payer {
        Payer { uid: self.uid, app: self.number() }
    }

    /// Its region's number.
    pub(super) fn region(&self) -> RegionId {
        self.streams.region
    }

    /// The words of one of its slots.
    pub(super) fn words(&self, slot: SlotId) -> Option<&SlotWords> {
        self.streams.server.memory().slot(slot)
    }

    /// Tells whoever waits for a slot that there is news.
    pub(super) fn tell(&self, slot: SlotId) {
        tell(self.streams.server.memory(), slot, &*self.streams.notifier);
    }

    /// A connection that no worker has heard of could not be opened.
    pub(super) fn fail(&self, slot: SlotId, errno: Errno) {
        let Some(words) = self.words(slot) else { return };
        words.error.store(errno.raw_os_error().unsigned_abs(), Ordering::Release);
        let state = Kind::Stream as u32 | SlotState::BROKEN | SlotState::FINISHED;
        words.state.store(state, Ordering::Release);
        self.tell(slot);
    }
}

/// Whether a process has no number in our PID namespace (unix(7): SO_PEERCRED says zero then).
fn is_hidden(who: PeerCredentials) -> bool {
    who.pid == 0
}

/// One process of an application: a connection to the attach server.
pub(crate) struct Member {
    pub(super) app: AppId,
    pub(super) pid: u32,
    pub(super) uid: u32,
    /// Who it was when it connected, as the kernel tells.
    pub(super) who: PeerCredentials,
    pub(super) pollers: Vec<u32>,
    /// Regions that it was given, or may ask for.
    pub(super) knows: BTreeSet<RegionId>,
    pub(super) may_map: BTreeSet<RegionId>,
}

impl Member {
    pub(super) fn new(app: AppId, who: PeerCredentials, region: RegionId) -> Self {
        let knows = BTreeSet::from([region]);
        let PeerCredentials { pid, uid, gid: _ } = who;
        Self { app, pid, uid, who, pollers: Vec::new(), may_map: knows.clone(), knows }
    }

    /// On whose account the daemon has its descriptors.
    pub(super) fn payer(&self) -> Payer {
        Payer { uid: self.uid, app: self.app }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The application's number.
    pub(crate) fn app(&self) -> AppId {
        self.app
    }
}
