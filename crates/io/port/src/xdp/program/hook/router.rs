//! A router in the hook: the kernel's helper follows its routes and neighbours, the rest is a TTL,
//! two link addresses and the way out.

use super::super::super::asm::{Alu, Assembler, If, Register, Size};
use super::super::{need, wire};
use super::place::Version::{Four, Six};
use super::place::{LINK, Leaving, PARAMETERS, PLACE, Place, Version, count, count_decided, fold};
use crate::hook::{HookCounter, HookRouter};

use Register::{R0, R1, R2, R3, R4, R5, R6, R7, R10};

/// Helper functions of the kernel, by number (linux/bpf.h).
const REDIRECT: i32 = 23;
const FIB_LOOKUP: i32 = 69;

/// In struct xdp_md.
const CTX_INGRESS_IFINDEX: i16 = 12;

/// Where the parts of struct bpf_fib_lookup are, and how long it is.
mod parameter {
    pub(super) const FAMILY: i16 = 0;
    pub(super) const TOTAL_BYTES: i16 = 6;
    pub(super) const IFINDEX: i16 = 8;
    pub(super) const SOURCE: i16 = 16;
    pub(super) const DESTINATION: i16 = 32;
    pub(super) const LINK_SOURCE: i16 = 52;
    pub(super) const LINK_DESTINATION: i16 = 58;
    pub(super) const BYTES: i32 = 64;
}

/// What the lookup answers (enum of `BPF_FIB_LKUP_RET_*`).
mod answer {
    pub(super) const SUCCESS: i32 = 0;
    pub(super) const NO_NEIGHBOUR: i32 = 7;
    pub(super) const FRAGMENTATION_NEEDED: i32 = 8;
}

/// Sends the packet at R7 on, which has nothing to ponder, and ends; or leaves, the packet
/// unchanged.
pub(super) fn send_on(
    asm: &mut Assembler,
    place: &Place<'_>,
    router: &HookRouter,
    version: Version,
    leaving: &Leaving,
) {
    asm.load(Size::Byte, R2, R7, version.limit());
    asm.jump_if(R2, If::Less, 2, leaving.to(HookCounter::Expired));
    if place.checksums_may_be_open {
        open_checksum(asm, version, leaving);
    }
    look_up(asm, version, leaving);

    let out = asm.label();
    asm.load(Size::Word, R2, R10, PARAMETERS + parameter::IFINDEX);
    for exit in &router.exits {
        if place.is_generic || exit.takes_redirects {
            asm.jump_if32(R2, If::Equal, exit.index, out);
        }
    }
    asm.jump(leaving.to(HookCounter::NoExit));

    // All checks are done: from here on the packet is written. The verifier takes no instructions
    // that nothing leads to.
    if !asm.is_wanted(out) {
        return;
    }
    asm.bind(out);
    let ends = [(0, parameter::LINK_DESTINATION), (6, parameter::LINK_SOURCE)];
    for (to, from) in ends {
        for part in [0, 2, 4] {
            asm.load(Size::Half, R2, R10, PARAMETERS + from + part);
            asm.store(Size::Half, R7, to + part, R2);
        }
    }
    asm.load(Size::Byte, R2, R7, version.limit());
    asm.alu(Alu::Subtract, R2, 1);
    asm.store(Size::Byte, R7, version.limit(), R2);
    if version == Four {
        update_checksum(asm);
    }
    count_decided(asm, place, place.functions.acls.len());
    asm.store_value(Size::Word, R10, PLACE, HookCounter::Forwarded as i32);
    count(asm, place, PLACE);
    asm.load(Size::Word, R1, R10, PARAMETERS + parameter::IFINDEX);
    asm.alu(Alu::Move, R2, 0);
    asm.call(REDIRECT);
    asm.exit();
}

/// Asks the kernel for the way of the packet; the answer is on the stack. Uses R0 to R5.
fn look_up(asm: &mut Assembler, version: Version, leaving: &Leaving) {
    let family = if version == Four { libc::AF_INET } else { libc::AF_INET6 };
    for part in (0..parameter::BYTES as i16).step_by(8) {
        asm.store_value(Size::Double, R10, PARAMETERS + part, 0);
    }
    asm.store_value(Size::Byte, R10, PARAMETERS + parameter::FAMILY, family);
    // The length is held against what the next link takes.
    asm.load(Size::Half, R2, R7, LINK + if version == Four { 2 } else { 4 });
    asm.turn_big_endian(R2, 16);
    if version == Six {
        asm.alu(Alu::Add, R2, Six.header_bytes().into());
        // Sixteen bits hold no jumbogram's, nor what is longer than any link takes.
        asm.jump_if(R2, If::Greater, 0xffff, leaving.to(HookCounter::TooLong));
    }
    asm.store(Size::Half, R10, PARAMETERS + parameter::TOTAL_BYTES, R2);
    asm.load(Size::Word, R2, R6, CTX_INGRESS_IFINDEX);
    asm.store(Size::Word, R10, PARAMETERS + parameter::IFINDEX, R2);
    let addresses =
        [(version.source(), parameter::SOURCE), (version.destination(), parameter::DESTINATION)];
    for (from, to) in addresses {
        for part in (0..version.address_bytes()).step_by(4) {
            asm.load(Size::Word, R2, R7, from + part);
            asm.store(Size::Word, R10, PARAMETERS + to + part, R2);
        }
    }
    asm.alu_register(Alu::Move, R1, R6);
    asm.alu_register(Alu::Move, R2, R10);
    asm.alu(Alu::Add, R2, PARAMETERS.into());
    asm.alu(Alu::Move, R3, parameter::BYTES);
    asm.alu(Alu::Move, R4, 0);
    asm.call(FIB_LOOKUP);
    asm.jump_if(R0, If::Equal, answer::NO_NEIGHBOUR, leaving.to(HookCounter::NoNeighbour));
    asm.jump_if(R0, If::Equal, answer::FRAGMENTATION_NEEDED, leaving.to(HookCounter::TooLong));
    asm.jump_if(R0, If::NotEqual, answer::SUCCESS, leaving.to(HookCounter::NoRoute));
}

/// The checksum of an IPv4 header whose TTL has become one less (RFC 1624, equation 3): the word
/// with the TTL is its high byte, so old to new is a difference of 0x0100. Uses R2 and R3.
fn update_checksum(asm: &mut Assembler) {
    const AT: i16 = LINK + 10;
    asm.load(Size::Half, R2, R7, AT);
    asm.alu(Alu::ExclusiveOr, R2, 0xffff);
    asm.alu(Alu::Add, R2, wire(!0x0100));
    fold(asm, R2, R3);
    asm.alu(Alu::ExclusiveOr, R2, 0xffff);
    asm.store(Size::Half, R7, AT, R2);
}

/// Leaves a packet of TCP or UDP whose checksum is the sum of its pseudo-header, not inverted: its
/// sender has left the rest to a device that never sees it. R7 keeps the packet. Uses R1 to R5.
fn open_checksum(asm: &mut Assembler, version: Version, leaving: &Leaving) {
    let (tcp, udp, sum, closed) = (asm.label(), asm.label(), asm.label(), asm.label());
    asm.load(Size::Byte, R4, R7, version.protocol());
    asm.jump_if(R4, If::Equal, 6, tcp);
    asm.jump_if(R4, If::NotEqual, 17, closed);
    for (label, field) in [(udp, 6), (tcp, 16)] {
        asm.bind(label);
        let at = version.payload() + field;
        need(asm, i32::from(at) + 2, leaving.to(HookCounter::NotPlain));
        asm.load(Size::Half, R5, R7, at);
        if label == udp {
            asm.jump(sum);
        }
    }
    asm.bind(sum);
    // Its length, which is what the IP header says less that header.
    asm.load(Size::Half, R2, R7, LINK + if version == Four { 2 } else { 4 });
    if version == Four {
        asm.turn_big_endian(R2, 16);
        asm.alu(Alu::Subtract, R2, Four.header_bytes().into());
        asm.turn_big_endian(R2, 16);
    }
    asm.turn_big_endian(R4, 16);
    asm.alu_register(Alu::Add, R2, R4);
    let ends = version.source()..version.destination() + version.address_bytes();
    for at in ends.step_by(2) {
        asm.load(Size::Half, R3, R7, at);
        asm.alu_register(Alu::Add, R2, R3);
    }
    fold(asm, R2, R3);
    asm.jump_if_register(R2, If::Equal, R5, leaving.to(HookCounter::OpenChecksum));
    asm.bind(closed);
}
