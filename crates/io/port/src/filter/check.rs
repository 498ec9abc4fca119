//! What must hold of a program before it may run: as `bpf_check_classic` of the kernel, but for
//! jumps backwards, which libpcap makes for chains of headers.

use super::opcode::{Arithmetic, Operand, Operation, decode};
use super::{INSTRUCTIONS_MAX, Instruction};

/// Whether `program` may run; why not.
pub(super) fn check(program: &[Instruction]) -> Result<(), String> {
    let len = program.len();
    if len > INSTRUCTIONS_MAX {
        return Err(format!("it has {len} instructions, and {INSTRUCTIONS_MAX} is the limit"));
    }
    let Some(last) = program.last() else {
        return Err("it has no instructions".to_owned());
    };
    if !matches!(decode(last), Some(Operation::Return(_))) {
        return Err("its end is no return".to_owned());
    }
    for (at, instruction) in program.iter().enumerate() {
        let bad = |what: &str| Err(format!("instruction {at} {what}"));
        let Some(operation) = decode(instruction) else {
            return bad("is none of classic BPF");
        };
        let is_inside = |distance: i64| (0..len as i64).contains(&(at as i64 + 1 + distance));
        match operation {
            Operation::Jump(distance) if !is_inside(distance.into()) => {
                return bad("leaves the program");
            }
            Operation::JumpIf { if_true, if_false, .. }
                if !is_inside(if_true.into()) || !is_inside(if_false.into()) =>
            {
                return bad("leaves the program");
            }
            Operation::Compute(Arithmetic::Divide | Arithmetic::Modulo, Operand::Constant(0)) => {
                return bad("divides by zero");
            }
            Operation::Compute(
                Arithmetic::ShiftLeft | Arithmetic::ShiftRight,
                Operand::Constant(32..),
            ) => return bad("shifts by more bits than there are"),
            _ => {}
        }
    }
    Ok(())
}
