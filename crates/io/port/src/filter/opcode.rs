//! The opcodes of classic BPF, taken apart (linux/bpf_common.h, linux/filter.h).

use sys::pcap::Instruction;

/// Words of scratch memory (`BPF_MEMWORDS`).
pub(crate) const MEMORY_WORDS: usize = 16;

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A register becomes something.
    Load(Register, From),
    /// A register goes into a word of scratch memory.
    Store(Register, usize),
    /// The accumulator becomes the result.
    Compute(Arithmetic, Operand),
    /// The accumulator is negated.
    Negate,
    /// Goes on elsewhere; the distance may be negative.
    Jump(i32),
    /// Goes on elsewhere, depending on the accumulator.
    JumpIf { compare: Compare, with: Operand, if_true: u8, if_false: u8 },
    /// The index register becomes the accumulator.
    ToIndex,
    /// The accumulator becomes the index register.
    ToAccumulator,
    /// Ends: how many bytes of the packet are wanted.
    Return(Taken),
}

/// One of the two registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    Accumulator,
    Index,
}

/// What a load reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Constant(u32),
    /// Bytes of the packet, big-endian.
    Packet {
        at: u32,
        width: Width,
    },
    /// The same, the index register further on.
    Indexed {
        at: u32,
        width: Width,
    },
    /// Four times the low half of a byte of the packet: the length of an IPv4 header.
    HeaderLength {
        at: u32,
    },
    PacketLength,
    Memory(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Byte = 1,
    Half = 2,
    Word = 4,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    Constant(u32),
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Or,
    And,
    ShiftLeft,
    ShiftRight,
    Modulo,
    ExclusiveOr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    Greater,
    GreaterOrEqual,
    AnyBit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Constant(u32),
    Accumulator,
}

/// What `instruction` does; nothing when it is none, or names scratch memory that there is not.
pub(crate) fn decode(instruction: &Instruction) -> Option<Operation> {
    let &Instruction { code, if_true, if_false, value } = instruction;
    let memory = || usize::try_from(value).ok().filter(|&word| word < MEMORY_WORDS);
    let operand = || if code & 0x08 == 0 { Operand::Constant(value) } else { Operand::Index };
    Some(match code & 0x07 {
        class @ (0x00 | 0x01) => {
            let register = if class == 0 { Register::Accumulator } else { Register::Index };
            Operation::Load(register, load(code & !0x07, register, value, memory)?)
        }
        0x02 if code == 0x02 => Operation::Store(Register::Accumulator, memory()?),
        0x03 if code == 0x03 => Operation::Store(Register::Index, memory()?),
        0x04 if code == 0x84 => Operation::Negate,
        0x04 => Operation::Compute(arithmetic(code & !0x0f)?, operand()),
        0x05 if code == 0x05 => Operation::Jump(value.cast_signed()),
        0x05 => {
            let compare = compare(code & !0x0f)?;
            Operation::JumpIf { compare, with: operand(), if_true, if_false }
        }
        0x06 if code == 0x06 => Operation::Return(Taken::Constant(value)),
        0x06 if code == 0x16 => Operation::Return(Taken::Accumulator),
        0x07 if code == 0x07 => Operation::ToIndex,
        0x07 if code == 0x87 => Operation::ToAccumulator,
        _ => return None,
    })
}

/// `kind` is the mode and the width of a load.
fn load(
    kind: u16,
    register: Register,
    value: u32,
    memory: impl FnOnce() -> Option<usize>,
) -> Option<From> {
    let width = match kind & 0x18 {
        0x00 => Width::Word,
        0x08 => Width::Half,
        0x10 => Width::Byte,
        _ => return None,
    };
    Some(match (kind & 0xe0, register, width) {
        (0x00, _, Width::Word) => From::Constant(value),
        // From here on upwards the kernel has things that are no bytes of a packet.
        (0x20 | 0x40, Register::Accumulator, _) if value >= 0xfff0_0000 => return None,
        (0x20, Register::Accumulator, _) => From::Packet { at: value, width },
        (0x40, Register::Accumulator, _) => From::Indexed { at: value, width },
        (0x60, _, Width::Word) => From::Memory(memory()?),
        (0x80, _, Width::Word) => From::PacketLength,
        (0xa0, Register::Index, Width::Byte) => From::HeaderLength { at: value },
        _ => return None,
    })
}

fn arithmetic(operation: u16) -> Option<Arithmetic> {
    Some(match operation {
        0x00 => Arithmetic::Add,
        0x10 => Arithmetic::Subtract,
        0x20 => Arithmetic::Multiply,
        0x30 => Arithmetic::Divide,
        0x40 => Arithmetic::Or,
        0x50 => Arithmetic::And,
        0x60 => Arithmetic::ShiftLeft,
        0x70 => Arithmetic::ShiftRight,
        0x90 => Arithmetic::Modulo,
        0xa0 => Arithmetic::ExclusiveOr,
        _ => return None,
    })
}

fn compare(operation: u16) -> Option<Compare> {
    Some(match operation {
        0x10 => Compare::Equal,
        0x20 => Compare::Greater,
        0x30 => Compare::GreaterOrEqual,
        0x40 => Compare::AnyBit,
        _ => return None,
    })
}
