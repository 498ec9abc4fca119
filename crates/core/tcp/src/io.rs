//! What goes in and out of the engine: segments, rings, events. All memory is the caller's.

use std::num::NonZeroU32;

use base::FlowHash;
use piece::{Piece, ReadPiece};
use wire::checksum::Sum;
use wire::{FlowKey, tcp};

use crate::{IpFields, OptionBytes, Seq};

/// A flow, as long as it lives; the same place used again has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl FlowId {
    /// A small number that is no other living flow's: an index for what the caller keeps.
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// A listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(NonZeroU32);

impl ListenerId {
    /// The listener of that number; nothing when there cannot be that many.
    pub(crate) fn new(number: u32) -> Option<Self> {
        number.checked_add(1).and_then(NonZeroU32::new).map(Self)
    }

    pub(crate) const fn number(self) -> u32 {
        self.0.get() - 1
    }
}

/// A segment that came in.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// Whose it is: the peer is the source.
    pub key: FlowKey,
    /// The hash of `key` under [`crate::Config::hash_key`]: whoever spreads packets over workers
    /// has it. With any other the flow is not found.
    pub hash: FlowHash,
    /// Header, options and payload, without what a link has padded.
    pub segment: &'a [u8],
    /// Both ECN bits of the IP header (RFC 3168 section 5).
    pub ecn: u8,
    /// Whether somebody has found the checksum right; otherwise the engine looks.
    pub is_verified: bool,
    /// Whatever the caller wants back with every segment of this flow: how this one came, and so
    /// how answers leave.
    pub route: u32,
}

/// ECN bits: the segment may be marked instead of dropped.
pub const ECT: u8 = 0b10;
/// ECN bits: a router has marked it.
pub const CE: u8 = 0b11;

/// A segment to be sent. Its payload still lies in the send ring.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Whose it is: the peer is the destination.
    pub key: FlowKey,
    /// Number of the first byte of payload, or of the SYN.
    pub sequence: Seq,
    /// The next number expected, if [`tcp::ACK`] is set.
    pub acknowledgement: Seq,
    /// [`tcp::FIN`] to [`tcp::CWR`].
    pub flags: u8,
    /// Receive window as it stands in the header.
    pub window: u16,
    /// The urgent pointer, if [`tcp::URG`] is set: behind the last urgent byte.
    pub urgent: u16,
    /// Options, padded.
    pub options: OptionBytes,
    /// Payload: two pieces when it wraps around the end of the ring.
    pub payload: [ReadPiece<'a>; 2],
    /// ECN bits for the IP header: zero or [`ECT`].
    pub ecn: u8,
    /// The other fields of the IP header that are not always the same.
    pub ip: IpFields,
    /// [`Incoming::route`] of the last segment that was accepted for the flow; of what belongs to
    /// no flow, that of the segment it answers.
    pub route: u32,
}

impl Segment<'_> {
    /// Bytes of payload.
    #[inline]
    pub fn payload_bytes(&self) -> usize {
        self.payload[0].len() + self.payload[1].len()
    }

    /// Bytes that [`Self::write`] needs.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a segment has a header and is never empty")]
    pub fn len(&self) -> usize {
        usize::from(tcp::MIN_HEADER_BYTES) + self.options.as_slice().len() + self.payload_bytes()
    }

    /// Writes header, options and payload, with the checksum that IP's addresses belong to, to the
    /// start of `out`, and returns the length; nothing when it does not fit.
    #[inline]
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        let bytes = self.len();
        let (out, sum) = self.lay_out(out.get_mut(..bytes)?)?;
        let payload = out.get(bytes - self.payload_bytes()..).unwrap_or_default();
        let checksum = sum.bytes(payload).checksum();
        out.get_mut(16..18)?.copy_from_slice(&checksum.to_be_bytes());
        Some(bytes)
    }

    /// [`Self::write`] for whoever has the checksum finished by others: in its place stands the sum
    /// of the pseudo header alone, folded and not complemented (what Linux calls CHECKSUM_PARTIAL).
    #[inline]
    pub fn write_partial(&self, out: &mut [u8]) -> Option<usize> {
        let bytes = self.len();
        let (out, _) = self.lay_out(out.get_mut(..bytes)?)?;
        let sum = Sum::ZERO.pseudo_of(&self.key, u16::try_from(bytes).ok()?);
        out.get_mut(16..18)?.copy_from_slice(&sum.fold().to_be_bytes());
        Some(bytes)
    }

    /// Writes everything but the checksum, whose place is zero, to `out`, which is as long as the
    /// segment. Returns it and the sum of pseudo header, header and options.
    #[inline]
    fn lay_out<'out>(&self, out: &'out mut [u8]) -> Option<(&'out mut [u8], Sum)> {
        let options = self.options.as_slice();
        let segment_bytes = u16::try_from(self.len()).ok()?;
        let sum = Sum::ZERO.pseudo_of(&self.key, segment_bytes);
        let (sum, rest) = match (options.first_chunk::<12>(), out.split_first_chunk_mut::<32>()) {
            // Timestamps alone, as nearly always: of a length that is known here.
            (Some(stamps), Some((head, rest))) if options.len() == 12 => {
                let (header, place) = head.split_first_chunk_mut::<20>()?;
                place.copy_from_slice(stamps);
                (self.lay_out_header(header, sum).bytes(stamps), rest)
            }
            _ => {
                let (header, rest) = out.split_first_chunk_mut::<20>()?;
                let (place, rest) = rest.split_at_mut_checked(options.len())?;
                place.copy_from_slice(options);
                (self.lay_out_header(header, sum).bytes(options), rest)
            }
        };
        let [first, second] = self.payload;
        let (place, rest) = rest.split_at_mut_checked(first.len())?;
        first.copy_out(place);
        if !second.is_empty() {
            second.copy_out(rest.get_mut(..second.len())?);
        }
        Some((out, sum))
    }

    /// Writes the header without options and checksum, and adds it to `sum`: by words that are
    /// summed as they are, since read back from memory they would have to wait for their shorter
    /// pieces.
    #[inline]
    fn lay_out_header(&self, header: &mut [u8; 20], sum: Sum) -> Sum {
        let (source, destination) = self.key.ports();
        let ports = (u32::from(source) << 16) | u32::from(destination);
        let words = (usize::from(tcp::MIN_HEADER_BYTES) + self.options.as_slice().len()) as u32 / 4;
        let middle = (words << 28) | (u32::from(self.flags) << 16) | u32::from(self.window);
        let numbers = pair(ports, self.sequence.0);
        let answer = pair(self.acknowledgement.0, middle);
        let urgent = u32::from(self.urgent).to_be_bytes();
        header[0..8].copy_from_slice(&numbers);
        header[8..16].copy_from_slice(&answer);
        header[16..20].copy_from_slice(&urgent);
        sum.bytes(&numbers).bytes(&answer).bytes(&urgent)
    }
}

/// Two words as they stand in a header.
#[inline]
const fn pair(first: u32, second: u32) -> [u8; 8] {
    (((first as u64) << 32) | second as u64).to_be_bytes()
}

/// Rings of bytes, the caller's own, two for each flow. A hostile program may write there as well,
/// so they are pieces: what the engine copies out it does not look at.
///
/// A byte's place is its sequence number modulo the length, a power of two that
/// [`crate::FlowOptions`] names; [`crate::Engine::readable`] and [`crate::Engine::room`] say where
/// to read and write. The first call for a flow may allocate, and after [`Event::Closed`] none
/// comes. An empty receive ring says that there is no memory now: what it should hold counts as
/// lost, and comes again. A ring of another length than was named is an error that ends the flow.
pub trait Buffers {
    /// Where bytes that came in go.
    fn receive_ring(&mut self, flow: FlowId) -> Piece<'_>;

    /// Where bytes to be sent lie.
    fn send_ring(&self, flow: FlowId) -> ReadPiece<'_>;
}

/// Takes what the engine has to say.
pub trait Output {
    /// Takes a segment. False: there is no room; nothing has happened, and the engine offers it
    /// again at the next [`crate::Engine::transmit`], if it still has to.
    ///
    /// The common cases call it from places of their own: inlined there, the segment is never put
    /// together in memory.
    fn segment(&mut self, segment: &Segment<'_>) -> bool;

    /// Takes an event.
    fn event(&mut self, event: Event);

    /// Whether a packet may come from there by that route; if not, it is dropped without an answer.
    /// It is asked about packets that are of no flow, or came by another route than those of their
    /// flow before.
    fn may_come(&self, _key: &FlowKey, _route: u32) -> bool {
        true
    }

    /// Whether somebody takes another connection that comes to `listener`, under the hash of its
    /// name. If not, SYNs and last acknowledgements of handshakes are dropped: the peer tries
    /// again, and so do we (as Linux does when a backlog is full).
    fn may_accept(&self, _listener: ListenerId, _hash: FlowHash) -> bool {
        true
    }
}

/// What an application has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection stands.
    Connected {
        /// Which.
        flow: FlowId,
        /// Who accepted it; none: we have opened it.
        listener: Option<ListenerId>,
    },
    /// There is more to read; at most once between two calls of [`crate::Engine::transmit`].
    Readable {
        /// Where.
        flow: FlowId,
    },
    /// There is room again after [`crate::Engine::room`] has found none.
    Writable {
        /// Where.
        flow: FlowId,
    },
    /// The peer has announced urgent data: see [`crate::Engine::urgent`].
    Urgent {
        /// Where.
        flow: FlowId,
    },
    /// The peer has closed its side: nothing comes after what can be read now.
    PeerClosed {
        /// Whose.
        flow: FlowId,
    },
    /// The flow is over and its number void. The last event of every flow that was announced by
    /// [`Self::Connected`] or made by [`crate::Engine::connect`].
    Closed {
        /// Which.
        flow: FlowId,
        /// Why.
        reason: CloseReason,
    },
}

/// Why a flow is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Both sides have closed, and all was acknowledged.
    Finished,
    /// The peer has reset it.
    Reset,
    /// The peer has refused it.
    Refused,
    /// The peer has not answered for too long.
    TimedOut,
    /// A router has said that the peer cannot be reached, with the errno (Linux's numbers) that
    /// this means: while the connection was opened, or before the peer did not answer for too long.
    Unreachable(u16),
    /// The application has aborted it, or closed it with bytes unread (RFC 9293 section 3.10.4).
    Aborted,
    /// The application had closed it, and the peer went on sending.
    DataAfterClose,
}
