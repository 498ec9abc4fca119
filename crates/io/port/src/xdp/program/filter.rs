//! A filter as an XDP program: classic BPF translated to eBPF, one instruction after the other.
//!
//! What the filter wants goes to the socket of the packet's queue, all else to the kernel. Classic
//! registers have 32 bits, and so have the operations here; a load is checked against the packet's
//! end, and one from beyond it means "not wanted" as in the kernel's own filters.

use super::super::asm::{Alu, Assembler, If, Instruction, Label, Register as Machine, Size};
use super::super::if_xdp::XDP_PASS;
use super::hook::{self, Place};
use super::{CTX_DATA, CTX_DATA_END, redirect};
use crate::filter::opcode::{
    Arithmetic, Compare, From, MEMORY_WORDS, Operand, Operation, Register, Taken, Width, decode,
};
use Machine::{R0, R1, R2, R5, R6, R7, R8, R9, R10};

/// A and X of classic BPF.
const ACCUMULATOR: Machine = R7;
const INDEX: Machine = R8;
/// The packet's first byte and what is behind its last.
const DATA: Machine = R9;
const DATA_END: Machine = R5;

/// Where scratch memory lies on the stack.
const MEMORY: i16 = -4 * MEMORY_WORDS as i16;

/// A longer classic program would jump further than eBPF can.
const INSTRUCTIONS_MAX: usize = 2048;

/// The verifier knows no packet longer than 64 KiB; no XDP packet reaches so far.
const OFFSET_MAX: u32 = 0xfff0;
/// Offsets up to here fit into a load.
const NEAR_MAX: u32 = 0x7ff0;

/// The XDP program of a checked filter over the map of sockets by queue. What a `hook` can finish
/// of the packets that are wanted never comes to a socket.
///
/// # Errors
/// Why it cannot be translated.
pub(in crate::xdp) fn assemble(
    filter: &[crate::filter::Instruction],
    hook: Option<&Place<'_>>,
    sockets_fd: i32,
) -> Result<Vec<Instruction>, String> {
    if filter.len() > INSTRUCTIONS_MAX {
        return Err(format!("it has more than {INSTRUCTIONS_MAX} instructions"));
    }
    let operations: Vec<Operation> =
        filter.iter().map(decode).collect::<Option<_>>().ok_or("it is no classic BPF")?;
    let mut asm = Assembler::default();
    let (wanted, other) = (asm.label(), asm.label());
    begin(&mut asm, &operations, other);
    let places: Vec<Label> = operations.iter().map(|_| asm.label()).collect();
    for (at, operation) in operations.iter().enumerate() {
        asm.bind(places[at]);
        // The program is checked: no distance leads out of it.
        let place = |distance: usize| places[at + 1 + distance];
        match *operation {
            Operation::Load(Register::Accumulator, from) => {
                load(&mut asm, ACCUMULATOR, from, other)
            }
            Operation::Load(Register::Index, from) => load(&mut asm, INDEX, from, other),
            Operation::Store(Register::Accumulator, word) => {
                asm.store(Size::Word, R10, memory(word), ACCUMULATOR);
            }
            Operation::Store(Register::Index, word) => {
                asm.store(Size::Word, R10, memory(word), INDEX);
            }
            Operation::Compute(arithmetic, with) => compute(&mut asm, arithmetic, with, other),
            Operation::Negate => asm.alu32(Alu::Negate, ACCUMULATOR, 0),
            Operation::Jump(distance) => {
                let distance = usize::try_from(distance).map_err(|_| "it has a loop")?;
                asm.jump(place(distance));
            }
            Operation::JumpIf { compare, with, if_true, if_false } => {
                let (if_true, if_false) = (usize::from(if_true), usize::from(if_false));
                jump_if(&mut asm, compare, with, place(if_true));
                // No distance is the instruction that follows anyhow.
                if if_false > 0 {
                    asm.jump(place(if_false));
                }
            }
            Operation::ToIndex => asm.alu32_register(Alu::Move, INDEX, ACCUMULATOR),
            Operation::ToAccumulator => asm.alu32_register(Alu::Move, ACCUMULATOR, INDEX),
            Operation::Return(Taken::Constant(0)) => asm.jump(other),
            Operation::Return(Taken::Constant(_)) => asm.jump(wanted),
            Operation::Return(Taken::Accumulator) => {
                asm.jump_if32(ACCUMULATOR, If::Equal, 0, other);
                asm.jump(wanted);
            }
        }
    }
    asm.bind(wanted);
    if let Some(hook) = hook {
        let slice = asm.label();
        hook::decide(&mut asm, hook, slice);
        asm.bind(slice);
    }
    redirect(&mut asm, sockets_fd);
    asm.bind(other);
    asm.alu(Alu::Move, R0, XDP_PASS);
    asm.exit();
    Ok(asm.finish())
}

/// Registers and scratch memory begin as zero.
fn begin(asm: &mut Assembler, operations: &[Operation], other: Label) {
    asm.alu_register(Alu::Move, R6, R1);
    asm.load(Size::Word, DATA, R6, CTX_DATA);
    asm.load(Size::Word, DATA_END, R6, CTX_DATA_END);
    asm.alu32(Alu::Move, ACCUMULATOR, 0);
    asm.alu32(Alu::Move, INDEX, 0);
    // No packet ends before it begins; but the verifier wants a way to each instruction, and a
    // filter that takes everything has no other to the end.
    asm.jump_if_register(DATA, If::Greater, DATA_END, other);
    let reads = |word| {
        let read = |operation: &Operation| matches!(operation, Operation::Load(_, From::Memory(other)) if *other == word);
        operations.iter().any(read)
    };
    for word in (0..MEMORY_WORDS).filter(|&word| reads(word)) {
        asm.store_value(Size::Word, R10, memory(word), 0);
    }
}

fn memory(word: usize) -> i16 {
    MEMORY + 4 * word as i16
}

fn load(asm: &mut Assembler, to: Machine, from: From, other: Label) {
    match from {
        From::Constant(value) => asm.alu32(Alu::Move, to, value),
        From::Packet { at, width } => packet(asm, to, at, width, other),
        From::Indexed { at, width } => indexed(asm, to, at, width, other),
        From::HeaderLength { at } => {
            packet(asm, to, at, Width::Byte, other);
            asm.alu32(Alu::And, to, 15);
            asm.alu32(Alu::ShiftLeft, to, 2);
        }
        From::PacketLength => {
            asm.alu_register(Alu::Move, to, DATA_END);
            asm.alu_register(Alu::Subtract, to, DATA);
        }
        From::Memory(word) => asm.load(Size::Word, to, R10, memory(word)),
    }
}

/// `to = packet[at..]`, or on to `other`. Uses R1 and R2.
fn packet(asm: &mut Assembler, to: Machine, at: u32, width: Width, other: Label) {
    if at > OFFSET_MAX {
        beyond(asm, other);
        return;
    }
    let (base, offset) = if at > NEAR_MAX {
        asm.alu_register(Alu::Move, R2, DATA);
        asm.alu(Alu::Add, R2, at as i32);
        (R2, 0)
    } else {
        (DATA, at)
    };
    asm.alu_register(Alu::Move, R1, base);
    asm.alu(Alu::Add, R1, offset as i32 + width as i32);
    asm.jump_if_register(R1, If::Greater, DATA_END, other);
    read(asm, to, base, offset as i16, width);
}

/// `to = packet[INDEX + at..]`, or on to `other`. Uses R1 and R2.
fn indexed(asm: &mut Assembler, to: Machine, at: u32, width: Width, other: Label) {
    if at > OFFSET_MAX {
        beyond(asm, other);
        return;
    }
    asm.alu_register(Alu::Move, R2, INDEX);
    asm.alu(Alu::Add, R2, at as i32);
    // The sum has 33 bits; this bounds it for the verifier too.
    asm.jump_if(R2, If::Greater, OFFSET_MAX as i32, other);
    asm.alu_register(Alu::Add, R2, DATA);
    asm.alu_register(Alu::Move, R1, R2);
    asm.alu(Alu::Add, R1, width as i32);
    asm.jump_if_register(R1, If::Greater, DATA_END, other);
    read(asm, to, R2, 0, width);
}

/// On to `other`, in a way that leaves the verifier one to what follows. Uses R1.
fn beyond(asm: &mut Assembler, other: Label) {
    asm.alu32(Alu::Move, R1, 0);
    asm.jump_if32(R1, If::Equal, 0, other);
}

fn read(asm: &mut Assembler, to: Machine, base: Machine, offset: i16, width: Width) {
    match width {
        Width::Byte => asm.load(Size::Byte, to, base, offset),
        Width::Half => {
            asm.load(Size::Half, to, base, offset);
            asm.turn_big_endian(to, 16);
        }
        Width::Word => {
            asm.load(Size::Word, to, base, offset);
            asm.turn_big_endian(to, 32);
        }
    }
}

fn compute(asm: &mut Assembler, arithmetic: Arithmetic, with: Operand, other: Label) {
    let operation = match arithmetic {
        Arithmetic::Add => Alu::Add,
        Arithmetic::Subtract => Alu::Subtract,
        Arithmetic::Multiply => Alu::Multiply,
        Arithmetic::Divide => Alu::Divide,
        Arithmetic::Or => Alu::Or,
        Arithmetic::And => Alu::And,
        Arithmetic::ShiftLeft => Alu::ShiftLeft,
        Arithmetic::ShiftRight => Alu::ShiftRight,
        Arithmetic::Modulo => Alu::Modulo,
        Arithmetic::ExclusiveOr => Alu::ExclusiveOr,
    };
    match with {
        Operand::Constant(value) => asm.alu32(operation, ACCUMULATOR, value),
        Operand::Index => {
            // Dividing by zero is zero in eBPF, and "not wanted" in classic BPF.
            if matches!(arithmetic, Arithmetic::Divide | Arithmetic::Modulo) {
                asm.jump_if32(INDEX, If::Equal, 0, other);
            }
            asm.alu32_register(operation, ACCUMULATOR, INDEX);
        }
    }
}

fn jump_if(asm: &mut Assembler, compare: Compare, with: Operand, label: Label) {
    let compare = match compare {
        Compare::Equal => If::Equal,
        Compare::Greater => If::Greater,
        Compare::GreaterOrEqual => If::GreaterOrEqual,
        Compare::AnyBit => If::AnyBit,
    };
    match with {
        Operand::Constant(value) => asm.jump_if32(ACCUMULATOR, compare, value, label),
        Operand::Index => asm.jump_if32_register(ACCUMULATOR, compare, INDEX, label),
    }
}

#[cfg(test)]
mod tests;
