//! What a dead worker leaves of a connection: its record, read by a process that has nothing else
//! but the application's memory.

use std::sync::atomic::Ordering;

use base::{Generation, Nanos};
use piece::ReadPiece;
use shm::sockets::{
    CHANGING_WORDS, LASTING_WORDS, RepairRecord, RingDesc, SlotWords, SocketMemory,
};
use tcp::{FlowRecord, NoRepair, Repair, Span};
use wire::{FlowKey, Protocol};

/// What is the same for as long as a connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lasting {
    pub(crate) key: FlowKey,
    pub(crate) generation: Generation,
    pub(crate) was_opened: bool,
    /// Its program has closed it.
    pub(crate) is_orphan: bool,
}

impl Lasting {
    pub(crate) fn words(&self) -> [u64; LASTING_WORDS] {
        let (source, destination) = (self.key.source(), self.key.destination());
        let halves = |ip: std::net::IpAddr| {
            let bits = match ip {
                std::net::IpAddr::V4(v4) => u128::from(u32::from(v4)),
                std::net::IpAddr::V6(v6) => u128::from(v6),
            };
            [(bits >> 64) as u64, bits as u64]
        };
        let [a, b] = halves(source.ip());
        let [c, d] = halves(destination.ip());
        let ports = u64::from(source.port()) << 16 | u64::from(destination.port());
        let facts = u64::from(self.key.is_ipv6())
            | u64::from(self.was_opened) << 1
            | u64::from(self.is_orphan) << 2;
        [a, b, c, d, ports, facts, self.generation.0.into(), 0]
    }

    fn of_words(words: &[u64; LASTING_WORDS]) -> Option<Self> {
        let [a, b, c, d, ports, facts, generation, _] = *words;
        let address = |high: u64, low: u64, port: u64| {
            let ip = match facts & 1 {
                0 => std::net::Ipv4Addr::from(low as u32).into(),
                _ => std::net::Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)).into(),
            };
            std::net::SocketAddr::new(ip, port as u16)
        };
        let (source, destination) = (address(a, b, ports >> 16), address(c, d, ports));
        let key = FlowKey::new(Protocol::Tcp, source, destination)?;
        let (was_opened, is_orphan) = (facts & 2 != 0, facts & 4 != 0);
        Some(Self { key, generation: Generation(generation as u32), was_opened, is_orphan })
    }
}

/// What may change with each turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changing {
    pub(crate) flow: FlowRecord,
    /// Bytes that the application has read, and that were taken from it, ever.
    pub(crate) rx_head: u64,
    pub(crate) tx_tail: u64,
    /// [`RingDesc`]s: of both rings, and of a larger send ring that was offered.
    pub(crate) receive: u64,
    pub(crate) send: u64,
    pub(crate) offered: u64,
    pub(crate) at: Nanos,
}

impl Changing {
    #[inline]
    pub(crate) fn words(&self) -> [u64; CHANGING_WORDS] {
        let [a, b, c, d, e, f, g] = *self.flow.words();
        let Self { rx_head, tx_tail, receive, send, offered, at, .. } = *self;
        [a, b, c, d, e, f, g, rx_head, tx_tail, receive, send, offered, at.0]
    }

    fn of_words(words: &[u64; CHANGING_WORDS]) -> Self {
        let [a, b, c, d, e, f, g, rx_head, tx_tail, receive, send, offered, at] = *words;
        let flow = FlowRecord::of_words([a, b, c, d, e, f, g]);
        Self { flow, rx_head, tx_tail, receive, send, offered, at: Nanos(at) }
    }
}

/// A connection without a worker, as its record has it.
#[derive(Clone, Copy, Debug)]
pub struct Heritage {
    lasting: Lasting,
    changing: Changing,
}

/// Why nobody can go on with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHeritage {
    /// As of a living one.
    NoRepair(NoRepair),
    /// Its program has written what cannot be.
    Violation,
}

/// A connection whose worker is dead, with all that is needed to go on with it.
#[derive(Debug)]
pub struct Inherited {
    /// What it was.
    pub repair: Repair,
    /// It was opened here.
    pub was_opened: bool,
    /// The bytes that were received and not read.
    pub unread: Vec<u8>,
    /// The bytes that the peer has not acknowledged, as far as is known, those that were never sent
    /// included.
    pub queued: Vec<u8>,
}

impl Heritage {
    /// What a record says; nothing: there is no connection.
    pub fn read(record: &RepairRecord) -> Option<Self> {
        let (lasting, changing) = record.read()?;
        Some(Self {
            lasting: Lasting::of_words(&lasting)?,
            changing: Changing::of_words(&changing),
        })
    }

    /// Its name, as segments that come in have it: the peer is the source.
    pub fn key(&self) -> FlowKey {
        self.lasting.key
    }

    /// The slot's, since this socket has it.
    pub fn generation(&self) -> Generation {
        self.lasting.generation
    }

    /// Whether it was opened here.
    pub fn was_opened(&self) -> bool {
        self.lasting.was_opened
    }

    /// Whether its program has closed it: then it has no slot.
    pub fn is_orphan(&self) -> bool {
        self.lasting.is_orphan
    }

    /// When something was written down last.
    pub fn at(&self) -> Nanos {
        self.changing.at
    }

    /// Goes on with one that its program has closed: nobody reads or writes there any more.
    ///
    /// # Errors
    /// It cannot, for the reason given.
    pub fn inherit_orphan(
        &self,
        memory: &SocketMemory,
        now: Nanos,
    ) -> Result<Inherited, NoHeritage> {
        let Changing { flow, send, .. } = self.changing;
        let send = RingDesc::of_word(send);
        let repair = flow.repair(self.lasting.key, [0, send.bytes() as u32], now);
        let mut repair = repair.map_err(NoHeritage::NoRepair)?;
        repair.sent_bytes = repair.queued.bytes;
        repair.receive_first += repair.unread.bytes;
        repair.unread.bytes = 0;
        let queued = copy(memory, send, repair.queued).ok_or(NoHeritage::Violation)?;
        let was_opened = self.lasting.was_opened;
        Ok(Inherited { repair, was_opened, unread: Vec::new(), queued })
    }

    /// Goes on where its worker has stopped: looks a last time at what the application has read,
    /// written and asked for, as a worker does at the end. Nobody of it may copy meanwhile.
    ///
    /// What the worker may have done after it had written the record nobody has seen. What it has
    /// taken from the program may be on its way, so all of that counts as sent.
    ///
    /// # Errors
    /// It cannot, for the reason given. Nothing that the application wrote is believed: a position
    /// that cannot be is [`NoHeritage::Violation`].
    pub fn inherit(
        &self,
        memory: &SocketMemory,
        words: &SlotWords,
        now: Nanos,
    ) -> Result<Inherited, NoHeritage> {
        let Changing { flow, rx_head, tx_tail, receive, send, offered, .. } = self.changing;
        let read = words.rx_head.load(Ordering::Acquire).wrapping_sub(rx_head);
        let read = u32::try_from(read).map_err(|_| NoHeritage::Violation)?;
        // Before the reading is believed: without a connection there is nothing to be read.
        flow.repair(self.lasting.key, [0, 0], now).map_err(NoHeritage::NoRepair)?;
        let flow = flow.after_reading(read).ok_or(NoHeritage::Violation)?;
        let tail = words.tx_tail.load(Ordering::Acquire);
        let used = words.tx_ring_used.load(Ordering::Acquire);
        let is_switched = used == offered && offered != 0;
        let send = RingDesc::of_word(if is_switched { offered } else { send });
        if used != send.word() {
            return Err(NoHeritage::Violation);
        }
        let receive = RingDesc::of_word(receive);
        let rings = [receive, send].map(|ring| ring.bytes() as u32);
        let mut repair = flow.repair(self.lasting.key, rings, now).map_err(NoHeritage::NoRepair)?;
        let more = if repair.is_shut { 0 } else { tail.wrapping_sub(tx_tail) };
        let room = send.bytes().checked_sub(repair.queued.bytes.into());
        let more = u32::try_from(more).ok().filter(|more| room >= Some(u64::from(*more)));
        let more = more.ok_or(NoHeritage::Violation)?;
        repair.sent_bytes = repair.queued.bytes;
        let queued = Span { bytes: repair.queued.bytes + more, ..repair.queued };
        let unread = copy(memory, receive, repair.unread).ok_or(NoHeritage::Violation)?;
        let queued = copy(memory, send, queued).ok_or(NoHeritage::Violation)?;
        Ok(Inherited { repair, was_opened: self.lasting.was_opened, unread, queued })
    }
}

/// The bytes of a stretch of a ring.
fn copy(memory: &SocketMemory, ring: RingDesc, span: Span) -> Option<Vec<u8>> {
    if span.bytes == 0 {
        return Some(Vec::new());
    }
    let pieces = memory.pieces(ring, span.at as u64, span.bytes as usize)?;
    Some(pieces.iter().flat_map(|piece| ReadPiece::from(*piece).to_vec()).collect())
}
