//! A dispatcher with those whom it serves, all on one thread: applications over shared memory, or
//! its own workers.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use base::Nanos;
use datapath::{
    AppDispatch, AppLimits, Egress, Listener, Listeners, MigrateConfig, NewApp, Sink,
    SteeringConfig, Worker,
};
use policy::{Control, ControlConfig};
use shm::packets::{Next, PacketEnd, PacketMemory, PacketServer, PacketSizes};
use wire::Protocol;

use crate::error::{Error, OrNeeds};
use crate::flows::{SERVER, SERVER_MAC};
use crate::rig::{Rig, RigConfig, policy, spawn};

/// Workers of all applications together.
pub(super) const WORKERS: u32 = 64;

/// Addresses that packets go to: the same whoever serves them.
pub(super) const DESTINATIONS: u16 = 16;

/// Receive buffers of all applications together: 512 each, the daemon's default, when they are 16.
const RECEIVE_CHUNKS: u32 = 512 * 16;

/// What the daemon gives an application by default.
const RING_SLOTS: u32 = 512;
const SEND_CHUNKS: u32 = 64;
const GROUPS: u32 = 4096;
const OVERRIDES: u32 = 64;
const SINGLE_MOVES: usize = 16;
const HOLD_PACKETS: usize = 256;
const LOAD_INTERVAL: Nanos = Nanos::from_millis(10);
const STALL: Nanos = Nanos::from_secs(10);

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Servers {
    /// This many applications with [`WORKERS`] between them.
    Apps(u16),
    /// As many workers of the dispatcher's own, which are given frames and no copies.
    Own,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is done with.
    None,
    /// It goes back to where it came from.
    Echo,
}

/// A dispatcher and those whom it serves.
pub(super) struct Tenants {
    pub(super) rig: Rig,
    ends: Vec<PacketEnd>,
    workers: Vec<Worker<Sink>>,
    answer: Answer,
}

/// The destination with this number.
pub(super) fn destination(number: u16) -> SocketAddr {
    SocketAddr::from((SERVER.0, 7000 + number))
}

impl Tenants {
    pub(super) fn new(servers: Servers, answer: Answer) -> Result<Self, Error> {
        let listener = |number| Listener { protocol: Protocol::Udp, address: destination(number) };
        let listeners: Vec<Listener> = (0..DESTINATIONS).map(listener).collect();
        let config = RigConfig { groups: GROUPS, ..RigConfig::default() };
        let own = if servers == Servers::Own { listeners.clone() } else { Vec::new() };
        let rig = Rig::serving(&config, Listeners::new(own))?;
        let mut tenants = Self { rig, ends: Vec::new(), workers: Vec::new(), answer };
        match servers {
            Servers::Own => {
                for _ in 0..WORKERS {
                    tenants.workers.push(spawn(&mut tenants.rig.dispatcher, Sink)?);
                }
            }
            Servers::Apps(count) => {
                for part in listeners.chunks(usize::from(DESTINATIONS / count)) {
                    tenants.attach(part, u32::from(count))?;
                }
            }
        }
        Ok(tenants)
    }

    /// One of `count` applications.
    fn attach(&mut self, listeners: &[Listener], count: u32) -> Result<(), Error> {
        let workers = WORKERS / count;
        let sizes = PacketSizes {
            workers,
            ring_slots: RING_SLOTS,
            chunk_bytes: 2048,
            receive_chunks: RECEIVE_CHUNKS / count,
            send_chunks: SEND_CHUNKS,
            handovers: SINGLE_MOVES as u32 + workers,
        };
        let sizes = sizes.checked().or_needs("memory of that size")?;
        let (server, worker_queues) =
            PacketServer::create(sizes).or_needs("memory for an application")?;
        let file = server.as_fd().try_clone_to_owned().or_needs("descriptor")?;
        let mut memory = PacketMemory::open(file).or_needs("second mapping of it")?;
        self.ends.extend((0..workers).filter_map(|worker| memory.end(worker)));
        let steer = policy("sticky", (GROUPS + OVERRIDES) as usize)?;
        let new = NewApp {
            server,
            // Nobody sleeps here.
            workers: worker_queues
                .into_iter()
                .map(|worker_queue| (worker_queue, Arc::new(|| ()) as _))
                .collect(),
            egress: Egress::new(listeners.to_vec(), vec![SERVER_MAC], Vec::new()),
            listeners: listeners.to_vec(),
            limits: AppLimits { packets_per_s: 0, wakes_per_s: 0, stall: STALL },
            steering: SteeringConfig {
                groups: GROUPS,
                overrides: OVERRIDES,
                workers_max: workers as u16,
                load_interval: LOAD_INTERVAL,
                migrate: MigrateConfig {
                    hold_packets: HOLD_PACKETS,
                    slots: SINGLE_MOVES,
                    ..MigrateConfig::default()
                },
                ..SteeringConfig::default()
            },
        };
        let control = |groups| Control::new(ControlConfig::default(), steer, groups);
        let app_dispatch = Box::new(AppDispatch::new(new, control).or_needs("owner table")?);
        let attached = self.rig.dispatcher.attach(app_dispatch);
        attached.map_err(|(refused, _)| refused).or_needs("attachment")?;
        Ok(())
    }

    /// Every worker does all that it was given; packets done.
    #[inline]
    pub(super) fn serve(&mut self, now: Nanos) -> Result<usize, Error> {
        let mut served = 0;
        for worker in &mut self.workers {
            served += worker.step(now).messages;
        }
        for end in &mut self.ends {
            served += serve_end(end, self.answer)?;
        }
        Ok(served)
    }
}

fn serve_end(end: &mut PacketEnd, answer: Answer) -> Result<usize, Error> {
    let mut served = 0;
    while let Next::Packet(mut frame) = end.receive().or_needs("honest daemon")? {
        let given = match answer {
            Answer::None => end.done(frame),
            Answer::Echo => {
                let at = (frame.meta().l3_offset, frame.meta().l4_offset);
                let turned = wire::reply::turn_around(frame.bytes_mut(), at, None);
                debug_assert!(turned.is_some(), "only UDP between two hosts is sent here");
                end.send(frame)
            }
        };
        given.map_err(|_| "the ring to the daemon is full").or_needs("way back")?;
        served += 1;
    }
    // The daemon does not sleep here.
    let _ = end.publish();
    Ok(served)
}
