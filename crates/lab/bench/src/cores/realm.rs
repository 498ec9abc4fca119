//! A dispatcher, its core allocator, and applications whose workers are kept, all in this process.

use std::io::{PipeReader, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use base::{Nanos, WorkerId};
use datapath::cores::{CoreAllocator, CoreSlot, CoreTerms, GrantedWorker, Hands};
use datapath::{
    AppDispatch, AppLimits, AttachmentId, Egress, Listener, Listeners, MigrateConfig, NewApp,
    SteeringConfig, Wake,
};
use policy::cores::{Class, CoreId, CoresConfig, CoresControl};
use policy::{Control, ControlConfig};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use shm::packets::{PacketServer, PacketSizes};
use wire::Protocol;

use crate::error::{Error, OrNeeds};
use crate::flows::{SERVER, SERVER_MAC};
use crate::rig::{Rig, RigConfig, policy};

const RING_SLOTS: u32 = 64;
const GROUPS: u32 = 1024;
const OVERRIDES: u32 = 16;
const SINGLE_MOVES: usize = 4;

/// Nobody here is given up.
const STALL: Nanos = Nanos::from_secs(1000);

/// Nor do groups move because their worker has been parked for long.
const REST_AFTER: Nanos = Nanos::from_secs(1000);

/// What a worker is woken with, as the daemon does it: a byte in a pipe that is never waited for.
fn doorbell() -> Result<(PipeReader, Wake), Error> {
    let (reader, writer) = std::io::pipe().or_needs("pipe")?;
    let flags = fcntl_getfl(&writer).or_needs("pipe")?;
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).or_needs("pipe")?;
    let wake: Wake = Arc::new(move || {
        // A full one has woken its reader already.
        let _ = (&writer).write(&[1]);
    });
    Ok((reader, wake))
}

/// A core control as the daemon makes it, over these cores.
pub(super) fn control(cores: &[u16]) -> Result<CoresControl, Error> {
    let policy = policy::cores::by_name("queue_delay").or_needs("policy of that name")?;
    let cores: Vec<CoreId> = cores.iter().copied().map(CoreId).collect();
    CoresControl::new(CoresConfig::default(), policy, &cores).or_needs("core control")
}

/// Dispatcher and allocator.
pub(super) struct Realm {
    pub(super) rig: Rig,
    pub(super) allocator: CoreAllocator,
    apps: u16,
}

/// An application of the realm, as its process would be told of it.
pub(super) struct Subject {
    pub(super) id: AttachmentId,
    pub(super) slots: Vec<CoreSlot>,
    /// Where its packets go; none for a batch job.
    pub(super) destination: Option<SocketAddr>,
    pub(super) region: OwnedFd,
    pub(super) doorbells: Vec<PipeReader>,
}

impl Realm {
    /// One that gives out these cores.
    pub(super) fn new(cores: &[u16]) -> Result<Self, Error> {
        let config = RigConfig { groups: GROUPS, ..RigConfig::default() };
        let rig = Rig::serving(&config, Listeners::new(Vec::new()))?;
        let allocator = CoreAllocator::new(control(cores)?, REST_AFTER);
        Ok(Self { rig, allocator, apps: 0 })
    }

    /// Takes an application up that may have as many cores as it has workers; those of a
    /// latency-critical one are guaranteed to it.
    pub(super) fn admit(&mut self, class: Class, workers: u16) -> Result<Subject, Error> {
        let sizes = PacketSizes {
            workers: u32::from(workers),
            ring_slots: RING_SLOTS,
            chunk_bytes: 2048,
            receive_chunks: RING_SLOTS * u32::from(workers),
            send_chunks: 4,
            handovers: SINGLE_MOVES as u32 + u32::from(workers),
        };
        let sizes = sizes.checked().or_needs("memory of that size")?;
        let (server, worker_queues) =
            PacketServer::create(sizes).or_needs("memory for an application")?;
        let region = server.as_fd().try_clone_to_owned().or_needs("descriptor")?;
        let bits = server.core_grant_bits();
        let (mut granted, mut called, mut doorbells) = (Vec::new(), Vec::new(), Vec::new());
        for (worker_queue, worker) in worker_queues.into_iter().zip(0..workers) {
            let (doorbell, wake) = doorbell()?;
            let core_grant =
                server.core_grant(u32::from(worker)).ok_or("it has none").or_needs("core grant")?;
            let call = self.allocator.call();
            called.push((worker_queue, call.over(&wake)));
            granted.push(GrantedWorker { worker: WorkerId(worker), core_grant, wake, call });
            doorbells.push(doorbell);
        }
        let address = SocketAddr::from((SERVER.0, 7000 + self.apps));
        self.apps += 1;
        let destination = (class == Class::Latency).then_some(address);
        let listener = |address| Listener { protocol: Protocol::Udp, address };
        let listeners: Vec<Listener> = destination.map(listener).into_iter().collect();
        let steer = policy("sticky", (GROUPS + OVERRIDES) as usize)?;
        let new = NewApp {
            server,
            workers: called,
            egress: Egress::new(listeners.clone(), vec![SERVER_MAC], Vec::new()),
            listeners,
            limits: AppLimits { packets_per_s: 0, wakes_per_s: 0, stall: STALL },
            steering: SteeringConfig {
                groups: GROUPS,
                overrides: OVERRIDES,
                workers_max: workers,
                migrate: MigrateConfig { slots: SINGLE_MOVES, ..MigrateConfig::default() },
                ..SteeringConfig::default()
            },
        };
        let control = |groups| Control::new(ControlConfig::default(), steer, groups);
        let app_dispatch = Box::new(AppDispatch::new(new, control).or_needs("owner table")?);
        let attached = self.rig.dispatcher.attach(app_dispatch);
        let id = attached.map_err(|(refused, _)| refused).or_needs("attachment")?;
        let guaranteed = if class == Class::Latency { workers } else { 0 };
        let terms = CoreTerms { guaranteed, burst: workers, class, queue_delay: Nanos::ZERO };
        let dispatcher = &mut self.rig.dispatcher;
        let slots =
            self.allocator.add(id, terms, granted, Some(bits), sys::clock::now(), dispatcher);
        let slots = slots.or_needs("cores for an application")?;
        Ok(Subject { id, slots, destination, region, doorbells })
    }

    /// A step of the allocator, if one is due.
    #[inline]
    pub(super) fn step(&mut self, now: Nanos, hands: &mut impl Hands) -> bool {
        self.allocator.step(now, &mut self.rig.dispatcher, hands)
    }
}
