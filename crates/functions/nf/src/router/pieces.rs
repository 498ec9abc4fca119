//! IPv4 packets that are too long for their next link and may be fragmented (RFC 791 section 3.2,
//! RFC 1812 section 5.2.6): the first piece stays in the packet's frame and goes on at once, the
//! others wait for frames of their own and then go on as if they had just come.

use arrayvec::ArrayVec;
use base::FrameMeta;
use shm::{Batch, Frame};
use wire::checksum;

use super::header::LINK;

/// Pieces that wait at most: a batch of packets that are cut into three each.
const PIECES: usize = 128;
/// Bytes of the longest piece: every fresh frame has room for as many.
const BYTES: usize = 1792;
/// Bytes of the shortest MTU that IPv4 allows (RFC 791 section 3.2).
const MTU_MIN: usize = 68;

const MORE: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// Pieces that wait, in the order in which they are to go.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    waiting: ArrayVec<Piece, PIECES>,
    /// [`BYTES`] for each of them; empty when nothing is to be cut.
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Piece {
    meta: FrameMeta,
    len: u16,
}

/// What has become of a packet that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cutting {
    /// The frame holds its first piece, which fits; the others wait.
    Cut,
    /// The link takes less than IPv4 needs.
    Forbidden,
    /// There is no room for the pieces.
    NoRoom,
}

/// The fields of an IPv4 header that cutting is about.
struct Header {
    bytes: usize,
    total: usize,
    flags: u16,
}

impl Header {
    fn read(packet: &[u8]) -> Option<Self> {
        let &[first, _, t0, t1, _, _, f0, f1, ..] = packet.first_chunk::<20>()?;
        Some(Self {
            bytes: usize::from(first & 0x0f) * 4,
            total: usize::from(u16::from_be_bytes([t0, t1])),
            flags: u16::from_be_bytes([f0, f1]),
        })
    }
}

impl Pieces {
    /// Room for pieces; the default has none.
    pub(super) fn with_room() -> Self {
        Self { bytes: vec![0; PIECES * BYTES], ..Self::default() }
    }

    /// Whether pieces wait.
    #[inline]
    pub(super) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Cuts the IPv4 packet in `frame`, which was found well and may be cut, so that each piece has
    /// at most `mtu` bytes.
    #[cold]
    pub(super) fn cut(&mut self, frame: &mut Frame, mtu: usize) -> Cutting {
        let packet = frame.bytes().get(LINK..).unwrap_or_default();
        let Some(header) = Header::read(packet) else { return Cutting::Forbidden };
        if mtu < MTU_MIN || header.total > packet.len() {
            return Cutting::Forbidden;
        }
        // All pieces but the last carry a multiple of eight bytes.
        let each = (mtu.min(BYTES - LINK) - header.bytes) & !7;
        let payload = header.total - header.bytes;
        let later = payload.div_ceil(each) - 1;
        if self.bytes.is_empty() || later > PIECES - self.waiting.len() {
            return Cutting::NoRoom;
        }
        // Nobody can sum what is in several frames.
        crate::checksum::complete_here(frame);
        let meta = *frame.meta();
        let bytes = frame.bytes_mut();
        for number in 1..=later {
            let from = number * each;
            let len = each.min(payload - from);
            let start = self.waiting.len() * BYTES;
            let Some(room) = self.bytes.get_mut(start..start + BYTES) else { break };
            let head = LINK + header.bytes;
            room[..head].copy_from_slice(&bytes[..head]);
            room[head..head + len].copy_from_slice(&bytes[head + from..][..len]);
            blank_options(&mut room[LINK + 20..head]);
            let more = if number < later { MORE } else { header.flags & MORE };
            let offset = (header.flags & OFFSET) + (from / 8) as u16;
            write(&mut room[LINK..head], header.bytes + len, more | offset);
            self.waiting.push(Piece { meta, len: (head + len) as u16 });
        }
        let head = LINK + header.bytes;
        write(&mut bytes[LINK..head], header.bytes + each, MORE | (header.flags & OFFSET));
        let _ = frame.set_len(head + each);
        Cutting::Cut
    }

    /// Moves pieces to `batch`, as far as there is room and `take` has frames.
    pub(super) fn release(&mut self, batch: &mut Batch, take: &mut dyn FnMut() -> Option<Frame>) {
        let mut gone = 0;
        for (number, piece) in self.waiting.iter().enumerate() {
            let frame = if batch.is_full() { None } else { take() };
            let Some(mut frame) = frame else { break };
            let start = number * BYTES;
            let bytes = self.bytes.get(start..start + usize::from(piece.len));
            // It fits by the choice of BYTES; one that did not would be dropped as malformed.
            let _ = frame.fill(bytes.unwrap_or_default());
            *frame.meta_mut() = piece.meta;
            batch.push(frame);
            gone += 1;
        }
        self.waiting.drain(..gone);
        // Those that stay are as many places further on: there were no frames for them.
        self.bytes.copy_within(gone * BYTES..(gone + self.waiting.len()) * BYTES, 0);
    }
}

/// Later pieces carry only options that are to be copied (RFC 791 section 3.1): the others become
/// no-operations, so that the header stays as long as it is.
fn blank_options(mut options: &mut [u8]) {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const COPIED: u8 = 0x80;
    while let Some(&kind) = options.first() {
        let len = match kind {
            END => return,
            NOTHING => 1,
            _ => options.get(1).map_or(0, |len| usize::from(*len)),
        };
        if len == 0 || len > options.len() {
            return;
        }
        let (option, rest) = options.split_at_mut(len);
        if kind & COPIED == 0 {
            option.fill(NOTHING);
        }
        options = rest;
    }
}

fn write(header: &mut [u8], total: usize, flags: u16) {
    header[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    header[6..8].copy_from_slice(&flags.to_be_bytes());
    header[10..12].fill(0);
    let sum = checksum::of(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}
