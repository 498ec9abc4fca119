//! Ports at which the kernel may still have connections of its own.

use super::super::asm::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R10};
use super::super::asm::{Alu, Assembler, If, Label, Size};
use super::super::flows;
use super::super::ours::{TAKE_ALL, key};
use super::packet::KEY;

/// Helper functions of the kernel, by number (linux/bpf.h).
const SK_RELEASE: i32 = 86;
const SKC_LOOKUP_TCP: i32 = 99;

/// Says to look in the network namespace of the packet's interface.
const BPF_F_CURRENT_NETNS: i32 = -1;
/// Offset in struct bpf_sock.
const SOCK_STATE: i16 = 72;
/// The kernel's listener is beside ours at any such port (include/net/tcp_states.h).
const TCP_LISTEN: i32 = 10;
/// Nobody has answered: any user may say so of any peer, and draw its packets to itself.
const TCP_SYN_SENT: i32 = 2;

/// Where a struct bpf_sock_tuple lies on the stack: addresses, then ports, the sender's first.
const TUPLE: i16 = KEY - 40;
const _: () = assert!(TUPLE_IPV6_BYTES <= 40);
const TUPLE_IPV4_BYTES: i32 = 12;
const TUPLE_IPV6_BYTES: i32 = 36;

/// Goes to `hit` if the value at R0 says so or the kernel has no connection of the ends in the key,
/// else to `pass`. R6 is the context. Uses R0 to R5 and R7.
pub(super) fn leave_to_kernel(asm: &mut Assembler, hit: Label, pass: Label) {
    let (ipv6, ask) = (asm.label(), asm.label());
    asm.load(Size::Word, R2, R0, 0);
    asm.jump_if(R2, If::Equal, TAKE_ALL as i32, hit);
    asm.load(Size::Byte, R2, R10, KEY + key::FAMILY);
    asm.jump_if(R2, If::Equal, 6, ipv6);
    tuple(asm, 4);
    asm.alu(Alu::Move, R3, TUPLE_IPV4_BYTES);
    asm.jump(ask);
    asm.bind(ipv6);
    tuple(asm, 16);
    asm.alu(Alu::Move, R3, TUPLE_IPV6_BYTES);

    asm.bind(ask);
    asm.alu_register(Alu::Move, R1, R6);
    asm.alu_register(Alu::Move, R2, R10);
    asm.alu(Alu::Add, R2, i32::from(TUPLE));
    asm.alu(Alu::Move, R4, BPF_F_CURRENT_NETNS);
    asm.alu(Alu::Move, R5, 0);
    asm.call(SKC_LOOKUP_TCP);
    asm.jump_if(R0, If::Equal, 0, hit);
    asm.load(Size::Word, R7, R0, SOCK_STATE);
    asm.alu_register(Alu::Move, R1, R0);
    asm.call(SK_RELEASE);
    asm.jump_if(R7, If::Equal, TCP_LISTEN, hit);
    asm.jump_if(R7, If::Equal, TCP_SYN_SENT, hit);
    asm.jump(pass);
}

/// Writes the ends in the key, of `address_bytes` each, as a tuple. Uses R2.
fn tuple(asm: &mut Assembler, address_bytes: i16) {
    let addresses = [flows::key::REMOTE_ADDRESS, key::ADDRESS];
    for (at, from) in (0i16..).zip(addresses) {
        for part in (0..address_bytes).step_by(4) {
            asm.load(Size::Word, R2, R10, KEY + from + part);
            asm.store(Size::Word, R10, TUPLE + at * address_bytes + part, R2);
        }
    }
    for (at, from) in (0i16..).zip([flows::key::REMOTE_PORT, key::PORT]) {
        asm.load(Size::Half, R2, R10, KEY + from);
        asm.store(Size::Half, R10, TUPLE + 2 * address_bytes + 2 * at, R2);
    }
}
