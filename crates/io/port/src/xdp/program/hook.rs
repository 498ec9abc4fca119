//! The first functions of a chain, decided in the hook: rules, and a router by the kernel's own
//! tables.
//!
//! A packet comes here when the chain's filter wants it. Everything that needs thought goes to
//! `slice`, unchanged, with the counter of its reason: so all checks come before the first write,
//! and a packet is counted by a function only where it is finished. What is checked is what the
//! slice's functions check, in fewer cases: options, fragments and extension headers are theirs.
//!
//! The stack's upper 64 bytes are the filter's. No loop: the verifier sees as many instructions as
//! there are, once for each version of IP.
//!
//! What is made here is under BSD or GPL at the kernel's choice ([`super::super::bpf::GPL_TOO`]).

use super::super::asm::{Alu, Assembler, If, Instruction, Label, Register, Size};
use super::super::if_xdp::XDP_DROP;
use super::{CTX_DATA, CTX_DATA_END, need, redirect, wire};
use crate::hook::HookCounter;

mod acl;
mod place;
mod router;

pub(in crate::xdp) use place::Place;
use place::Version::{self, Four, Six};
use place::{LINK, Leaving, PLACE, count, count_decided, fold};

use Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};

/// Decides about the packet whose context is in R6, and ends; or goes to `slice` with R6 as it was.
pub(super) fn decide(asm: &mut Assembler, place: &Place<'_>, slice: Label) {
    let leaving = Leaving { labels: HookCounter::ALL.map(|_| asm.label()) };
    let denied: Vec<Label> = place.functions.acls.iter().map(|_| asm.label()).collect();
    let six = asm.label();
    let not_plain = leaving.to(HookCounter::NotPlain);
    asm.load(Size::Word, R7, R6, CTX_DATA);
    asm.load(Size::Word, R8, R6, CTX_DATA_END);
    need(asm, i32::from(Four.payload()), not_plain);
    let [a, b, c, d, e, f] = place.mac;
    asm.load(Size::Word, R2, R7, 0);
    asm.jump_if32(R2, If::NotEqual, u32::from_ne_bytes([a, b, c, d]), not_plain);
    asm.load(Size::Half, R2, R7, 4);
    asm.jump_if32(R2, If::NotEqual, u16::from_ne_bytes([e, f]).into(), not_plain);
    asm.load(Size::Half, R2, R7, 12);
    asm.jump_if(R2, If::Equal, wire(0x86dd), six);
    asm.jump_if(R2, If::NotEqual, wire(0x0800), not_plain);
    for version in [Four, Six] {
        if version == Six {
            asm.bind(six);
            need(asm, i32::from(Six.payload()), not_plain);
        }
        plain(asm, place, version, not_plain);
        acl::judge(asm, place, version, &denied, not_plain);
        match &place.functions.router {
            Some(router) => router::send_on(asm, place, router, version, &leaving),
            None => asm.jump(leaving.to(HookCounter::Permitted)),
        }
    }
    // The verifier takes no instructions that nothing leads to.
    for (number, label) in denied.into_iter().enumerate() {
        if !asm.is_wanted(label) {
            continue;
        }
        asm.bind(label);
        count_decided(asm, place, number + 1);
        asm.alu(Alu::Move, R0, XDP_DROP);
        asm.exit();
    }
    let counted = asm.label();
    for why in HookCounter::ALL {
        if !asm.is_wanted(leaving.to(why)) {
            continue;
        }
        asm.bind(leaving.to(why));
        asm.alu(Alu::Move, R9, why as i32);
        asm.jump(counted);
    }
    asm.bind(counted);
    asm.store(Size::Word, R10, PLACE, R9);
    count(asm, place, PLACE);
    asm.jump(slice);
}

/// The whole program where there is no filter.
pub(in crate::xdp) fn assemble(place: &Place<'_>, sockets_fd: i32) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    let slice = asm.label();
    asm.alu_register(Alu::Move, R6, R1);
    decide(&mut asm, place, slice);
    asm.bind(slice);
    redirect(&mut asm, sockets_fd);
    asm.finish()
}

/// Goes to `not_plain` unless the packet at R7 is one without anything to ponder, of which the
/// frame holds no more than the padding of a short one. Uses R1 to R5.
fn plain(asm: &mut Assembler, place: &Place<'_>, version: Version, not_plain: Label) {
    asm.load(Size::Byte, R2, R7, LINK);
    match version {
        Four => {
            // No options (RFC 791 section 3.1), no fragment, no bit that nobody knows.
            asm.jump_if(R2, If::NotEqual, 0x45, not_plain);
            asm.load(Size::Half, R2, R7, LINK + 6);
            asm.jump_if(R2, If::AnyBit, wire(0xbfff), not_plain);
            header_checksum(asm, not_plain);
        }
        Six => {
            asm.alu(Alu::ShiftRight, R2, 4);
            asm.jump_if(R2, If::NotEqual, 6, not_plain);
            // RFC 8200 section 4, RFC 4302: somebody has to read on.
            asm.load(Size::Byte, R2, R7, version.protocol());
            for extension in [0, 43, 44, 51, 60] {
                asm.jump_if(R2, If::Equal, extension, not_plain);
            }
        }
    }
    length(asm, version, not_plain);
    for at in [version.source(), version.destination()] {
        asm.load(Size::Byte, R2, R7, at);
        match version {
            Four => {
                // RFC 1122 section 3.2.1.3, RFC 5771, and what is reserved.
                asm.jump_if(R2, If::Equal, 0, not_plain);
                asm.jump_if(R2, If::Equal, 127, not_plain);
                asm.jump_if(R2, If::GreaterOrEqual, 224, not_plain);
            }
            Six => {
                // Groups; link-local; and where half of it is zero, `::`, `::1`, mapped addresses.
                asm.jump_if(R2, If::GreaterOrEqual, 0xfe, not_plain);
                asm.load(Size::Word, R2, R7, at);
                asm.load(Size::Word, R3, R7, at + 4);
                asm.alu_register(Alu::Or, R2, R3);
                asm.jump_if(R2, If::Equal, 0, not_plain);
            }
        }
    }
    let liars = place.functions.router.iter().flat_map(|router| &router.liars);
    for words in liars.filter_map(|address| version.words(*address)) {
        let other = asm.label();
        for (word, at) in words.into_iter().zip((version.source()..).step_by(4)) {
            asm.load(Size::Word, R2, R7, at);
            asm.jump_if32(R2, If::NotEqual, word, other);
        }
        asm.jump(not_plain);
        asm.bind(other);
    }
}

/// Goes to `not_plain` unless the sum of the IPv4 header is right. Uses R2 and R3.
fn header_checksum(asm: &mut Assembler, not_plain: Label) {
    asm.alu(Alu::Move, R2, 0);
    for at in (LINK..Four.payload()).step_by(2) {
        asm.load(Size::Half, R3, R7, at);
        asm.alu_register(Alu::Add, R2, R3);
    }
    fold(asm, R2, R3);
    asm.jump_if(R2, If::NotEqual, 0xffff, not_plain);
}

/// Goes to `not_plain` unless the frame holds the whole packet, and nothing behind it but what
/// makes a frame of 60 bytes of a shorter one. R4 is then the bytes of the packet. Uses R2 and R3.
fn length(asm: &mut Assembler, version: Version, not_plain: Label) {
    /// IEEE 802.3 section 3.2.7, without the checksum.
    const FRAME_MIN: i32 = 60;
    let fits = asm.label();
    asm.load(Size::Half, R4, R7, LINK + if version == Four { 2 } else { 4 });
    asm.turn_big_endian(R4, 16);
    match version {
        Four => asm.jump_if(R4, If::Less, Four.header_bytes().into(), not_plain),
        Six => asm.alu(Alu::Add, R4, Six.header_bytes().into()),
    }
    asm.alu_register(Alu::Move, R2, R8);
    asm.alu_register(Alu::Subtract, R2, R7);
    asm.alu_register(Alu::Move, R3, R4);
    asm.alu(Alu::Add, R3, LINK.into());
    asm.jump_if_register(R2, If::Equal, R3, fits);
    asm.jump_if_register(R3, If::Greater, R2, not_plain);
    asm.jump_if(R2, If::Greater, FRAME_MIN, not_plain);
    asm.bind(fits);
}

#[cfg(test)]
mod tests;
