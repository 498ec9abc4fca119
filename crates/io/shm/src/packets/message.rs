//! Messages of the rings between daemon and application, as eight words.
//!
//! Word 0: kind. Packets: words 1 to 6 are the fields of [`FrameDesc`]. Barriers: word 1 the
//! ticket, words 2 and 3 what moves. Everything that is no message is refused, never guessed.

use base::{
    ChecksumState, Epoch, FlowGroup, FlowHash, FrameDesc, FrameMeta, Nanos, PortId, QueueId,
    TxChecksum,
};

use crate::handover::{Moving, Ticket};
use crate::slot_ring::{ProtocolViolation, Slot};

/// Daemon to application, in the order in which it must take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToApp {
    /// A packet in a buffer that is the worker's now.
    Packet(Packet),
    /// Complete everything before this, then give up what moves unless that was aborted.
    Barrier {
        /// The hand-over.
        ticket: Ticket,
        /// What leaves.
        moving: Moving,
    },
    /// From here on the worker owns what moves.
    Attach(Moving),
    /// Nothing follows.
    Retire,
}

/// Application to daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromApp {
    /// A buffer that is done with; `meta.transmit` says whether its packet is to be sent.
    Packet(Packet),
    /// The worker has detached what the ticket's hand-over moves.
    Passed(Ticket),
    /// The worker has met [`ToApp::Retire`].
    Retired,
}

/// A [`FrameDesc`] that can be compared.
#[derive(Clone, Copy, Debug)]
pub struct Packet(pub FrameDesc);

impl PartialEq for Packet {
    fn eq(&self, other: &Self) -> bool {
        words_of(&self.0) == words_of(&other.0)
    }
}

impl Eq for Packet {}

const PACKET: u64 = 1;
const BARRIER: u64 = 2;
const ATTACH: u64 = 3;
const RETIRE: u64 = 4;
const PASSED: u64 = 5;
const RETIRED: u64 = 6;

impl ToApp {
    #[inline]
    pub(crate) fn encode(&self) -> Slot {
        match self {
            Self::Packet(packet) => packet_slot(&packet.0),
            Self::Barrier { ticket, moving } => {
                let [kind, number] = moving_words(*moving);
                [BARRIER, ticket.to_bits(), kind, number, 0, 0, 0, 0]
            }
            Self::Attach(moving) => {
                let [kind, number] = moving_words(*moving);
                [ATTACH, 0, kind, number, 0, 0, 0, 0]
            }
            Self::Retire => [RETIRE, 0, 0, 0, 0, 0, 0, 0],
        }
    }

    #[inline]
    pub(crate) fn decode(slot: &Slot) -> Result<Self, ProtocolViolation> {
        match slot[0] {
            PACKET => Ok(Self::Packet(packet_of(slot)?)),
            BARRIER => Ok(Self::Barrier {
                ticket: Ticket::from_bits(slot[1]),
                moving: moving_of(slot[2], slot[3])?,
            }),
            ATTACH => Ok(Self::Attach(moving_of(slot[2], slot[3])?)),
            RETIRE => Ok(Self::Retire),
            _ => Err(ProtocolViolation::Message),
        }
    }
}

impl FromApp {
    #[inline]
    pub(crate) fn encode(&self) -> Slot {
        match self {
            Self::Packet(packet) => packet_slot(&packet.0),
            Self::Passed(ticket) => [PASSED, ticket.to_bits(), 0, 0, 0, 0, 0, 0],
            Self::Retired => [RETIRED, 0, 0, 0, 0, 0, 0, 0],
        }
    }

    #[inline]
    pub(crate) fn decode(slot: &Slot) -> Result<Self, ProtocolViolation> {
        match slot[0] {
            PACKET => Ok(Self::Packet(packet_of(slot)?)),
            PASSED => Ok(Self::Passed(Ticket::from_bits(slot[1]))),
            RETIRED => Ok(Self::Retired),
            _ => Err(ProtocolViolation::Message),
        }
    }
}

fn moving_words(moving: Moving) -> [u64; 2] {
    match moving {
        Moving::Group(group) => [0, u64::from(group.0)],
        Moving::Epoch(epoch) => [1, u64::from(epoch.0)],
    }
}

fn moving_of(kind: u64, number: u64) -> Result<Moving, ProtocolViolation> {
    let number = u32::try_from(number).map_err(|_| ProtocolViolation::Message)?;
    match kind {
        0 => Ok(Moving::Group(FlowGroup(number))),
        1 => Ok(Moving::Epoch(Epoch(number))),
        _ => Err(ProtocolViolation::Message),
    }
}

#[inline]
fn packet_slot(desc: &FrameDesc) -> Slot {
    let [a, b, c, d, e, f] = words_of(desc);
    [PACKET, a, b, c, d, e, f, 0]
}

#[inline]
fn words_of(desc: &FrameDesc) -> [u64; 6] {
    let FrameDesc { offset, len, meta } = *desc;
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let four = |a: u16, b: u16, c: u16, d: u16| {
        pair(u32::from(a) | u32::from(b) << 16, u32::from(c) | u32::from(d) << 16)
    };
    let flags = u16::from(meta.checksum as u8)
        | u16::from(meta.tx_checksum as u8) << 4
        | u16::from(meta.transmit) << 8;
    [
        pair(offset, len),
        meta.received_at.0,
        pair(meta.flow_hash.0, meta.group.0),
        pair(meta.next_fragment, u32::from(flags)),
        four(meta.port.0, meta.queue.0, meta.vlan_tci, meta.tx_segment_bytes),
        four(meta.tx_checksum_start, meta.tx_checksum_offset, meta.l3_offset, meta.l4_offset),
    ]
}

#[inline]
fn packet_of(slot: &Slot) -> Result<Packet, ProtocolViolation> {
    let &[_, a, b, c, d, e, f, _] = slot;
    let low = |word: u64| word as u32;
    let high = |word: u64| (word >> 32) as u32;
    let part = |word: u64, index: u32| (word >> (16 * index)) as u16;
    let flags = high(d);
    let checksum = match flags & 0xf {
        0 => ChecksumState::Unknown,
        1 => ChecksumState::Verified,
        2 => ChecksumState::Partial,
        _ => return Err(ProtocolViolation::Message),
    };
    let tx_checksum = match flags >> 4 & 0xf {
        0 => TxChecksum::Complete,
        1 => TxChecksum::Partial,
        _ => return Err(ProtocolViolation::Message),
    };
    if flags >> 9 != 0 {
        return Err(ProtocolViolation::Message);
    }
    let meta = FrameMeta {
        received_at: Nanos(b),
        flow_hash: FlowHash(low(c)),
        group: FlowGroup(high(c)),
        next_fragment: low(d),
        port: PortId(part(e, 0)),
        queue: QueueId(part(e, 1)),
        vlan_tci: part(e, 2),
        tx_segment_bytes: part(e, 3),
        checksum,
        tx_checksum,
        tx_checksum_start: part(f, 0),
        tx_checksum_offset: part(f, 1),
        l3_offset: part(f, 2),
        l4_offset: part(f, 3),
        transmit: flags >> 8 & 1 == 1,
    };
    Ok(Packet(FrameDesc { offset: low(a), len: high(a), meta }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn eight_words_are_one_message_or_none(slot in any::<[u64; 8]>(), kind in 0..8_u64, small in any::<bool>()) {
            let mut slot = slot;
            slot[0] = kind;
            if small {
                // Near the values that mean something.
                slot[2] &= 3;
                slot[3] &= 0xffff_ffff;
                slot[4] &= 0x0000_01ff_ffff_ffff;
            }
            if let Ok(message) = ToApp::decode(&slot) {
                prop_assert_eq!(ToApp::decode(&message.encode()), Ok(message));
            }
            if let Ok(message) = FromApp::decode(&slot) {
                prop_assert_eq!(FromApp::decode(&message.encode()), Ok(message));
            }
        }

        #[test]
        fn a_packet_survives_its_slot(
            a in any::<[u64; 6]>(), checksum in 0..3_u64, owes in 0..2_u64, transmit in 0..2_u64,
        ) {
            let flags = checksum | owes << 4 | transmit << 8;
            let slot = [PACKET, a[0], a[1], a[2], a[3] & 0xffff_ffff | flags << 32, a[4], a[5], 0];
            let message = FromApp::decode(&slot).expect("every field is in range");
            prop_assert_eq!(message.encode(), slot);
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for kind in [0, 7, u64::MAX] {
            assert_eq!(ToApp::decode(&[kind; 8]), Err(ProtocolViolation::Message));
            assert_eq!(FromApp::decode(&[kind; 8]), Err(ProtocolViolation::Message));
        }
        // What the daemon says, an application may not.
        assert_eq!(
            FromApp::decode(&[BARRIER, 0, 0, 0, 0, 0, 0, 0]),
            Err(ProtocolViolation::Message)
        );
        assert_eq!(
            FromApp::decode(&[PACKET, 0, 0, 0, 3 << 32, 0, 0, 0]),
            Err(ProtocolViolation::Message)
        );
        assert_eq!(
            FromApp::decode(&[PACKET, 0, 0, 0, 1 << 41, 0, 0, 0]),
            Err(ProtocolViolation::Message)
        );
    }
}
