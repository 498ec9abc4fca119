//! UDP: datagrams and their addresses.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use shm::sockets::{Asks, Kind, Piece, RingDesc, SlotState};

use super::receive::ReceiveFlags;
use super::slot::Slot;
use super::socket::Socket;
use super::stretch::{Nonsense, Stretch};
use super::verdict::{DatagramView, Verdict};
use shm::sockets::{HEADER_BYTES, PAYLOAD_MAX, Record};

/// What came with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes that were taken; with [`ReceiveFlags::truncate`], the bytes that the datagram had.
    pub bytes: usize,
    /// Whether it had more bytes than were taken: MSG_TRUNC of recvmsg(2).
    pub is_cut: bool,
    /// The address that sent it.
    pub from: Option<SocketAddr>,
    /// The own address that it came to: IP_PKTINFO of ip(7).
    pub to: Option<IpAddr>,
}

impl Socket {
    /// Takes the oldest datagram: `copy` is given stretches of its payload, in order, and says how
    /// many bytes it took; what it leaves is lost. Once at least, with an empty stretch, for an
    /// empty datagram too.
    ///
    /// # Errors
    /// EAGAIN while there is none; the socket's error, once; and what `copy` returns (the datagram
    /// is lost then, as with Linux).
    pub fn receive_from_with(
        &self,
        flags: ReceiveFlags,
        mut copy: impl FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) -> Result<Received, Errno> {
        let slot = self.slot()?;
        let _lock = slot.hold(&slot.words.rx_lock)?;
        loop {
            match slot.datagram_view().receive() {
                Verdict::Copy => {}
                Verdict::Error => match slot.take_error() {
                    Some(error) => return Err(error),
                    None => continue,
                },
                Verdict::Fail(error) => return Err(error),
                Verdict::End => {
                    return Ok(Received { bytes: 0, is_cut: false, from: None, to: None });
                }
                Verdict::Wait => return Err(Errno::AGAIN),
            }
            match slot.next_datagram() {
                Ok((unread, record)) => {
                    return slot.take_datagram(&unread, &record, flags, &mut copy);
                }
                Err(Nonsense) => slot.break_off(Errno::NETDOWN),
            }
        }
    }

    /// Bytes of the longest datagram that fits into one packet. Longer ones are for the kernel
    /// socket, which has the same port and cuts them: sent here they are lost.
    pub fn payload_max(&self) -> usize {
        let words = self.slot().map(|slot| slot.words.payload_max.load(Ordering::Relaxed));
        words.unwrap_or_default() as usize
    }

    /// Sends a datagram of `bytes` bytes to `to`, or to the peer that the socket is connected to:
    /// `copy` is given stretches of room for it and fills them.
    ///
    /// # Errors
    /// EAGAIN while there is no room; EMSGSIZE: it is too long; EDESTADDRREQ: no address is given,
    /// and the socket is not connected; EHOSTUNREACH: the address is this host's, and the kernel
    /// socket, which has the same port, leads there; EPIPE; the socket's error, once; and what
    /// `copy` returns.
    pub fn send_to_with(
        &self,
        bytes: usize,
        to: Option<SocketAddr>,
        mut copy: impl FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let slot = self.slot()?;
        if bytes > PAYLOAD_MAX {
            return Err(Errno::MSGSIZE);
        }
        if to.is_none() && slot.words.remote.get().is_none() {
            return Err(Errno::DESTADDRREQ);
        }
        if to.is_some_and(|to| slot.region.memory.is_host_address(to.ip())) {
            return Err(Errno::HOSTUNREACH);
        }
        let _lock = slot.hold(&slot.words.tx_lock)?;
        loop {
            match slot.datagram_view().send() {
                Verdict::Copy => {}
                Verdict::Error => match slot.take_error() {
                    Some(error) => return Err(error),
                    None => continue,
                },
                Verdict::Fail(error) => return Err(error),
                Verdict::End | Verdict::Wait => return Err(Errno::AGAIN),
            }
            let record = Record { payload: bytes as u32, remote: to, local: None };
            return slot.put_datagram(&record, &mut copy);
        }
    }

    /// Takes the oldest datagram into a slice.
    ///
    /// # Errors
    /// As for [`Self::receive_from_with`].
    pub fn receive_from(&self, to: &mut [u8]) -> Result<Received, Errno> {
        let mut done = 0;
        self.receive_from_with(ReceiveFlags::default(), |piece| {
            let copied = piece.copy_out(&mut to[done..]);
            done += copied;
            Ok(copied)
        })
    }

    /// Sends a slice as one datagram.
    ///
    /// # Errors
    /// As for [`Self::send_to_with`].
    pub fn send_to(&self, from: &[u8], to: Option<SocketAddr>) -> Result<usize, Errno> {
        let mut done = 0;
        self.send_to_with(from.len(), to, |piece| {
            let copied = piece.copy_in(&from[done..]);
            done += copied;
            Ok(copied)
        })
    }

    /// Bytes of the datagram that is received next, 0 if there is none: FIONREAD of udp(7).
    pub fn next_datagram_bytes(&self) -> u64 {
        let next = self.slot().ok().and_then(|slot| slot.next_datagram().ok());
        next.map_or(0, |(_, record)| u64::from(record.payload))
    }
}

impl<'a> Slot<'a> {
    /// What a UDP socket's state is at this moment.
    pub(crate) fn datagram_view(&self) -> DatagramView {
        self.settle();
        let state = self.words.state();
        let own = self.words.asks();
        let is_over = state.has(SlotState::BROKEN | SlotState::FINISHED)
            || state.kind() != Kind::Datagram
            || own.has(Asks::CLOSE | Asks::ABORT);
        let ring = self.offered();
        // There is room for at least one datagram of the usual size: a longer one may have to wait.
        let room = self.unacknowledged().map_or(0, |written| match written.ring.is_none() {
            true => ring.bytes(),
            false => written.room(),
        });
        DatagramView {
            has_datagram: self.unread().is_ok_and(|unread| unread.bytes() > 0),
            has_room: room >= Record::bytes(USUAL_PAYLOAD) as u64,
            is_read_shut: own.has(Asks::SHUT_READ),
            is_write_shut: own.has(Asks::SHUT_WRITE),
            is_closed: is_over,
            error: self.error(),
        }
    }

    /// The oldest datagram, if its header can be believed.
    fn next_datagram(&self) -> Result<(Stretch, Record), Nonsense> {
        let unread = self.unread()?;
        if unread.bytes() < HEADER_BYTES as u64 {
            return Err(Nonsense);
        }
        let mut header = [0; HEADER_BYTES];
        let mut done = 0;
        for piece in self.unread_pieces(&unread, HEADER_BYTES)? {
            done += piece.copy_out(&mut header[done..]);
        }
        let record = Record::decode(&header).ok_or(Nonsense)?;
        if Record::bytes(record.payload as usize) as u64 > unread.bytes() {
            return Err(Nonsense);
        }
        Ok((unread, record))
    }

    fn take_datagram(
        &self,
        unread: &Stretch,
        record: &Record,
        flags: ReceiveFlags,
        copy: &mut dyn FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) -> Result<Received, Errno> {
        let payload = record.payload as usize;
        let from = Stretch { head: unread.head + HEADER_BYTES as u64, ..*unread };
        let pieces = self.unread_pieces(&from, payload).map_err(|Nonsense| Errno::IO)?;
        let copied = copy_all(pieces, copy);
        if !flags.peek {
            let head = unread.head + Record::bytes(payload) as u64;
            // The daemon looks at this when the next one comes.
            self.words.rx_head.store(head, Ordering::Release);
        }
        let copied = copied?;
        let bytes = if flags.truncate { payload } else { copied };
        Ok(Received { bytes, is_cut: copied < payload, from: record.remote, to: record.local })
    }

    fn put_datagram(
        &self,
        record: &Record,
        copy: &mut dyn FnMut(Piece<'_>) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let mut written = self.unacknowledged().map_err(|Nonsense| Errno::NETDOWN)?;
        let offered = self.offered();
        if written.ring != offered && !offered.is_none() && written.bytes() == 0 {
            // Datagrams are not carried over: the ring changes when it is empty.
            self.words.tx_ring_used.store(offered.word(), Ordering::Release);
            written = Stretch { ring: offered, ..written };
        }
        let payload = record.payload as usize;
        let bytes = Record::bytes(payload);
        if written.ring == RingDesc::NONE || written.room() < bytes as u64 {
            if written.ring == RingDesc::NONE || bytes as u64 <= written.ring.bytes() {
                return Err(Errno::AGAIN);
            }
            // One that no ring will ever have room for would wait for ever.
            return Err(if self.wish_for(bytes) { Errno::AGAIN } else { Errno::MSGSIZE });
        }
        let broken = |Nonsense| Errno::NETDOWN;
        let mut header = &record.encode()[..];
        for piece in self.send_pieces(written.ring, written.tail, HEADER_BYTES).map_err(broken)? {
            header = &header[piece.copy_in(header)..];
        }
        let at = written.tail + HEADER_BYTES as u64;
        let pieces = self.send_pieces(written.ring, at, payload).map_err(broken)?;
        if copy_all(pieces, copy)? < payload {
            return Err(Errno::FAULT);
        }
        // Release: who sees the position sees the whole record.
        self.words.tx_tail.store(written.tail + bytes as u64, Ordering::Release);
        self.tell();
        Ok(payload)
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
