//! What can be known of a connection from its segments, and what that allows its next one to be.

use std::net::SocketAddr;
use std::sync::LazyLock;

use tcp::Seq;
use wire::checksum::Sum;
use wire::tcp::{ACK, FIN, Header, RST, SYN, TcpOption};
use wire::{FlowKey, Protocol};

/// Connections of hostile peers, then both sides of an honest one.
pub(super) const HOSTILE: usize = 4;
pub(super) const HONEST: usize = HOSTILE;
pub(super) const HONEST_PEER: usize = HOSTILE + 1;
pub(super) const SIDES: usize = HOSTILE + 2;

/// Where the engine listens.
pub(super) const PORT: u16 = 80;
/// The first numbers of hostile peers: this, or a multiple of 2^16 more. They soon wrap.
pub(super) const ORIGIN: Seq = Seq(0xffff_ff00);
/// Peers' ports begin here; the number of the side is added.
const PEER_PORT: u16 = 1000;

/// A connection's name as its own side sees it: the peer is the source.
#[derive(Clone, Copy)]
pub(super) struct Name {
    pub(super) key: FlowKey,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
}

pub(super) static NAMES: LazyLock<[Name; SIDES]> = LazyLock::new(|| {
    std::array::from_fn(|side| {
        let number = side.min(HONEST) as u16;
        let (ours, theirs): (SocketAddr, SocketAddr) = if side == 2 {
            let [ours, theirs] = [1, 2].map(|last| [0xfd00, 0, 0, 0, 0, 0, 0, last]);
            ((ours, PORT).into(), (theirs, PEER_PORT + number).into())
        } else {
            (([10, 0, 0, 1], PORT).into(), ([10, 0, 0, 2], PEER_PORT + number).into())
        };
        let (local, remote) = if side == HONEST_PEER { (theirs, ours) } else { (ours, theirs) };
        let key = FlowKey::new(Protocol::Tcp, remote, local).expect("both are of one version");
        Name { key, local, remote }
    })
});

/// The side that a segment which leaves belongs to.
pub(super) fn side_of(leaving: &FlowKey) -> Option<usize> {
    let key = leaving.reversed();
    NAMES.iter().position(|name| name.key == key)
}

/// Byte `place` of what goes one way over a connection: never zero, as a ring's fresh bytes are.
/// It repeats after 2^16, as a hostile peer's first numbers do.
pub(super) fn content(stream: usize, place: u32) -> u8 {
    let mixed = (place as u16).wrapping_mul(0x6a5d).rotate_left(5) ^ (stream as u16 * 0x3b);
    (mixed ^ (mixed >> 8)) as u8 | 1
}

/// The stream that comes in at a side, and the one that leaves there.
pub(super) const fn streams(side: usize) -> (usize, usize) {
    match side {
        HONEST_PEER => (2 * HONEST + 1, 2 * HONEST),
        _ => (2 * side, 2 * side + 1),
    }
}

/// One side of a connection, as seen from outside.
#[derive(Clone, Copy, Default)]
pub(super) struct Side {
    /// The first number that left from here.
    pub(super) iss: Option<Seq>,
    /// Behind the last number that left, FIN included.
    pub(super) nxt: Seq,
    /// Behind the last byte or FIN that the peer's windows have ever allowed, from `iss` on.
    edge: i64,
    /// The largest window of a SYN that came in: it is never scaled.
    syn_window: u32,
    /// The largest shift that a SYN has named.
    shift: u8,
    /// Bytes that the application has written, and whether its FIN may follow them.
    pub(super) written: u32,
    pub(super) has_shut: bool,
    /// The next number expected from the peer, as last acknowledged.
    pub(super) acked: Option<Seq>,
    /// The window beside it.
    pub(super) window: u16,
    /// Behind the last number that came in.
    pub(super) heard_to: Option<Seq>,
    /// The timestamp that left last.
    pub(super) stamp: Option<u32>,
    /// Something came in that may hold other bytes than it should.
    pub(super) is_misled: bool,
    /// A cookie has left.
    pub(super) has_cookie: bool,
    /// Its SYN has still to leave.
    is_opening: bool,
    /// Counts connections of this name.
    pub(super) number: u32,
    /// Bytes that the application has read, and that the receive ring takes.
    pub(super) read: u32,
    pub(super) ring: u32,
}

impl Side {
    /// The application opens a connection; what it writes waits for the SYN.
    pub(super) fn open(&mut self, ring: u32) {
        self.is_opening = true;
        (self.iss, self.heard_to) = (None, None);
        self.start(ring);
    }

    /// A connection begins with the number `iss`.
    pub(super) fn begin(&mut self, iss: Seq, ring: u32) {
        if !std::mem::take(&mut self.is_opening) {
            self.start(ring);
        }
        (self.iss, self.nxt) = (Some(iss), iss + 1);
        // What was said to it before counts: it may have come late.
        self.edge = 1 + i64::from(self.syn_window);
    }

    fn start(&mut self, ring: u32) {
        (self.written, self.has_shut, self.read, self.ring) = (0, false, 0, ring);
        (self.acked, self.stamp) = (None, None);
        self.number += 1;
    }

    /// A segment goes to this side, which will believe its checksum.
    pub(super) fn deliver(&mut self, segment: &[u8]) {
        let Ok(header) = Header::parse(segment) else { return };
        let has = |flag| header.flags & flag != 0;
        let bytes = (segment.len() - usize::from(header.header_bytes)) as u32;
        let end = Seq(header.sequence) + bytes + u32::from(has(SYN)) + u32::from(has(FIN));
        match self.heard_to {
            // Which of several SYNs is taken shows in the first acknowledgement.
            Some(to) if is_near(end, to) || (has(SYN) && self.acked.is_none()) => {
                self.heard_to = Some(to.later(end))
            }
            None if has(SYN) => self.heard_to = Some(end),
            _ => {}
        }
        let window = u32::from(header.window);
        if has(SYN) {
            self.syn_window = self.syn_window.max(window);
            self.edge = self.edge.max(1 + i64::from(window));
            for option in header.options(segment) {
                if let TcpOption::WindowScale(shift) = option {
                    self.shift = self.shift.max(shift.min(14));
                }
            }
        }
        let (Some(iss), true) = (self.iss, has(ACK)) else { return };
        let ack = Seq(header.acknowledgement);
        // Of what was never sent: no window comes with that.
        if !ack.is_after(self.nxt) {
            let ack = i64::from(ack.since(iss).cast_signed());
            self.edge = self.edge.max(ack + (i64::from(window) << self.shift));
        }
    }

    /// A segment leaves from this side: what must be true of it. `is_answer`: it leaves before the
    /// engine was asked to transmit, so it belongs to no flow.
    pub(super) fn check(&mut self, side: usize, segment: &[u8], is_answer: bool, ring: u32) {
        let header = Header::parse(segment).expect("what leaves has a header");
        assert_eq!(checksum(side, segment).fold(), 0xffff, "what leaves has its checksum");
        let name = &NAMES[side];
        assert_eq!(header.source_port, name.local.port());
        assert_eq!(header.destination_port, name.remote.port());
        let has = |flag| header.flags & flag != 0;
        let payload = &segment[usize::from(header.header_bytes)..];
        let sequence = Seq(header.sequence);
        for option in header.options(segment) {
            match option {
                TcpOption::Timestamps { value, .. } => self.stamp = Some(value),
                TcpOption::Broken | TcpOption::Other { .. } => panic!("an option of no kind"),
                _ => {}
            }
        }
        if has(RST) {
            assert!(payload.is_empty() && !has(SYN) && !has(FIN), "a reset is nothing else");
            return;
        }
        if has(SYN) {
            assert!(payload.is_empty() && !has(FIN), "a SYN is nothing else");
            if is_answer {
                self.has_cookie = true;
            } else if self.iss != Some(sequence) {
                self.begin(sequence, ring);
            }
        }
        if has(SYN) && has(ACK) {
            // The SYN that counts is the one that is answered.
            let ack = Seq(header.acknowledgement);
            let to = self.heard_to.filter(|to| is_near(ack, *to));
            self.heard_to = Some(to.map_or(ack, |to| to.later(ack)));
        }
        if has(ACK) {
            self.check_ack(side, &header, is_answer);
        } else {
            assert!(has(SYN), "only a first SYN acknowledges nothing");
        }
        if has(SYN) {
            return;
        }
        let iss = self.iss.expect("a SYN comes first");
        let place = i64::from(sequence.since(iss).cast_signed()) - 1;
        if payload.is_empty() && !has(FIN) {
            // One before the first byte: a question that has to be answered.
            assert!(place >= -1, "no number lies before the first");
            return;
        }
        let end = place + payload.len() as i64;
        assert!(place >= 0 && end <= i64::from(self.written), "only what was written leaves");
        let (_, stream) = streams(side);
        let expected = |at: usize| content(stream, place as u32 + at as u32);
        let is_right = payload.iter().enumerate().all(|(at, byte)| *byte == expected(at));
        assert!(is_right, "what was written is what leaves");
        if has(FIN) {
            assert!(self.has_shut && end == i64::from(self.written), "a FIN follows the last byte");
        }
        let behind = 1 + end + i64::from(has(FIN));
        assert!(behind <= self.edge, "{behind} is beyond the window, which ends at {}", self.edge);
        self.nxt = self.nxt.later(iss + behind as u32);
    }

    fn check_ack(&mut self, side: usize, header: &Header, is_answer: bool) {
        let ack = Seq(header.acknowledgement);
        if !self.is_misled {
            let to = self.heard_to.expect("only what came is acknowledged");
            assert!(!ack.is_after(to), "{ack:?} acknowledges more than came: {to:?}");
        }
        if let Some(acked) = self.acked
            && header.flags & SYN == 0
        {
            assert!(!ack.is_before(acked), "nothing is taken back");
        }
        self.acked = Some(ack);
        self.window = header.window;
        if side < HOSTILE && !self.is_misled && !is_answer {
            // One more for the number of a FIN.
            let place = u32::from(ack.since(ORIGIN + 1) as u16);
            let promised = (place + u32::from(header.window)) as u16;
            let room = (self.read + self.ring + 1) as u16;
            assert!(room.wrapping_sub(promised) < 1 << 15, "a window promises what the ring takes");
        }
    }
}

/// Whether two numbers may belong to the same connection.
fn is_near(one: Seq, other: Seq) -> bool {
    one.since(other).cast_signed().unsigned_abs() < 1 << 15
}

/// The sum of a segment that leaves from `side` and of what stands before it.
pub(super) fn checksum(side: usize, segment: &[u8]) -> Sum {
    use std::net::IpAddr::{V4, V6};
    let Name { local, remote, .. } = &NAMES[side];
    let sum = match (local.ip(), remote.ip()) {
        (V4(from), V4(to)) => {
            Sum::ZERO.pseudo_ipv4(from.octets(), to.octets(), 6, segment.len() as u16)
        }
        (V6(from), V6(to)) => {
            Sum::ZERO.pseudo_ipv6(from.octets(), to.octets(), 6, segment.len() as u16)
        }
        _ => unreachable!("a connection has one version"),
    };
    sum.bytes(segment)
}
