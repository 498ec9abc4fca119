//! What all parts of a hook's program know: where things are in a packet and on the stack, and how
//! something is counted.

use std::net::IpAddr;

use super::super::super::asm::{Alu, Assembler, If, Label, Register, Size};
use super::super::MAP_LOOKUP_ELEM;
use crate::hook::{HookCounter, HookFunctions};

use Register::{R0, R1, R2, R10};

/// What a program is made of beside the functions.
#[derive(Clone, Copy, Debug)]
pub(in crate::xdp) struct Place<'a> {
    pub(in crate::xdp) functions: &'a HookFunctions,
    /// The map of counters.
    pub(in crate::xdp) counters_fd: i32,
    /// The port's own link address.
    pub(in crate::xdp) mac: [u8; 6],
    /// Whether a kernel of this host may have left checksums open.
    pub(in crate::xdp) checksums_may_be_open: bool,
    /// Whether packets are socket buffers, which every interface takes.
    pub(in crate::xdp) is_generic: bool,
}

/// struct bpf_fib_lookup, with place for 64 bytes.
pub(super) const PARAMETERS: i16 = -128;
/// The place of a counter on its way to the map.
pub(super) const PLACE: i16 = -136;
/// By acl: the place of the counter of what decided.
const DECIDED: i16 = -144;
const _: () = assert!(DECIDED - 8 * HookFunctions::ACLS_MAX as i16 >= -512);

pub(super) const LINK: i16 = 14;
/// Which IP a packet is, and where its parts are in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Four,
    Six,
}
use Version::{Four, Six};

impl Version {
    pub(super) const fn header_bytes(self) -> i16 {
        if matches!(self, Four) { 20 } else { 40 }
    }

    /// Where what follows the header begins in the frame.
    pub(super) const fn payload(self) -> i16 {
        LINK + self.header_bytes()
    }

    pub(super) const fn protocol(self) -> i16 {
        LINK + if matches!(self, Four) { 9 } else { 6 }
    }

    pub(super) const fn limit(self) -> i16 {
        LINK + if matches!(self, Four) { 8 } else { 7 }
    }

    pub(super) const fn source(self) -> i16 {
        LINK + if matches!(self, Four) { 12 } else { 8 }
    }

    pub(super) const fn destination(self) -> i16 {
        self.source() + self.address_bytes()
    }

    pub(super) const fn address_bytes(self) -> i16 {
        if matches!(self, Four) { 4 } else { 16 }
    }

    /// The words of an address of this version, as they lie in memory; nothing for another's.
    pub(super) fn words(self, address: IpAddr) -> Option<Vec<u32>> {
        let bytes = match (self, address) {
            (Four, IpAddr::V4(four)) => four.octets().to_vec(),
            (Six, IpAddr::V6(six)) => six.octets().to_vec(),
            _ => return None,
        };
        Some(bytes.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect())
    }
}

/// Where packets go on that this cannot finish, by the reason.
pub(super) struct Leaving {
    pub(super) labels: [Label; HookCounter::ALL.len()],
}

impl Leaving {
    pub(super) const fn to(&self, why: HookCounter) -> Label {
        self.labels[why as usize]
    }
}

/// Makes a sum one of 16 bits (RFC 1071). Of at most 65,536 words.
pub(super) fn fold(asm: &mut Assembler, sum: Register, scratch: Register) {
    for _ in 0..2 {
        asm.alu_register(Alu::Move, scratch, sum);
        asm.alu(Alu::ShiftRight, scratch, 16);
        asm.alu(Alu::And, sum, 0xffff);
        asm.alu_register(Alu::Add, sum, scratch);
    }
}

/// Counts what the first `acls` acls have decided. Uses R0 to R5.
pub(super) fn count_decided(asm: &mut Assembler, place: &Place<'_>, acls: usize) {
    for acl in 0..acls {
        count(asm, place, decided(acl));
    }
}

/// Where on the stack the place of the counter is of what decided in an acl.
pub(super) fn decided(acl: usize) -> i16 {
    DECIDED - 8 * acl as i16
}

/// Adds one to the counter whose place is on the stack at `at`. Uses R0 to R5.
pub(super) fn count(asm: &mut Assembler, place: &Place<'_>, at: i16) {
    let absent = asm.label();
    asm.load_map(R1, place.counters_fd);
    asm.alu_register(Alu::Move, R2, R10);
    asm.alu(Alu::Add, R2, at.into());
    asm.call(MAP_LOOKUP_ELEM);
    // There is one at each place; the verifier does not know that.
    asm.jump_if(R0, If::Equal, 0, absent);
    asm.load(Size::Double, R2, R0, 0);
    asm.alu(Alu::Add, R2, 1);
    asm.store(Size::Double, R0, 0, R2);
    asm.bind(absent);
}
