//! An application that writes whatever it likes into its shared memory, behind the real dispatcher.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ::wire::build::UdpPacket;
use ::wire::{Outcome, Toeplitz};
use base::{FlowGroup, Nanos, WorkerId};
use datapath::{
    AppDispatch, AppLimits, AttachmentId, DetachReason, Dispatcher, DispatcherConfig,
    DispatcherPort, Egress, Listener, Listeners, MigrateConfig, NewApp, SteeringConfig,
};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use policy::steer::{self, SteerConfig};
use policy::{Control, ControlConfig};
use port::Port;
use port::memory::{MemoryPort, wire};
use shm::packets::{Next, PacketEnd, PacketMemory, PacketServer, PacketSizes};
use shm::{Batch, FramePool, PoolConfig};

const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SIZES: PacketSizes = PacketSizes {
    workers: 2,
    ring_slots: 4,
    chunk_bytes: 2048,
    receive_chunks: 3,
    send_chunks: 1,
    handovers: 4,
};
const FRAMES: u32 = 48;
/// Requests of the neighbour after everything.
const ROUNDS: usize = 6;

/// One thing that happens.
#[derive(Arbitrary, Debug)]
pub enum Step {
    /// The application writes a word of its region, buffers included.
    Word { at: u16, value: u32 },
    /// It moves an index or a doorbell a little.
    Nudge { line: u8, by: i8 },
    /// It sends a message of its own making.
    Forge { worker: bool, kind: u8, words: [u64; 7] },
    /// It sends a message that is nearly right.
    Packet { worker: bool, chunk: u8, into: u16, len: u16, flags: u16, port: u8 },
    /// It behaves for a moment.
    Serve { worker: bool },
    /// A packet for it arrives.
    Arrive { flow: u8, len: u8 },
    /// Time passes.
    Turn { micros: u16 },
    /// An operator moves a group.
    Pin { group: u8, worker: bool },
}

/// The dispatcher, a neighbour that is honest, and the hostile one.
struct Harness {
    client: MemoryPort,
    dispatcher: Dispatcher<MemoryPort>,
    now: Nanos,
}

struct Tenant {
    id: AttachmentId,
    memory: OwnedFd,
    ends: Vec<PacketEnd>,
    _map: PacketMemory,
}

fn control(groups: usize) -> Control {
    let steer = steer::by_name("sticky", SteerConfig { groups, seed: 1 });
    Control::new(ControlConfig::default(), steer.expect("a policy"), groups)
}

fn steering() -> SteeringConfig {
    SteeringConfig {
        groups: 128,
        overrides: 0,
        workers_max: 2,
        migrate: MigrateConfig { hold_packets: 8, slots: 2, ..MigrateConfig::default() },
        ..SteeringConfig::default()
    }
}

impl Harness {
    fn new() -> Self {
        let pool =
            FramePool::new(PoolConfig { frames: FRAMES, chunk_bytes: 2048, numa_node: None });
        let (client, server) = wire(32);
        let config =
            DispatcherConfig { steering: steering(), ring: 8, hash_key: Toeplitz::MICROSOFT_KEY };
        let dispatcher = Dispatcher::new(
            &config,
            vec![DispatcherPort::new(server, OUR_MAC)],
            pool.expect("100 KiB fit"),
            Listeners::default(),
            control,
        );
        let dispatcher = dispatcher.expect("128 groups are possible");
        Self { client, dispatcher, now: Nanos::from_millis(1) }
    }

    fn attach(&mut self, port: u16) -> Tenant {
        let (server, worker_queues) = PacketServer::create(SIZES).expect("16 KiB fit");
        let memory = server.as_fd().try_clone_to_owned().expect("descriptors are left");
        let mut map = PacketMemory::open(memory.try_clone().expect("descriptors are left"))
            .expect("it has just been made");
        let ends = (0..2).map(|worker| map.end(worker).expect("once each")).collect();
        let address = SocketAddr::from(([10, 0, 0, 2], port));
        let listeners = vec![Listener { protocol: ::wire::Protocol::Udp, address }];
        let wake: datapath::Wake = Arc::new(|| ());
        let new = NewApp {
            server,
            workers: worker_queues
                .into_iter()
                .map(|worker_queue| (worker_queue, Arc::clone(&wake)))
                .collect(),
            egress: Egress::new(listeners.clone(), vec![OUR_MAC], Vec::new()),
            listeners,
            limits: AppLimits {
                packets_per_s: 0,
                wakes_per_s: 1000,
                stall: Nanos::from_millis(50),
            },
            steering: steering(),
        };
        let app_dispatch =
            Box::new(AppDispatch::new(new, control).expect("128 groups are possible"));
        let Ok(id) = self.dispatcher.attach(app_dispatch) else { panic!("nobody listens there") };
        Tenant { id, memory, ends, _map: map }
    }

    fn arrive(&mut self, port: u16, flow: u16, payload: &[u8]) {
        let packet = UdpPacket {
            source_mac: PEER_MAC,
            destination_mac: OUR_MAC,
            source: SocketAddr::from(([10, 0, 0, 1], 1000 + flow)),
            destination: SocketAddr::from(([10, 0, 0, 2], port)),
            payload,
            vlan: None,
        };
        let (_, pool) = self.dispatcher.ports_and_pool();
        let Some(mut frame) = pool.take() else { return };
        assert!(frame.set_len(packet.len()));
        packet.write(frame.bytes_mut()).expect("it is as long as it says");
        let mut batch = Batch::new();
        batch.push(frame);
        self.client.tx(pool, &mut batch, self.now);
        batch.drain(..).for_each(|frame| pool.give(frame));
    }

    /// One turn; what leaves is looked at. How many packets of the neighbour left.
    fn turn(&mut self, micros: u64) -> usize {
        self.now += Nanos::from_micros(micros);
        self.dispatcher.step(self.now);
        let mut batch = Batch::new();
        let (_, pool) = self.dispatcher.ports_and_pool();
        self.client.rx(pool, &mut batch, self.now);
        let mut neighbours = 0;
        for frame in batch.drain(..) {
            let Outcome::Flow(flow) = ::wire::classify(frame.bytes()) else {
                panic!("only whole packets leave")
            };
            let source = flow.key.source();
            assert_eq!(source.ip(), std::net::IpAddr::from([10, 0, 0, 2]), "in its own name");
            assert!(matches!(source.port(), 7 | 8), "from its own port");
            assert_eq!(frame.bytes()[6..12], OUR_MAC, "by our link address");
            neighbours += usize::from(source.port() == 7);
            pool.give(frame);
        }
        neighbours
    }
}

impl Tenant {
    fn write(&self, at: u64, value: &[u8]) {
        let _ = rustix::io::pwrite(&self.memory, value, at);
    }

    fn serve(&mut self, worker: usize) -> usize {
        let end = &mut self.ends[worker];
        let mut served = 0;
        for _ in 0..16 {
            // A frame that cannot be given back keeps its memory mapped for ever: take one only
            // where it can, also behind the end of a hand-over.
            if end.room() < 2 {
                break;
            }
            match end.receive() {
                Ok(Next::Packet(mut frame)) => {
                    let meta = *frame.meta();
                    let offsets = (meta.l3_offset, meta.l4_offset);
                    let turned = ::wire::reply::turn_around(frame.bytes_mut(), offsets, None);
                    let sent = if turned.is_some() { end.send(frame) } else { end.done(frame) };
                    served += usize::from(sent.is_ok());
                }
                Ok(Next::Attach(_) | Next::Detach(_)) => {}
                Ok(Next::Empty | Next::FramesOut | Next::Retired) | Err(_) => break,
            }
        }
        let _ = end.publish();
        served
    }
}

/// Whatever the application does: only whole packets in its own name leave, its neighbour is
/// served, and in the end no frame is missing.
pub fn run(steps: &[Step]) {
    let mut harness = Harness::new();
    let mut neighbour = harness.attach(7);
    let mut hostile = harness.attach(8);
    for step in steps {
        match step {
            Step::Word { at, value } => hostile.write(u64::from(*at) & !3, &value.to_ne_bytes()),
            Step::Nudge { line, by } => {
                let at = u64::from(*line) * 128;
                let mut word = [0; 4];
                let _ = rustix::io::pread(&hostile.memory, &mut word, at);
                let value = u32::from_ne_bytes(word).wrapping_add_signed(i32::from(*by));
                hostile.write(at, &value.to_ne_bytes());
            }
            Step::Forge { worker, kind, words } => {
                let [a, b, c, d, e, f, g] = *words;
                let kind = u64::from(*kind % 8);
                hostile.ends[usize::from(*worker)].forge([kind, a, b, c, d, e, f, g]);
            }
            Step::Packet { worker, chunk, into, len, flags, port } => {
                let chunks_at = SIZES.region_bytes() - 5 * 2048;
                let offset =
                    chunks_at as u64 + u64::from(*chunk % 6) * 2048 + u64::from(*into % 2100);
                let place = offset | u64::from(*len % 2100) << 32;
                let flags = u64::from(flags & 0x1ff) << 32;
                let words =
                    [1, place, 0, 0, u64::from(u32::MAX) | flags, u64::from(*port % 3), 0, 0];
                hostile.ends[usize::from(*worker)].forge(words);
            }
            Step::Serve { worker } => {
                hostile.serve(usize::from(*worker));
            }
            Step::Arrive { flow, len } => {
                harness.arrive(8, u16::from(*flow), &[0x55; 256][..usize::from(*len)]);
            }
            Step::Turn { micros } => {
                harness.turn(u64::from(*micros));
                // Whoever does not look at its rings for 50 ms would be thought to be stuck.
                neighbour.serve(0);
                neighbour.serve(1);
            }
            Step::Pin { group, worker } => {
                if let Some(steering) = harness.dispatcher.steering_of_mut(hostile.id) {
                    let (control, live) = steering.control_mut();
                    let group = FlowGroup(u32::from(*group % 128));
                    let _ = control.pin(group, WorkerId(u16::from(*worker)), live);
                }
            }
        }
        if let Some((who, why)) = harness.dispatcher.next_fault() {
            assert_eq!(who, hostile.id, "the neighbour is honest: {why}");
            assert!(harness.dispatcher.detach(who, why, harness.now).is_some());
        }
    }
    // The neighbour is served as if nothing had happened: its first packets may wait for a table.
    let mut served = 0;
    for _ in 0..ROUNDS {
        harness.arrive(7, 1, b"neighbour");
        harness.turn(60);
        neighbour.serve(0);
        neighbour.serve(1);
        served += harness.turn(60);
        if let Some((who, why)) = harness.dispatcher.next_fault() {
            assert_eq!(who, hostile.id);
            harness.dispatcher.detach(who, why, harness.now);
        }
    }
    assert!(served >= ROUNDS - 1, "{served} of {ROUNDS}");
    for id in [hostile.id, neighbour.id] {
        harness.dispatcher.detach(id, DetachReason::Left, harness.now);
    }
    harness.turn(60);
    assert_eq!(harness.dispatcher.pool().outstanding(), 0, "no frame is missing");
}
