//! Datagrams in the rings of a UDP socket.

use std::sync::atomic::Ordering;

use rustix::io::Errno;
use shm::sockets::{Asks, HEADER_BYTES, Kind, Piece, Record, RingDesc, SlotState};

use super::datagram::{Outgoing, Received};
use super::receive::ReceiveFlags;
use super::slot::Slot;
use super::stretch::{Nonsense, Stretch};
use super::verdict::DatagramView;

/// Datagrams that come as one, at most: UDP_GRO_CNT_MAX of Linux.
const JOINED_MAX: usize = 64;

/// Bytes of what comes as one, at most: an IP packet's.
const JOINED_BYTES_MAX: usize = 65_535;

impl<'a> Slot<'a> {
    /// What a UDP socket's state is at this moment.
    pub(crate) fn datagram_view(&self) -> DatagramView {
        self.settle();
        let state = self.words.state();
        let own = self.words.asks();
        let is_over = state.has(SlotState::BROKEN | SlotState::FINISHED)
            || state.kind() != Kind::Datagram
            || own.has(Asks::CLOSE | Asks::ABORT);
        // There is room for at least one datagram of the usual size, and for several that leave as
        // one: what is still longer may have to wait. An empty ring is left for a longer one.
        let usual = Record::bytes(USUAL_PAYLOAD) as u64;
        let has_room = self.unacknowledged().is_ok_and(|written| {
            let offered = self.offered();
            let is_left = written.ring.is_none() || written.bytes() == 0 && !offered.is_none();
            let ring = if is_left { offered } else { written.ring };
            ring.bytes() - written.bytes() >= (ring.bytes() / 2).max(usual)
        });
        DatagramView {
            has_datagram: self.unread().is_ok_and(|unread| unread.bytes() > 0),
            has_room,
            is_read_shut: own.has(Asks::SHUT_READ),
            is_write_shut: own.has(Asks::SHUT_WRITE),
            is_closed: is_over,
            error: self.error(),
        }
    }

    /// The oldest datagram, if its header can be believed.
    pub(super) fn next_datagram(&self) -> Result<(Stretch, Record), Nonsense> {
        let unread = self.unread()?;
        let record = self.first_of(&unread)?;
        Ok((unread, record))
    }

    /// The first datagram of a stretch, if its header can be believed.
    fn first_of(&self, unread: &Stretch) -> Result<Record, Nonsense> {
        if unread.bytes() < HEADER_BYTES as u64 {
            return Err(Nonsense);
        }
        let mut header = [0; HEADER_BYTES];
        let mut done = 0;
        for piece in self.unread_pieces(unread, HEADER_BYTES)? {
            done += piece.copy_out(&mut header[done..]);
        }
        let record = Record::decode(&header).ok_or(Nonsense)?;
        if Record::bytes(record.payload as usize) as u64 > unread.bytes() {
            return Err(Nonsense);
        }
        Ok(record)
    }

    pub(super) fn take_datagram(
        &self,
        unread: &Stretch,
        record: &Record,
        flags: ReceiveFlags,
        copy: &mut dyn FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) -> Result<Received, Errno> {
        let (copied, mut rest) = self.copy_first(unread, record, copy);
        let payload = record.payload as usize;
        let mut received = Received {
            bytes: payload,
            is_cut: false,
            from: record.remote,
            to: record.local,
            interface: record.interface,
            class: record.class.unwrap_or(0),
            hop_limit: record.hop_limit.unwrap_or(0),
            came_at: record.came_at,
            segment_bytes: None,
        };
        if copied == Ok(payload) {
            self.join(&mut rest, record, flags.join_bytes, &mut received, copy);
        }
        if !flags.peek {
            // The daemon looks at this when the next one comes.
            self.words.rx_head.store(rest.head, Ordering::Release);
        }
        let copied = copied?;
        received.is_cut = copied < payload;
        if received.is_cut && !flags.truncate {
            received.bytes = copied;
        }
        Ok(received)
    }

    /// Gives the payload of the first datagram of a stretch to `copy`; what was copied, and what
    /// comes behind it.
    fn copy_first(
        &self,
        unread: &Stretch,
        record: &Record,
        copy: &mut dyn FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) -> (Result<usize, Errno>, Stretch) {
        let payload = record.payload as usize;
        let from = Stretch { head: unread.head + HEADER_BYTES as u64, ..*unread };
        let pieces = self.unread_pieces(&from, payload).map_err(|Nonsense| Errno::IO);
        let copied = pieces.and_then(|pieces| copy_all(pieces, copy));
        let rest = Stretch { head: unread.head + Record::bytes(payload) as u64, ..*unread };
        (copied, rest)
    }

    /// Takes the datagrams behind `first` that are of its kind with it, as far as `bytes` reach.
    fn join(
        &self,
        rest: &mut Stretch,
        first: &Record,
        bytes: usize,
        received: &mut Received,
        copy: &mut dyn FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) {
        let most = bytes.min(JOINED_BYTES_MAX);
        for _ in 1..JOINED_MAX {
            let Ok(next) = self.first_of(rest) else { return };
            let of_its_kind = Record { payload: first.payload, came_at: first.came_at, ..next };
            let is_next = of_its_kind == *first && (1..=first.payload).contains(&next.payload);
            if !is_next || received.bytes + next.payload as usize > most {
                return;
            }
            let (copied, behind) = self.copy_first(rest, &next, copy);
            if copied != Ok(next.payload as usize) {
                return;
            }
            *rest = behind;
            received.bytes += next.payload as usize;
            received.segment_bytes = u16::try_from(first.payload).ok();
            if next.payload < first.payload {
                return;
            }
        }
    }

    /// Writes what leaves as one datagram, or as several, all of them or none.
    pub(super) fn put_datagrams(
        &self,
        how: &Outgoing,
        bytes: usize,
        copy: &mut dyn FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let mut written = self.unacknowledged().map_err(|Nonsense| Errno::NETDOWN)?;
        let offered = self.offered();
        if written.ring != offered && !offered.is_none() && written.bytes() == 0 {
            // Datagrams are not carried over: the ring changes when it is empty.
            self.words.tx_ring_used.store(offered.word(), Ordering::Release);
            written = Stretch { ring: offered, ..written };
        }
        let segment = how.segment_bytes.map_or(bytes, |each| usize::from(each.get()).min(bytes));
        let whole = bytes.checked_div(segment).unwrap_or(1);
        let last = bytes - whole * segment;
        let needed =
            whole * Record::bytes(segment) + if last > 0 { Record::bytes(last) } else { 0 };
        if written.ring == RingDesc::NONE || written.room() < needed as u64 {
            if written.ring == RingDesc::NONE || needed as u64 <= written.ring.bytes() {
                return Err(Errno::AGAIN);
            }
            // One that no ring will ever have room for would wait for ever.
            let may_fit = self.wish_for(needed);
            return Err(match (may_fit, segment < bytes) {
                (_, true) => Errno::NOBUFS,
                (true, false) => Errno::AGAIN,
                (false, false) => Errno::MSGSIZE,
            });
        }
        let mut left = bytes;
        loop {
            let payload = segment.min(left);
            self.put_datagram(&written, how, payload, copy)?;
            written.tail += Record::bytes(payload) as u64;
            left -= payload;
            if left == 0 {
                break;
            }
        }
        // Release: who sees the position sees whole records.
        self.words.tx_tail.store(written.tail, Ordering::Release);
        self.tell();
        Ok(bytes)
    }

    /// Writes one behind what is written, where there is room for it.
    fn put_datagram(
        &self,
        written: &Stretch,
        how: &Outgoing,
        payload: usize,
        copy: &mut dyn FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) -> Result<(), Errno> {
        let record = Record {
            payload: payload as u32,
            // An address says of which family it is.
            remote: how.to.or_else(|| how.from.and(self.words.remote.get())),
            local: how.from,
            class: how.class,
            hop_limit: how.hop_limit,
            ..Record::default()
        };
        let broken = |Nonsense| Errno::NETDOWN;
        let mut header = &record.encode()[..];
        for piece in self.send_pieces(written.ring, written.tail, HEADER_BYTES).map_err(broken)? {
            header = &header[piece.copy_in(header)..];
        }
        let at = written.tail + HEADER_BYTES as u64;
        let pieces = self.send_pieces(written.ring, at, payload).map_err(broken)?;
        if copy_all(pieces, copy)? < payload { Err(Errno::FAULT) } else { Ok(()) }
    }
}

/// Gives the pieces to `copy` until it takes less than one has; how many bytes it took.
fn copy_all(
    pieces: [Piece<'_>; 2],
    copy: &mut dyn FnMut(Piece<'_>) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let [first, second] = pieces;
    let mut copied = copy(first)?.min(first.len());
    if copied == first.len() && !second.is_empty() {
        copied += copy(second)?.min(second.len());
    }
    Ok(copied)
}

/// The payload of a full Ethernet frame.
const USUAL_PAYLOAD: usize = 1472;
