//! What travels with a packet: where its bytes are and what is known of them.

use crate::{FlowGroup, FlowHash, Nanos, PortId, QueueId};

/// [`FrameMeta::next_fragment`] of a packet that fits in one frame.
pub const NO_FRAGMENT: u32 = u32::MAX;

/// A frame as a position in its region: the form that may cross a process boundary.
///
/// 48 bytes, plain data, no pointer: a reader in another process checks `offset` and `len`
/// against the region and can then do no harm with the rest.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FrameDesc {
    /// Bytes from the start of the region to the packet's first byte.
    pub offset: u32,
    /// Bytes of packet in this frame.
    pub len: u32,
    /// The rest.
    pub meta: FrameMeta,
}

const _: () = assert!(size_of::<FrameDesc>() == 48, "the descriptor is part of the ABI");

/// What is known of a packet besides its bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FrameMeta {
    /// When the port handed it to us.
    pub received_at: Nanos,
    /// Our own hash of its 5-tuple; zero until classified.
    pub flow_hash: FlowHash,
    /// The group that decided its worker; zero until dispatched.
    pub group: FlowGroup,
    /// Region offset of the frame that continues it, or [`NO_FRAGMENT`].
    pub next_fragment: u32,
    /// Where it came from, or where it is to leave.
    pub port: PortId,
    /// The queue of that port.
    pub queue: QueueId,
    /// 802.1Q tag control information that the port stripped; zero: none.
    pub vlan_tci: u16,
    /// What is known of its checksums.
    pub checksum: ChecksumState,
    /// Whether the port must complete a checksum when it transmits.
    pub tx_checksum: TxChecksum,
    /// Where the sum of [`TxChecksum::Partial`] starts: bytes from the packet's start.
    pub tx_checksum_start: u16,
    /// Where it is written: bytes from `tx_checksum_start`.
    pub tx_checksum_offset: u16,
    /// Payload bytes of each segment to cut this packet into; zero: send whole.
    pub tx_segment_bytes: u16,
    /// Bytes from the packet's start to its IP header; valid once classified.
    pub l3_offset: u16,
    /// Bytes from the packet's start to its transport header; valid once classified.
    pub l4_offset: u16,
    /// Set by whoever processed the packet: send it by `port`. Else the frame just goes home.
    pub transmit: bool,
}

impl FrameMeta {
    /// Nothing known yet.
    pub const UNKNOWN: Self = Self {
        received_at: Nanos::ZERO,
        flow_hash: FlowHash(0),
        group: FlowGroup(0),
        next_fragment: NO_FRAGMENT,
        port: PortId(0),
        queue: QueueId(0),
        vlan_tci: 0,
        checksum: ChecksumState::Unknown,
        tx_checksum: TxChecksum::Complete,
        tx_checksum_start: 0,
        tx_checksum_offset: 0,
        tx_segment_bytes: 0,
        l3_offset: 0,
        l4_offset: 0,
        transmit: false,
    };
}

impl Default for FrameMeta {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

/// What is known of a received packet's checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChecksumState {
    /// Nobody has looked: verify before use.
    Unknown = 0,
    /// Found right, by the port or by us.
    Verified = 1,
    /// The link is trusted and the field may hold only the sum of a pseudo-header
    /// (a kernel peer on veth sends these): never forward it unchanged.
    Partial = 2,
}

/// Whether the transmit side still owes a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TxChecksum {
    /// The packet is complete as it is.
    Complete = 0,
    /// Sum from `tx_checksum_start` to the end and write it at `tx_checksum_offset`.
    Partial = 1,
}
