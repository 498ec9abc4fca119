//! Packets on their way; their memory is used again.

use tcp::Segment;

/// A packet on its way.
#[derive(Debug, Default)]
pub(super) struct Packet {
    /// The segment, header and all.
    pub(super) bytes: Vec<u8>,
    /// Number of its flow.
    pub(super) flow: u32,
    /// Whether it goes to the host that accepted the connection.
    pub(super) is_to_server: bool,
    pub(super) ecn: u8,
    /// Links that it has passed.
    pub(super) hop: u8,
}

/// What a packet takes besides its segment: an IPv4 header, and what a frame takes.
const AROUND_BYTES: u32 = 20 + crate::link::FRAMING_BYTES;

impl Packet {
    /// Bytes on a wire.
    #[inline]
    pub(super) fn wire_bytes(&self) -> u32 {
        self.bytes.len() as u32 + AROUND_BYTES
    }

    /// Writes a segment into it; the checksum is left to the receiver to believe: links here do not
    /// damage bytes.
    #[inline]
    pub(super) fn fill(&mut self, segment: &Segment<'_>) -> bool {
        // Whatever is left of an earlier packet is written over.
        self.bytes.resize(segment.len(), 0);
        self.ecn = segment.ecn;
        self.flow = segment.route;
        self.hop = 0;
        segment.write_partial(&mut self.bytes).is_some()
    }
}

/// All of them, by number.
#[derive(Debug, Default)]
pub(super) struct Packets {
    all: Vec<Packet>,
    free: Vec<u32>,
}

impl Packets {
    /// One that nobody uses.
    #[inline]
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.all.push(Packet::default());
            self.all.len() as u32 - 1
        })
    }

    #[inline]
    pub(super) fn give(&mut self, number: u32) {
        self.free.push(number);
    }

    #[inline]
    pub(super) fn at(&mut self, number: u32) -> &mut Packet {
        &mut self.all[number as usize]
    }

    /// How many are on their way.
    pub(super) fn on_their_way(&self) -> usize {
        self.all.len() - self.free.len()
    }
}
