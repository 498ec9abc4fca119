//! A tiny assembler for eBPF: instructions with labels, nothing else.
//!
//! Encoding: RFC 9669 (BPF instruction set). Only what the programs here need.

/// One instruction slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    opcode: u8,
    /// Source register in the high half, destination in the low half.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const _: () = assert!(size_of::<Instruction>() == 8);

/// A register: R0 result, R1-R5 arguments (lost in calls), R6-R9 kept, R10 the stack's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Register {
    R0 = 0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Bytes of a load or store, as the opcode's size bits.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Size {
    Word = 0x00,
    Half = 0x08,
    Byte = 0x10,
    Double = 0x18,
}

/// How a jump compares, as the opcode's operation bits. Unsigned.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum If {
    Equal = 0x10,
    Greater = 0x20,
    GreaterOrEqual = 0x30,
    AnyBit = 0x40,
    NotEqual = 0x50,
    Less = 0xa0,
}

/// Arithmetic, as the opcode's operation bits.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Alu {
    Add = 0x00,
    Subtract = 0x10,
    Multiply = 0x20,
    Divide = 0x30,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Negate = 0x80,
    Modulo = 0x90,
    ExclusiveOr = 0xa0,
    Move = 0xb0,
}

/// A place in the program, bound once and jumped to from before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

/// A program under construction.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    instructions: Vec<Instruction>,
    /// Slot each label is bound to.
    labels: Vec<Option<usize>>,
    /// (slot of a jump, its label).
    jumps: Vec<(usize, Label)>,
}

const LDX_MEM: u8 = 0x61;
const ST_MEM: u8 = 0x62;
const STX_MEM: u8 = 0x63;
const ALU32_IMMEDIATE: u8 = 0x04;
const ALU32_REGISTER: u8 = 0x0c;
const TO_BIG_ENDIAN: u8 = 0xdc;
const ALU64_IMMEDIATE: u8 = 0x07;
const ALU64_REGISTER: u8 = 0x0f;
const JUMP_IMMEDIATE: u8 = 0x05;
const JUMP_REGISTER: u8 = 0x0d;
const JUMP32_IMMEDIATE: u8 = 0x06;
const JUMP32_REGISTER: u8 = 0x0e;
const LD_IMM64: u8 = 0x18;
const PSEUDO_MAP_FD: u8 = 1;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

impl Assembler {
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Whether anything jumps to `label` so far.
    pub(super) fn is_wanted(&self, label: Label) -> bool {
        self.jumps.iter().any(|(_, to)| *to == label)
    }

    /// The next instruction is where `label` is.
    pub(super) fn bind(&mut self, label: Label) {
        debug_assert!(self.labels[label.0].is_none(), "a label is one place");
        self.labels[label.0] = Some(self.instructions.len());
    }

    /// `to = *(size *)(from + offset)`
    pub(super) fn load(&mut self, size: Size, to: Register, from: Register, offset: i16) {
        self.push(LDX_MEM | size as u8, to as u8, from as u8, offset, 0);
    }

    /// `*(size *)(to + offset) = from`
    pub(super) fn store(&mut self, size: Size, to: Register, offset: i16, from: Register) {
        self.push(STX_MEM | size as u8, to as u8, from as u8, offset, 0);
    }

    /// `*(size *)(to + offset) = value`
    pub(super) fn store_value(&mut self, size: Size, to: Register, offset: i16, value: i32) {
        self.push(ST_MEM | size as u8, to as u8, 0, offset, value);
    }

    /// `to = to operation value`
    pub(super) fn alu(&mut self, operation: Alu, to: Register, value: i32) {
        self.push(ALU64_IMMEDIATE | operation as u8, to as u8, 0, 0, value);
    }

    /// `to = to operation from`
    pub(super) fn alu_register(&mut self, operation: Alu, to: Register, from: Register) {
        self.push(ALU64_REGISTER | operation as u8, to as u8, from as u8, 0, 0);
    }

    /// The same with the low 32 bits, which leaves the high ones zero.
    pub(super) fn alu32(&mut self, operation: Alu, to: Register, value: u32) {
        let value = value.cast_signed();
        self.push(ALU32_IMMEDIATE | operation as u8, to as u8, 0, 0, value);
    }

    /// The same with a register.
    pub(super) fn alu32_register(&mut self, operation: Alu, to: Register, from: Register) {
        self.push(ALU32_REGISTER | operation as u8, to as u8, from as u8, 0, 0);
    }

    /// Turns the low `bits` (16 or 32) from the network's order into the machine's.
    pub(super) fn turn_big_endian(&mut self, to: Register, bits: i32) {
        self.push(TO_BIG_ENDIAN, to as u8, 0, 0, bits);
    }

    pub(super) fn jump(&mut self, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(JUMP_IMMEDIATE, 0, 0, 0, 0);
    }

    /// Goes to `label` if `left` compares so with `value`.
    pub(super) fn jump_if(&mut self, left: Register, compare: If, value: i32, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(JUMP_IMMEDIATE | compare as u8, left as u8, 0, 0, value);
    }

    /// The same with a register.
    pub(super) fn jump_if_register(
        &mut self,
        left: Register,
        compare: If,
        right: Register,
        label: Label,
    ) {
        self.jumps.push((self.instructions.len(), label));
        self.push(JUMP_REGISTER | compare as u8, left as u8, right as u8, 0, 0);
    }

    /// The same as [`Self::jump_if`] with the low 32 bits.
    pub(super) fn jump_if32(&mut self, left: Register, compare: If, value: u32, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(JUMP32_IMMEDIATE | compare as u8, left as u8, 0, 0, value.cast_signed());
    }

    /// The same with a register.
    pub(super) fn jump_if32_register(
        &mut self,
        left: Register,
        compare: If,
        right: Register,
        label: Label,
    ) {
        self.jumps.push((self.instructions.len(), label));
        self.push(JUMP32_REGISTER | compare as u8, left as u8, right as u8, 0, 0);
    }

    /// `to = the map behind descriptor fd`; two slots.
    pub(super) fn load_map(&mut self, to: Register, fd: i32) {
        self.push(LD_IMM64, to as u8, PSEUDO_MAP_FD, 0, fd);
        self.push(0, 0, 0, 0, 0);
    }

    /// Calls a helper function of the kernel by its number in linux/bpf.h.
    pub(super) fn call(&mut self, helper: i32) {
        self.push(CALL, 0, 0, 0, helper);
    }

    pub(super) fn exit(&mut self) {
        self.push(EXIT, 0, 0, 0, 0);
    }

    /// The program, every jump resolved.
    pub(super) fn finish(self) -> Vec<Instruction> {
        let Self { mut instructions, labels, jumps } = self;
        for (slot, label) in jumps {
            let target = labels[label.0].expect("every label that is jumped to is bound");
            let distance = target as isize - (slot as isize + 1);
            instructions[slot].offset =
                i16::try_from(distance).expect("programs are shorter than 32,768 slots");
        }
        instructions
    }

    fn push(&mut self, opcode: u8, to: u8, from: u8, offset: i16, immediate: i32) {
        self.instructions.push(Instruction {
            opcode,
            registers: from << 4 | to,
            offset,
            immediate,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_encoded_as_the_kernel_reads_them() {
        let mut asm = Assembler::default();
        let end = asm.label();
        asm.load(Size::Half, Register::R2, Register::R7, 12);
        asm.jump_if(Register::R2, If::NotEqual, 8, end);
        asm.store_value(Size::Double, Register::R10, -24, 0);
        asm.load_map(Register::R1, 5);
        asm.bind(end);
        asm.exit();
        let bytes: Vec<[u8; 8]> = asm
            .finish()
            .iter()
            .map(|i| {
                let [a, b] = i.offset.to_le_bytes();
                let [c, d, e, f] = i.immediate.to_le_bytes();
                [i.opcode, i.registers, a, b, c, d, e, f]
            })
            .collect();
        assert_eq!(
            bytes,
            [
                [0x69, 0x72, 12, 0, 0, 0, 0, 0],
                [0x55, 0x02, 3, 0, 8, 0, 0, 0],
                [0x7a, 0x0a, 0xe8, 0xff, 0, 0, 0, 0],
                [0x18, 0x11, 0, 0, 5, 0, 0, 0],
                [0, 0, 0, 0, 0, 0, 0, 0],
                [0x95, 0, 0, 0, 0, 0, 0, 0],
            ]
        );
    }
}
