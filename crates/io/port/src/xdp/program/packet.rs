//! What the parts of the program share: the packet, and the key on the stack.

use super::super::asm::Register::{R0, R1, R2, R7, R8, R10};
use super::super::asm::{Alu, Assembler, If, Label};
use super::super::flows;
use super::super::ours::KEY_BYTES;

/// A helper function of the kernel, by number (linux/bpf.h).
pub(super) const MAP_LOOKUP_ELEM: i32 = 1;

/// Offsets in struct xdp_md (linux/bpf.h).
pub(super) const CTX_DATA: i16 = 0;
pub(super) const CTX_DATA_END: i16 = 4;

pub(super) const ETHERNET_BYTES: i32 = 14;

/// Where the lookup key lies on the stack: that of a connection, which begins with that of a
/// destination.
pub(super) const KEY: i16 = -40;
const _: () = assert!(KEY_BYTES <= 20 && flows::KEY_BYTES == 40);

/// Goes to `pass` unless `bytes` more of the packet are there from R7 on. Uses R1.
pub(super) fn need(asm: &mut Assembler, bytes: i32, pass: Label) {
    asm.alu_register(Alu::Move, R1, R7);
    asm.alu(Alu::Add, R1, bytes);
    asm.jump_if_register(R1, If::Greater, R8, pass);
}

/// Goes to `hit` if the key on the stack is in the map. Uses R0 to R5.
pub(super) fn look(asm: &mut Assembler, ours_fd: i32, hit: Label) {
    asm.load_map(R1, ours_fd);
    asm.alu_register(Alu::Move, R2, R10);
    asm.alu(Alu::Add, R2, i32::from(KEY));
    asm.call(MAP_LOOKUP_ELEM);
    asm.jump_if(R0, If::NotEqual, 0, hit);
}
