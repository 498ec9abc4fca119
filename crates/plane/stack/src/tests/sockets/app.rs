//! The application's side of the memory, played word by word.

use base::{RegionId, SlotId};

use super::*;
use crate::FlowRecords;

pub(super) const POLLER: u32 = 3;

/// Counts who was woken.
#[derive(Default)]
pub(super) struct Rung {
    pub(super) pollers: AtomicU64,
    pub(super) futexes: AtomicU64,
}

impl Notifier for Arc<Rung> {
    fn poller(&self, _: Side, poller: u32) {
        assert_eq!(poller, POLLER);
        self.pollers.fetch_add(1, Ordering::Relaxed);
    }

    fn futex(&self, _: &AtomicU32) {
        self.futexes.fetch_add(1, Ordering::Relaxed);
    }
}

/// An application that listens.
pub(super) struct App {
    pub(super) command_queue: CommandQueue,
    pub(super) streams: Arc<AppSockets>,
    pub(super) memory: SocketMemory,
    pub(super) listener: SlotId,
    pub(super) rung: Arc<Rung>,
    pub(super) accepted: Vec<SlotId>,
    /// Rings that were taken from its connections, and that the slow side has.
    pub(super) evicted: Vec<Evicted>,
}

pub(super) fn options() -> FlowOptions {
    FlowOptions { receive_limit_log2: 22, ..FlowOptions::default() }
}

impl App {
    pub(super) fn new(
        command_queue: CommandQueue,
        rate: Option<Arc<Rate>>,
        quota_bytes: u64,
    ) -> Self {
        Self::named(command_queue, (AppId(5), 1000, 7), rate, quota_bytes)
    }

    /// Application `number` of `user`, which listens on `port`.
    pub(super) fn with_user(
        command_queue: CommandQueue,
        number: u16,
        user: u32,
        port: u16,
    ) -> Self {
        Self::named(command_queue, (AppId(number), user, port), None, 1 << 30)
    }

    fn named(
        command_queue: CommandQueue,
        (app, user, port): (AppId, u32, u16),
        rate: Option<Arc<Rate>>,
        quota_bytes: u64,
    ) -> Self {
        let sizes =
            SocketSizes { slots: 128, pollers: 8, sides: 1, workers: 16, ring_bytes: 64 << 20 };
        let quota = Arc::new(Quota::new(128, quota_bytes));
        let server = SocketServer::within("test", sizes, quota).expect("addresses are left");
        let fd = server.memory().descriptor().as_fd().try_clone_to_owned().expect("fds are left");
        let rung = Arc::new(Rung::default());
        let notifier = Box::new(Arc::clone(&rung));
        let streams = Arc::new(AppSockets {
            app,
            user,
            region: RegionId(9),
            records: FlowRecords::create("test", server.memory().sizes().slots).ok().map(Arc::new),
            server,
            notifier,
            spins: true,
            rate,
            permits: None,
            congestions: vec![Algorithm::NewReno, Algorithm::Timely],
            trace_one_in: AtomicU32::new(0),
        });
        command_queue.command(&Command::Add(Arc::clone(&streams)));
        let listener = streams.server.lend_slot().expect("a slot");
        let memory = SocketMemory::open(fd).expect("it is one");
        let ring = streams.server.heap().lend(10).expect("memory");
        let words = memory.slot(listener).expect("it was lent");
        words.rx_ring.store(ring.desc().word(), Ordering::Release);
        words.pollers[0].store(1 << POLLER, Ordering::Release);
        words.state.store(Kind::Listener as u32, Ordering::Release);
        command_queue.command(&Command::Listen(Arc::new(Listening {
            app: Arc::clone(&streams),
            slot: listener,
            address: std::net::SocketAddr::from(([10, 0, 0, 2], port)),
            backlog: Arc::new(Backlog::new(ring, 64)),
            half_open_max: 64,
            options: options(),
        })));
        Self {
            command_queue,
            streams,
            memory,
            listener,
            rung,
            accepted: Vec::new(),
            evicted: Vec::new(),
        }
    }

    pub(super) fn words(&self, slot: SlotId) -> &SlotWords {
        self.memory.slot(slot).expect("it was lent")
    }

    pub(super) fn set_ready(&self, slot: SlotId) {
        let worker = self.words(slot).worker.load(Ordering::Acquire);
        let _ = self.memory.worker(worker).expect("a worker").set(slot);
    }

    pub(super) fn ask(&self, slot: SlotId, ask: u32) {
        self.words(slot).asks.fetch_or(ask, Ordering::AcqRel);
        self.set_ready(slot);
    }

    pub(super) fn accept(&mut self) {
        let words = self.memory.slot(self.listener).expect("it listens");
        while let Some(entry) = Backlog::take(&self.memory, words) {
            assert_eq!(entry.region, RegionId(9));
            self.words(entry.slot).pollers[0].store(1 << POLLER, Ordering::Release);
            self.accepted.push(entry.slot);
        }
    }

    pub(super) fn read(&self, slot: SlotId, most: usize) -> Vec<u8> {
        let words = self.words(slot);
        let tail = words.rx_tail.load(Ordering::Acquire);
        let desc = RingDesc::of_word(words.rx_ring.load(Ordering::Acquire));
        let head = words.rx_head.load(Ordering::Relaxed);
        let bytes = ((tail - head) as usize).min(most);
        // Without a ring the connection is broken, and what had come is gone.
        if bytes == 0 || desc.is_none() {
            return Vec::new();
        }
        let index = head + u64::from(words.rx_base.load(Ordering::Relaxed));
        let pieces = self.memory.pieces(desc, index, bytes).expect("in the heap");
        let mut read = vec![0; bytes];
        let first = pieces[0].copy_out(&mut read);
        pieces[1].copy_out(&mut read[first..]);
        words.rx_head.store(head + bytes as u64, Ordering::Release);
        self.set_ready(slot);
        read
    }

    /// Writes as much as fits; asks for a larger ring when that is not all, and moves to one that
    /// it is offered.
    pub(super) fn write(&self, slot: SlotId, bytes: &[u8]) -> usize {
        let words = self.words(slot);
        let (tail, head) =
            (words.tx_tail.load(Ordering::Relaxed), words.tx_head.load(Ordering::Acquire));
        let base = u64::from(words.tx_base.load(Ordering::Relaxed));
        let mut used = RingDesc::of_word(words.tx_ring_used.load(Ordering::Relaxed));
        let offered = RingDesc::of_word(words.tx_ring.load(Ordering::Acquire));
        if offered != used && bytes.len() as u64 > used.bytes() - (tail - head) {
            let mut kept = vec![0; (tail - head) as usize];
            let from = self.memory.pieces(used, base + head, kept.len()).expect("in the heap");
            let first = from[0].copy_out(&mut kept);
            from[1].copy_out(&mut kept[first..]);
            let to = self.memory.pieces(offered, base + head, kept.len()).expect("in the heap");
            let first = to[0].copy_in(&kept);
            to[1].copy_in(&kept[first..]);
            words.tx_ring_used.store(offered.word(), Ordering::Release);
            used = offered;
        }
        let room = used.bytes() - (tail - head);
        let count = bytes.len().min(room as usize);
        let to = self.memory.pieces(used, base + tail, count).expect("in the heap");
        let first = to[0].copy_in(&bytes[..count]);
        to[1].copy_in(&bytes[first..count]);
        words.tx_tail.store(tail + count as u64, Ordering::Release);
        if count < bytes.len() {
            words.asks.fetch_or(20 << TX_GROW_SHIFT, Ordering::AcqRel);
        }
        self.set_ready(slot);
        count
    }

    /// Writes all of `bytes` or nothing, and then asks for a larger ring.
    pub(super) fn write_whole(&self, slot: SlotId, bytes: &[u8]) -> bool {
        let words = self.words(slot);
        let unsent = words.tx_tail.load(Ordering::Relaxed) - words.tx_head.load(Ordering::Acquire);
        let rings = [&words.tx_ring_used, &words.tx_ring];
        let longest = rings.map(|word| RingDesc::of_word(word.load(Ordering::Acquire)).bytes());
        if longest[0].max(longest[1]) - unsent >= bytes.len() as u64 {
            return self.write(slot, bytes) == bytes.len();
        }
        words.asks.fetch_or(16 << TX_GROW_SHIFT, Ordering::AcqRel);
        self.set_ready(slot);
        false
    }

    /// Opens a connection from port 7 to a port of the client.
    pub(super) fn open(&self, port: u16) -> Option<SlotId> {
        let slot = self.streams.server.lend_slot()?;
        let connecting = Kind::Stream as u32 | SlotState::CONNECTING;
        self.words(slot).state.store(connecting, Ordering::Release);
        let header = [&CLIENT[..], &OURS, &[8, 0]].concat();
        self.command_queue.command(&Command::Connect {
            app: self.streams.app,
            slot,
            local: std::net::SocketAddr::from(([10, 0, 0, 2], 7)),
            remote: std::net::SocketAddr::from(([10, 0, 0, 1], port)),
            options: options(),
            next_hop: NextHop { port: base::PortId(0), vlan_tci: 0, header },
        });
        Some(slot)
    }

    /// Sends back what has come, and closes what the peer has closed.
    pub(super) fn echo(&mut self, unsent: &mut std::collections::BTreeMap<SlotId, Vec<u8>>) {
        self.accept();
        for slot in self.accepted.clone() {
            let waiting = unsent.entry(slot).or_default();
            if waiting.is_empty() {
                *waiting = self.read(slot, 1 << 20);
            }
            if !waiting.is_empty() {
                let sent = self.write(slot, waiting);
                waiting.drain(..sent);
            }
            let words = self.words(slot);
            let at_end = words.state().has(SlotState::PEER_CLOSED)
                && words.rx_head.load(Ordering::Relaxed) == words.rx_tail.load(Ordering::Acquire);
            if at_end && waiting.is_empty() {
                self.ask(slot, Asks::CLOSE);
                self.accepted.retain(|other| *other != slot);
            }
        }
    }

    /// Has workers take rings from connections that were not read from for `idle`.
    pub(super) fn evict(&self, idle: base::Nanos, bytes: u64) {
        let eviction = Arc::new(Eviction::new(AppId(5), idle, bytes));
        self.command_queue.command(&Command::Evict(eviction));
    }

    /// What the slow side does about it: the bytes of pages that it has discarded.
    pub(super) fn settle_evicted(&mut self) -> u64 {
        let new = self.command_queue.take_evicted();
        let heap = self.streams.server.heap();
        let discarded = new.iter().map(|of| heap.discard(&of.ring)).sum();
        self.evicted.extend(new);
        let server = &self.streams.server;
        let is_over = |of: &mut Evicted| {
            !server.is_taken(of.slot) || server.generation(of.slot) != of.generation
        };
        for Evicted { ring, .. } in self.evicted.extract_if(.., is_over) {
            heap.take_back(ring);
        }
        discarded
    }

    pub(super) fn events(&self) -> Vec<SocketEvent> {
        let mut all = Vec::new();
        self.command_queue.hear(|event| all.push(event));
        all
    }
}
