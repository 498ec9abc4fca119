//! Rules in the hook: each holds a packet against what it wants, and the first that has it decides.

use std::net::IpAddr;

use super::super::super::asm::{Alu, Assembler, If, Label, Register, Size};
use super::place::{Place, Version, decided};
use crate::hook::{HookAcl, HookRule};

use Register::{R1, R2, R3, R4, R5, R7, R8, R10};

/// Protocols with ports: TCP, UDP, DCCP, SCTP and UDP-Lite.
const WITH_PORTS: [i32; 5] = [6, 17, 33, 132, 136];

/// Goes on behind this if all acls let the packet at R7 pass, which has `R4` bytes and nothing to
/// ponder; else to the place in `denied` of the one that does not. On the stack is then what each
/// of them has decided by. Uses R1 to R5.
pub(super) fn judge(
    asm: &mut Assembler,
    place: &Place<'_>,
    version: Version,
    denied: &[Label],
    not_plain: Label,
) {
    let acls = &place.functions.acls;
    if acls.is_empty() {
        return;
    }
    ports(asm, version, not_plain);
    for (number, (acl, denied)) in acls.iter().zip(denied).enumerate() {
        let first = place.functions.first_counter(number);
        judge_one(asm, acl, version, (decided(number), first), *denied);
    }
}

/// Puts the protocol into R4, whether it has ports into R1, and those into R3 and R5, the sender's
/// first. R4 is the bytes of the packet. Uses R2.
fn ports(asm: &mut Assembler, version: Version, not_plain: Label) {
    const PORTS_BYTES: i16 = 4;
    let (has_ports, end) = (asm.label(), asm.label());
    asm.load(Size::Byte, R5, R7, version.protocol());
    for protocol in WITH_PORTS {
        asm.jump_if(R5, If::Equal, protocol, has_ports);
    }
    asm.alu_register(Alu::Move, R4, R5);
    for register in [R1, R3, R5] {
        asm.alu(Alu::Move, register, 0);
    }
    asm.jump(end);
    asm.bind(has_ports);
    // A packet that ends before its ports.
    asm.jump_if(R4, If::Less, (version.header_bytes() + PORTS_BYTES).into(), not_plain);
    asm.alu_register(Alu::Move, R4, R5);
    asm.alu_register(Alu::Move, R2, R7);
    asm.alu(Alu::Add, R2, (version.payload() + PORTS_BYTES).into());
    asm.jump_if_register(R2, If::Greater, R8, not_plain);
    for (register, at) in [(R3, version.payload()), (R5, version.payload() + 2)] {
        asm.load(Size::Half, register, R7, at);
        asm.turn_big_endian(register, 16);
    }
    asm.alu(Alu::Move, R1, 1);
    asm.bind(end);
}

fn judge_one(
    asm: &mut Assembler,
    acl: &HookAcl,
    version: Version,
    (decided, first): (i16, u32),
    denied: Label,
) {
    let permitted = asm.label();
    for (rule, place) in acl.rules.iter().zip(first + 1..) {
        let miss = asm.label();
        if !match_rule(asm, rule, version, miss) {
            continue;
        }
        // One that asks nothing of packets of this version decides about all that come to it.
        let is_for_all = !asm.is_wanted(miss);
        asm.store_value(Size::Word, R10, decided, place.cast_signed());
        match rule.denies {
            true if is_for_all => deny_all(asm, permitted, denied),
            true => asm.jump(denied),
            false => asm.jump(permitted),
        }
        asm.bind(miss);
        if is_for_all {
            asm.bind(permitted);
            return;
        }
    }
    asm.store_value(Size::Word, R10, decided, first.cast_signed());
    if acl.denies {
        deny_all(asm, permitted, denied);
    }
    asm.bind(permitted);
}

/// Goes to `denied` in a way that leaves the verifier one to what follows: it takes no program with
/// instructions that nothing leads to. Uses R2.
fn deny_all(asm: &mut Assembler, permitted: Label, denied: Label) {
    asm.alu32(Alu::Move, R2, 0);
    asm.jump_if32(R2, If::Equal, 0, denied);
    asm.jump(permitted);
}

/// Goes to `miss` unless the packet matches; false: no packet of that version does.
fn match_rule(asm: &mut Assembler, rule: &HookRule, version: Version, miss: Label) -> bool {
    let HookRule { denies: _, source, destination, protocol, source_ports, destination_ports } =
        *rule;
    let mut words = Vec::new();
    for (prefix, at) in [(source, version.source()), (destination, version.destination())] {
        let Some((address, bits)) = prefix else { continue };
        let Some(of_version) = masked(version, address, bits) else { return false };
        words.extend(of_version.into_iter().zip((at..).step_by(4)));
    }
    for ((word, mask), at) in words {
        if mask == 0 {
            continue;
        }
        asm.load(Size::Word, R2, R7, at);
        if mask != u32::MAX {
            asm.alu32(Alu::And, R2, mask);
        }
        asm.jump_if32(R2, If::NotEqual, word, miss);
    }
    if let Some(protocol) = protocol {
        asm.jump_if(R4, If::NotEqual, protocol.into(), miss);
    }
    if source_ports.is_some() || destination_ports.is_some() {
        asm.jump_if(R1, If::Equal, 0, miss);
    }
    for (range, register) in [(source_ports, R3), (destination_ports, R5)] {
        if let Some((first, last)) = range {
            asm.jump_if(register, If::Less, first.into(), miss);
            asm.jump_if(register, If::Greater, last.into(), miss);
        }
    }
    true
}

/// The words of a prefix and their masks, as they lie in memory; nothing for the other version.
fn masked(version: Version, address: IpAddr, bits: u8) -> Option<Vec<(u32, u32)>> {
    let masks = (0..4).map(|word| {
        let left = u32::from(bits).saturating_sub(32 * word).min(32);
        u32::MAX.checked_shl(32 - left).unwrap_or(0).to_be()
    });
    Some(version.words(address)?.into_iter().zip(masks).map(|(w, m)| (w & m, m)).collect())
}
