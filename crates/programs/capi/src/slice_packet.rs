//! A packet of a slice as C sees it.

use base::TxChecksum;
use calisto_client::{Frame, PortId};

use crate::failure::{CALISTO_INVALID, Failure};

/// In `flags` of a packet that is written: do not send it.
pub const CALISTO_SLICE_SKIP: u16 = 1;
/// In `flags` of a packet that is written: sum from `checksum_start` to its end, with what lies at
/// `checksum_start + checksum_offset` (the sum of a pseudo-header, or zero) included, and write the
/// checksum there. By the device, where it can.
pub const CALISTO_SLICE_CHECKSUM: u16 = 2;

/// A packet of a slice, from its Ethernet header on. Read and write `data[0 .. len]`; to make it
/// longer, raise `len` up to `room`. After calisto_slice_write_multi took it, `data` is null.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CalistoSlicePacket {
    /// Its first byte.
    pub data: *mut u8,
    /// Its bytes.
    pub len: u32,
    /// The largest `len`.
    pub room: u32,
    /// Which of the slice's ports it came from, counted from 0; by which it is to leave, when
    /// written.
    pub port: u16,
    /// CALISTO_SLICE_SKIP, CALISTO_SLICE_CHECKSUM; 0 when it was just read.
    pub flags: u16,
    /// Bytes from `data` to where the sum begins, for CALISTO_SLICE_CHECKSUM.
    pub checksum_start: u16,
    /// Bytes from there to the checksum.
    pub checksum_offset: u16,
    /// The library's own name for it; zero once it was taken.
    pub handle: u64,
}

impl CalistoSlicePacket {
    /// What a place of an array says when no packet is there.
    pub(crate) const NONE: Self = Self {
        data: std::ptr::null_mut(),
        len: 0,
        room: 0,
        port: 0,
        flags: 0,
        checksum_start: 0,
        checksum_offset: 0,
        handle: 0,
    };

    pub(crate) fn of(frame: &mut Frame, handle: u64) -> Self {
        Self {
            data: frame.bytes_mut().as_mut_ptr(),
            len: frame.len() as u32,
            room: frame.room() as u32,
            port: frame.meta().port.0,
            handle,
            ..Self::NONE
        }
    }

    /// What stays with C is as C left it, but for its handle.
    pub(crate) fn again(&self, frame: &mut Frame, handle: u64) -> Self {
        Self { flags: self.flags, ..Self::of(frame, handle) }.with_checksum_of(self)
    }

    fn with_checksum_of(self, other: &Self) -> Self {
        let Self { checksum_start, checksum_offset, .. } = *other;
        Self { checksum_start, checksum_offset, ..self }
    }

    /// Puts what C may change into the frame.
    pub(crate) fn apply(&self, frame: &mut Frame) -> Result<(), Failure> {
        let invalid = |text| Failure { code: CALISTO_INVALID, errno: 0, text };
        if self.flags & !(CALISTO_SLICE_SKIP | CALISTO_SLICE_CHECKSUM) != 0 {
            return Err(invalid(format!("{:#x} is no flag of a packet", self.flags)));
        }
        if !frame.set_len(self.len as usize) {
            let room = frame.room();
            return Err(invalid(format!("a packet of {} bytes has no room in {room}", self.len)));
        }
        let meta = frame.meta_mut();
        meta.port = PortId(self.port);
        meta.transmit = self.flags & CALISTO_SLICE_SKIP == 0;
        if self.flags & CALISTO_SLICE_CHECKSUM != 0 {
            meta.tx_checksum = TxChecksum::Partial;
            meta.tx_checksum_start = self.checksum_start;
            meta.tx_checksum_offset = self.checksum_offset;
        } else {
            meta.tx_checksum = TxChecksum::Complete;
        }
        Ok(())
    }
}
