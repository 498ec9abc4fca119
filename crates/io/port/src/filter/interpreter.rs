//! Runs a checked program over a packet, here.
//!
//! What it answers is what the kernel's would: a load from outside of the packet and a division by
//! zero end it with "not wanted", and shifts look at the low five bits.

use super::Instruction;
use super::opcode::{
    Arithmetic, Compare, From, MEMORY_WORDS, Operand, Operation, Register, Taken, Width, decode,
};

/// Instructions that one packet may cost. A loop over a chain of headers takes some ten for each of
/// them.
const STEPS_MAX: usize = 8192;

/// How many bytes of `packet` the program wants; zero: none.
pub(super) fn run(program: &[Instruction], packet: &[u8]) -> u32 {
    finish(program, packet).unwrap_or(0)
}

fn finish(program: &[Instruction], packet: &[u8]) -> Option<u32> {
    let (mut accumulator, mut index) = (0u32, 0u32);
    let mut memory = [0u32; MEMORY_WORDS];
    let mut at = 0usize;
    for _ in 0..STEPS_MAX {
        let operation = decode(program.get(at)?)?;
        at += 1;
        let value = |with| match with {
            Operand::Constant(value) => value,
            Operand::Index => index,
        };
        match operation {
            Operation::Load(register, from) => {
                let loaded = match from {
                    From::Constant(value) => value,
                    From::Packet { at, width } => read(packet, at.into(), width)?,
                    From::Indexed { at, width } => {
                        read(packet, u64::from(at) + u64::from(index), width)?
                    }
                    From::HeaderLength { at } => (read(packet, at.into(), Width::Byte)? & 15) << 2,
                    From::PacketLength => packet.len() as u32,
                    From::Memory(word) => memory[word],
                };
                match register {
                    Register::Accumulator => accumulator = loaded,
                    Register::Index => index = loaded,
                }
            }
            Operation::Store(Register::Accumulator, word) => memory[word] = accumulator,
            Operation::Store(Register::Index, word) => memory[word] = index,
            Operation::Compute(arithmetic, with) => {
                accumulator = compute(arithmetic, accumulator, value(with))?;
            }
            Operation::Negate => accumulator = accumulator.wrapping_neg(),
            Operation::Jump(distance) => at = at.checked_add_signed(distance as isize)?,
            Operation::JumpIf { compare, with, if_true, if_false } => {
                let holds = holds(compare, accumulator, value(with));
                at += usize::from(if holds { if_true } else { if_false });
            }
            Operation::ToIndex => index = accumulator,
            Operation::ToAccumulator => accumulator = index,
            Operation::Return(Taken::Constant(bytes)) => return Some(bytes),
            Operation::Return(Taken::Accumulator) => return Some(accumulator),
        }
    }
    None
}

fn read(packet: &[u8], at: u64, width: Width) -> Option<u32> {
    let rest = packet.get(usize::try_from(at).ok()?..)?;
    Some(match width {
        Width::Byte => u32::from(*rest.first()?),
        Width::Half => u32::from(u16::from_be_bytes(*rest.first_chunk()?)),
        Width::Word => u32::from_be_bytes(*rest.first_chunk()?),
    })
}

fn compute(arithmetic: Arithmetic, left: u32, right: u32) -> Option<u32> {
    Some(match arithmetic {
        Arithmetic::Add => left.wrapping_add(right),
        Arithmetic::Subtract => left.wrapping_sub(right),
        Arithmetic::Multiply => left.wrapping_mul(right),
        Arithmetic::Divide => left.checked_div(right)?,
        Arithmetic::Or => left | right,
        Arithmetic::And => left & right,
        Arithmetic::ShiftLeft => left.wrapping_shl(right),
        Arithmetic::ShiftRight => left.wrapping_shr(right),
        Arithmetic::Modulo => left.checked_rem(right)?,
        Arithmetic::ExclusiveOr => left ^ right,
    })
}

fn holds(compare: Compare, left: u32, right: u32) -> bool {
    match compare {
        Compare::Equal => left == right,
        Compare::Greater => left > right,
        Compare::GreaterOrEqual => left >= right,
        Compare::AnyBit => left & right != 0,
    }
}
