//! A packet as C sees it.

use calisto_client::{ChecksumState, Frame, PortId};

use crate::failure::{CALISTO_INVALID, Failure};

/// The packet's checksums were not looked at.
pub const CALISTO_CHECKSUM_UNKNOWN: u8 = 0;
/// They are right.
pub const CALISTO_CHECKSUM_VERIFIED: u8 = 1;
/// The link is trusted and they may be half done: never forward them unchanged.
pub const CALISTO_CHECKSUM_PARTIAL: u8 = 2;

/// A packet that is with the application, from its Ethernet header on. Read and write
/// `data[0 .. len]`; to make it longer, raise `len` up to `room`. Other fields than `len`, `port`
/// and the bytes are read only. After calisto_send or calisto_done took it, `data` is null.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CalistoPacket {
    /// Its first byte.
    pub data: *mut u8,
    /// Its bytes.
    pub len: u32,
    /// The largest `len`.
    pub room: u32,
    /// When the port handed it to the daemon: nanoseconds of CLOCK_MONOTONIC.
    pub received_at_ns: u64,
    /// The hash of its flow, computed by the daemon.
    pub flow_hash: u32,
    /// The group of flows that it belongs to, which one worker owns.
    pub flow_group: u32,
    /// The port that it came from, or by which it is to leave: see calisto_port.
    pub port: u16,
    /// Bytes from `data` to its IP header.
    pub l3_offset: u16,
    /// Bytes from `data` to its UDP or TCP header.
    pub l4_offset: u16,
    /// One of the CALISTO_CHECKSUM numbers.
    pub checksum: u8,
    /// Zero.
    pub reserved: u8,
    /// The library's own name for it; zero once it was given back.
    pub handle: u64,
}

impl CalistoPacket {
    /// What a place of an array says when no packet is there.
    pub(crate) const NONE: Self = Self {
        data: std::ptr::null_mut(),
        len: 0,
        room: 0,
        received_at_ns: 0,
        flow_hash: 0,
        flow_group: 0,
        port: 0,
        l3_offset: 0,
        l4_offset: 0,
        checksum: 0,
        reserved: 0,
        handle: 0,
    };

    pub(crate) fn of(frame: &mut Frame, handle: u64) -> Self {
        let meta = *frame.meta();
        Self {
            data: frame.bytes_mut().as_mut_ptr(),
            len: frame.len() as u32,
            room: frame.room() as u32,
            received_at_ns: meta.received_at.0,
            flow_hash: meta.flow_hash.0,
            flow_group: meta.group.0,
            port: meta.port.0,
            l3_offset: meta.l3_offset,
            l4_offset: meta.l4_offset,
            checksum: match meta.checksum {
                ChecksumState::Unknown => CALISTO_CHECKSUM_UNKNOWN,
                ChecksumState::Verified => CALISTO_CHECKSUM_VERIFIED,
                ChecksumState::Partial => CALISTO_CHECKSUM_PARTIAL,
            },
            reserved: 0,
            handle,
        }
    }

    /// Puts what C may change into the frame.
    pub(crate) fn apply(&self, frame: &mut Frame) -> Result<(), Failure> {
        if !frame.set_len(self.len as usize) {
            let text = format!("a packet of {} bytes has no room in {}", self.len, frame.room());
            return Err(Failure { code: CALISTO_INVALID, errno: 0, text });
        }
        frame.meta_mut().port = PortId(self.port);
        Ok(())
    }
}
