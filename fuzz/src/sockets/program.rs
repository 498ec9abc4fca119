//! A program that does with its memory what the library does.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base::{AppId, RegionId, SlotId};
use shm::sockets::{
    Asks, Backlog, Kind, Quota, RingDesc, Side, SlotState, SlotWords, SocketMemory, SocketServer,
    SocketSizes, TX_GROW_SHIFT,
};
use stack::{
    AppSockets, Command, CommandQueue, Inherited, LetGoRequest, Listening, Notifier, Parcel,
};
use tcp::{Algorithm, FlowOptions};

use super::peers::content;

pub(super) const SLOTS: u32 = 32;
const POLLER: u32 = 0;
const BACKLOG: u32 = 8;

/// Nobody sleeps here.
struct Awake;

impl Notifier for Awake {
    fn poller(&self, _: Side, _: u32) {}
    fn futex(&self, _: &AtomicU32) {}
}

/// How far a connection's two streams are.
#[derive(Default)]
struct Streams {
    peer: u16,
    read: u64,
    written: u64,
}

/// A program that listens.
pub(super) struct Program {
    pub(super) memory: SocketMemory,
    pub(super) listener: SlotId,
    sockets: Arc<AppSockets>,
    open: Vec<SlotId>,
    streams: BTreeMap<SlotId, Streams>,
    /// Slots of connections that went on elsewhere, which nobody gives back.
    kept: u32,
    is_honest: bool,
}

impl Program {
    pub(super) fn new(commands: &CommandQueue, app: AppId, port: u16, is_honest: bool) -> Self {
        let sizes =
            SocketSizes { slots: SLOTS, pollers: 1, sides: 1, workers: 16, ring_bytes: 1 << 20 };
        let quota = Arc::new(Quota::new(u64::from(SLOTS) as u32, 1 << 19));
        let server = SocketServer::within("fuzz", sizes, quota).expect("addresses are left");
        let fd = server.memory().descriptor().as_fd().try_clone_to_owned().expect("fds are left");
        let sockets = Arc::new(AppSockets {
            app,
            user: app.0.into(),
            region: RegionId(app.0.into()),
            server,
            records: None,
            notifier: Box::new(Awake),
            spins: false,
            rate: None,
            permits: None,
            congestions: vec![Algorithm::NewReno, Algorithm::Cubic],
            trace_one_in: AtomicU32::new(0),
        });
        commands.command(&Command::Add(Arc::clone(&sockets)));
        let listener = sockets.server.lend_slot().expect("a slot");
        let memory = SocketMemory::open(fd).expect("it is one");
        let ring = sockets.server.heap().lend(10).expect("memory");
        let words = memory.slot(listener).expect("it was lent");
        words.rx_ring.store(ring.desc().word(), Ordering::Release);
        words.pollers[0].store(1 << POLLER, Ordering::Release);
        words.state.store(Kind::Listener as u32, Ordering::Release);
        commands.command(&Command::Listen(Arc::new(Listening {
            app: Arc::clone(&sockets),
            slot: listener,
            address: ([10, 0, 0, 2], port).into(),
            backlog: Arc::new(Backlog::new(ring, BACKLOG)),
            half_open_max: 16,
            options: FlowOptions { receive_limit_log2: 16, ..FlowOptions::default() },
        })));
        Self {
            memory,
            listener,
            sockets,
            open: Vec::new(),
            streams: BTreeMap::new(),
            kept: 0,
            is_honest,
        }
    }

    pub(super) fn words(&self, slot: SlotId) -> &SlotWords {
        self.memory.slot(SlotId(slot.0 % SLOTS)).expect("all of them are there")
    }

    /// Slots and bytes of rings that are lent: those of the listener when nothing else is left.
    pub(super) fn lent(&self) -> (u32, u64) {
        (self.sockets.server.slots_taken() - self.kept, self.sockets.server.heap().bytes())
    }

    fn pick(&self, number: usize) -> Option<SlotId> {
        (!self.open.is_empty()).then(|| self.open[number % self.open.len()])
    }

    /// The worker that has the socket is told to look.
    fn tell(&self, slot: SlotId) {
        let worker = self.words(slot).worker.load(Ordering::Acquire);
        if let Some(bits) = self.memory.worker(worker) {
            let _ = bits.set(slot);
        }
    }

    fn ask(&self, slot: SlotId, ask: u32) {
        self.words(slot).asks.fetch_or(ask, Ordering::AcqRel);
        self.tell(slot);
    }

    /// Takes one connection from the backlog, if one waits.
    pub(super) fn accept(&mut self) -> bool {
        let words = self.memory.slot(self.listener).expect("it listens");
        let Some(entry) = Backlog::take(&self.memory, words) else { return false };
        let slot = entry.slot;
        self.words(slot).pollers[0].store(1 << POLLER, Ordering::Release);
        let peer = self.words(slot).remote.get().map_or(0, |remote| remote.port());
        self.streams.insert(slot, Streams { peer, ..Streams::default() });
        self.open.push(slot);
        true
    }

    /// Reads: each byte is the one that the peer wrote.
    pub(super) fn read(&mut self, number: usize, most: usize) {
        let Some(slot) = self.pick(number) else { return };
        let words = self.memory.slot(slot).expect("it was lent");
        let tail = words.rx_tail.load(Ordering::Acquire);
        let desc = RingDesc::of_word(words.rx_ring.load(Ordering::Acquire));
        let head = words.rx_head.load(Ordering::Relaxed);
        let bytes = ((tail - head) as usize).min(most);
        if bytes == 0 {
            return;
        }
        let index = head + u64::from(words.rx_base.load(Ordering::Relaxed));
        let pieces = self.memory.pieces(desc, index, bytes).expect("it lies in the heap");
        let mut read = vec![0; bytes];
        let first = pieces[0].copy_out(&mut read);
        pieces[1].copy_out(&mut read[first..]);
        let streams = self.streams.get_mut(&slot).expect("it was accepted");
        for byte in read {
            assert_eq!(byte, content(streams.peer, true, streams.read), "a byte that nobody sent");
            streams.read += 1;
        }
        words.rx_head.store(head + bytes as u64, Ordering::Release);
        self.tell(slot);
    }

    /// Writes as much as fits, asks for a larger ring when that is not all, and moves to one that
    /// it is offered.
    pub(super) fn write(&mut self, number: usize, bytes: usize) {
        let Some(slot) = self.pick(number) else { return };
        let words = self.memory.slot(slot).expect("it was lent");
        let tail = words.tx_tail.load(Ordering::Relaxed);
        let head = words.tx_head.load(Ordering::Acquire);
        let base = u64::from(words.tx_base.load(Ordering::Relaxed));
        let mut used = RingDesc::of_word(words.tx_ring_used.load(Ordering::Relaxed));
        let offered = RingDesc::of_word(words.tx_ring.load(Ordering::Acquire));
        let unacknowledged = (tail - head) as usize;
        if offered != used && !offered.is_none() && unacknowledged as u64 <= offered.bytes() {
            let mut kept = vec![0; unacknowledged];
            let from = self.memory.pieces(used, base + head, kept.len()).expect("in the heap");
            let first = from[0].copy_out(&mut kept);
            from[1].copy_out(&mut kept[first..]);
            let to = self.memory.pieces(offered, base + head, kept.len()).expect("in the heap");
            let first = to[0].copy_in(&kept);
            to[1].copy_in(&kept[first..]);
            words.tx_ring_used.store(offered.word(), Ordering::Release);
            used = offered;
        }
        let room = used.bytes().saturating_sub(unacknowledged as u64) as usize;
        let count = bytes.min(room);
        let streams = self.streams.get_mut(&slot).expect("it was accepted");
        let text: Vec<u8> = (streams.written..streams.written + count as u64)
            .map(|at| content(streams.peer, false, at))
            .collect();
        streams.written += count as u64;
        let to = self.memory.pieces(used, base + tail, count).expect("it lies in the heap");
        let first = to[0].copy_in(&text);
        to[1].copy_in(&text[first..]);
        words.tx_tail.store(tail + count as u64, Ordering::Release);
        if count < bytes {
            words.asks.fetch_or(16 << TX_GROW_SHIFT, Ordering::AcqRel);
        }
        self.tell(slot);
    }

    /// Asks for a connection to go on elsewhere. Which one; nobody touches it meanwhile.
    pub(super) fn hand_over(&mut self, commands: &CommandQueue, number: usize) -> Option<SlotId> {
        let slot = self.pick(number)?;
        let (app, generation) = (self.sockets.app, self.sockets.server.generation(slot));
        let request = LetGoRequest::default();
        commands.command(&Command::HandOver { app, slot, generation, request });
        Some(slot)
    }

    /// A worker has let a connection go, or says why not.
    pub(super) fn take(&mut self, parcel: Parcel) {
        assert_eq!(parcel.app.app, self.sockets.app);
        let Ok(let_go) = parcel.connection else { return };
        let Inherited { unread, queued, .. } = let_go.inherited();
        // Of a hostile program, what it has written is anything.
        if let Some(streams) = self.streams.remove(&parcel.slot).filter(|_| self.is_honest) {
            let all = |from_peer, from, to| -> Vec<u8> {
                (from..to).map(|at| content(streams.peer, from_peer, at)).collect()
            };
            let come = streams.read + unread.len() as u64;
            assert_eq!(unread, all(true, streams.read, come), "what was not read");
            let from = streams.written - queued.len() as u64;
            assert_eq!(queued, all(false, from, streams.written), "what was not acknowledged");
        }
        self.open.retain(|other| *other != parcel.slot);
        self.kept += 1;
        let_go.give_back();
    }

    /// Closes, with or without a reset; or says first that it writes no more.
    pub(super) fn close(&mut self, number: usize, how: u8) {
        let Some(slot) = self.pick(number) else { return };
        match how % 3 {
            0 => self.ask(slot, Asks::CLOSE),
            1 => self.ask(slot, Asks::CLOSE | Asks::ABORT),
            _ => {
                self.ask(slot, Asks::SHUT_WRITE);
                self.ask(slot, Asks::CLOSE);
            }
        }
        // As the library does: nothing is touched any more after the end.
        self.open.retain(|other| *other != slot);
        self.streams.remove(&slot);
    }

    /// Closes what is at its end, or broken.
    pub(super) fn sweep(&mut self) {
        for number in (0..self.open.len()).rev() {
            let state = self.words(self.open[number]).state();
            if state.has(SlotState::BROKEN) || state.has(SlotState::PEER_CLOSED) {
                self.close(number, 0);
            }
        }
    }

    /// Closes everything.
    pub(super) fn close_all(&mut self) {
        while self.accept() {}
        while !self.open.is_empty() {
            self.close(0, 1);
        }
    }
}
