//! The blocks of pcapng: sections, interfaces, packets; whatever else there is, is skipped.

use std::io::Read;

use base::Nanos;

use super::reader::{
    Damage, LinkedRecord, RECORD_BYTES_MAX, Record, packet, skip, whole, whole_or_end, word,
};

/// Interfaces of one section that are remembered; captures have a handful.
const INTERFACES_MAX: usize = 1024;
/// No block that we read whole is longer: an interface description with its options.
const DESCRIPTION_BYTES_MAX: u32 = 64 << 10;

const INTERFACE_DESCRIPTION: u32 = 1;
/// Obsolete, and still in old files: an enhanced packet whose interface is a half word, with a
/// count of drops behind it.
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Type and length before a block's body, and the length again after it.
const FRAME_BYTES: u32 = 12;

/// Where we are in a pcapng file.
#[derive(Debug)]
pub(super) struct Ng {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u16,
    snaplen: u32,
    /// Units in a second.
    resolution: u64,
    offset_seconds: i64,
}

impl Ng {
    /// Type of a section header; reads the same in both byte orders.
    pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;

    /// The type of a section header was read: read the rest of it.
    pub(super) fn start(input: &mut impl Read) -> Result<Self, Damage> {
        let mut ng = Self { big_endian: false, interfaces: Vec::new() };
        ng.section(input)?;
        Ok(ng)
    }

    /// The next packet.
    pub(super) fn next(
        &mut self,
        input: &mut impl Read,
        buffer: &mut [u8],
    ) -> Result<Option<LinkedRecord>, Damage> {
        loop {
            let mut kind = [0; 4];
            if !whole_or_end(input, &mut kind)? {
                return Ok(None);
            }
            let kind = word(&kind, 0, self.big_endian);
            if kind == Self::SECTION_HEADER {
                self.section(input)?;
                continue;
            }
            let mut length = [0; 4];
            whole(input, &mut length)?;
            let length = word(&length, 0, self.big_endian);
            if length < FRAME_BYTES || !length.is_multiple_of(4) {
                return Err(Damage::Absurd { what: "block", bytes: length });
            }
            let body = length - FRAME_BYTES;
            let record = match kind {
                INTERFACE_DESCRIPTION => {
                    self.interface(input, body)?;
                    None
                }
                ENHANCED_PACKET | OLD_PACKET => Some(self.enhanced(input, kind, body, buffer)?),
                SIMPLE_PACKET => Some(self.simple(input, body, buffer)?),
                _ => {
                    skip(input, u64::from(body))?;
                    None
                }
            };
            // The length again.
            skip(input, 4)?;
            if record.is_some() {
                return Ok(record);
            }
        }
    }

    fn section(&mut self, input: &mut impl Read) -> Result<(), Damage> {
        let mut start = [0; 8];
        whole(input, &mut start)?;
        self.big_endian = match u32::from_le_bytes(start[4..].try_into().expect("four bytes")) {
            0x1a2b_3c4d => false,
            0x4d3c_2b1a => true,
            other => return Err(Damage::Magic(other)),
        };
        let length = word(&start, 0, self.big_endian);
        // Type, length, order, version, section length, length.
        if length < 28 || !length.is_multiple_of(4) {
            return Err(Damage::Absurd { what: "section header", bytes: length });
        }
        self.interfaces.clear();
        skip(input, u64::from(length - 12))
    }

    fn interface(&mut self, input: &mut impl Read, body: u32) -> Result<(), Damage> {
        if !(8..=DESCRIPTION_BYTES_MAX).contains(&body) || self.interfaces.len() >= INTERFACES_MAX {
            return Err(Damage::Absurd { what: "interface description", bytes: body });
        }
        let mut bytes = vec![0; body as usize];
        whole(input, &mut bytes)?;
        let mut interface = Interface {
            link_type: self.half(&bytes, 0),
            snaplen: word(&bytes, 4, self.big_endian),
            resolution: 1_000_000,
            offset_seconds: 0,
        };
        let mut options = &bytes[8..];
        while options.len() >= 4 {
            let (code, len) = (self.half(options, 0), usize::from(self.half(options, 2)));
            let Some(value) = options.get(4..4 + len) else {
                break;
            };
            match (code, value) {
                (0, _) => break,
                // if_tsresol: a power of ten, or of two when the top bit is set.
                (9, &[exponent]) => {
                    let base: u64 = if exponent & 0x80 == 0 { 10 } else { 2 };
                    let power = base.checked_pow(u32::from(exponent & 0x7f));
                    interface.resolution = power.ok_or(Damage::Absurd {
                        what: "time resolution",
                        bytes: u32::from(exponent),
                    })?;
                }
                // if_tsoffset
                (14, value) if value.len() == 8 => {
                    let bytes = value.try_into().expect("eight bytes");
                    interface.offset_seconds = if self.big_endian {
                        i64::from_be_bytes(bytes)
                    } else {
                        i64::from_le_bytes(bytes)
                    };
                }
                _ => {}
            }
            let step = 4 + len.next_multiple_of(4);
            options = options.get(step..).unwrap_or_default();
        }
        self.interfaces.push(interface);
        Ok(())
    }

    /// A packet that names its interface.
    fn enhanced(
        &self,
        input: &mut impl Read,
        kind: u32,
        body: u32,
        buffer: &mut [u8],
    ) -> Result<LinkedRecord, Damage> {
        let absurd = || Damage::Absurd { what: "packet block", bytes: body };
        let room = body.checked_sub(20).ok_or_else(absurd)?;
        let mut header = [0; 20];
        whole(input, &mut header)?;
        let word = |at| word(&header, at, self.big_endian);
        let captured = word(12);
        if captured > room {
            return Err(Damage::Absurd { what: "packet", bytes: captured });
        }
        let number =
            if kind == OLD_PACKET { self.half(&header, 0).into() } else { word(0) as usize };
        let interface = self.interfaces.get(number);
        let units = u64::from(word(4)) << 32 | u64::from(word(8));
        let time = interface.map_or(Nanos::ZERO, |interface| interface.time(units));
        let len = packet(input, captured, buffer)?;
        skip(input, u64::from(room - captured))?;
        let record = Record { time, len, wire_bytes: word(16) };
        Ok(LinkedRecord { record, link_type: interface.map(|interface| interface.link_type) })
    }

    /// A packet of the first interface, without a time.
    fn simple(
        &self,
        input: &mut impl Read,
        body: u32,
        buffer: &mut [u8],
    ) -> Result<LinkedRecord, Damage> {
        let absurd = || Damage::Absurd { what: "packet block", bytes: body };
        let room = body.checked_sub(4).ok_or_else(absurd)?;
        let mut header = [0; 4];
        whole(input, &mut header)?;
        let wire_bytes = word(&header, 0, self.big_endian);
        let interface = self.interfaces.first();
        let snaplen = interface.map_or(0, |interface| interface.snaplen);
        let snaplen = if snaplen == 0 { RECORD_BYTES_MAX } else { snaplen };
        let captured = wire_bytes.min(snaplen);
        if captured > room {
            return Err(Damage::Absurd { what: "packet", bytes: captured });
        }
        let len = packet(input, captured, buffer)?;
        skip(input, u64::from(room - captured))?;
        let record = Record { time: Nanos::ZERO, len, wire_bytes };
        Ok(LinkedRecord { record, link_type: interface.map(|interface| interface.link_type) })
    }

    fn half(&self, bytes: &[u8], at: usize) -> u16 {
        let bytes = [bytes[at], bytes[at + 1]];
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }
}

impl Interface {
    fn time(&self, units: u64) -> Nanos {
        // Microseconds and nanoseconds, which nearly every file has, need no wide division.
        if self.offset_seconds == 0 && 1_000_000_000_u64.is_multiple_of(self.resolution.max(1)) {
            return Nanos(units.saturating_mul(1_000_000_000 / self.resolution.max(1)));
        }
        let nanos = u128::from(units) * 1_000_000_000 / u128::from(self.resolution.max(1));
        let nanos = i128::try_from(nanos).unwrap_or(i128::MAX);
        let total = nanos.saturating_add(i128::from(self.offset_seconds) * 1_000_000_000);
        Nanos(u64::try_from(total.max(0)).unwrap_or(u64::MAX))
    }
}
