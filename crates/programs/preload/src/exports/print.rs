//! dprintf(3): its arguments are laid out as vdprintf(3) takes them, which [`super`] defines.
//!
//! Rust cannot define functions that take any number of arguments; what C compilers do at the start
//! of one is written out here.

use libc::{c_char, c_int};

use super::{__vdprintf_chk, vdprintf};

/// `dprintf` of libc.
///
/// # Safety
/// As for libc's.
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn dprintf(fd: c_int, format: *const c_char) -> c_int {
    core::arch::naked_asm!(
        "sub rsp, 216",
        // The registers, where va_arg looks for them.
        "mov [rsp + 48], rdx",
        "mov [rsp + 56], rcx",
        "mov [rsp + 64], r8",
        "mov [rsp + 72], r9",
        "test al, al",
        "je 2f",
        "movaps [rsp + 80], xmm0",
        "movaps [rsp + 96], xmm1",
        "movaps [rsp + 112], xmm2",
        "movaps [rsp + 128], xmm3",
        "movaps [rsp + 144], xmm4",
        "movaps [rsp + 160], xmm5",
        "movaps [rsp + 176], xmm6",
        "movaps [rsp + 192], xmm7",
        "2:",
        // The list: two whole registers are used up, no vector register; then come the arguments on
        // the stack, and the registers above.
        "mov dword ptr [rsp + 8], 16",
        "mov dword ptr [rsp + 12], 48",
        "lea rax, [rsp + 224]",
        "mov [rsp + 16], rax",
        "lea rax, [rsp + 32]",
        "mov [rsp + 24], rax",
        "lea rdx, [rsp + 8]",
        "call {served}",
        "add rsp, 216",
        "ret",
        served = sym vdprintf,
    )
}

/// `__dprintf_chk` of libc.
///
/// # Safety
/// As for libc's.
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn __dprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
) -> c_int {
    core::arch::naked_asm!(
        "sub rsp, 216",
        "mov [rsp + 56], rcx",
        "mov [rsp + 64], r8",
        "mov [rsp + 72], r9",
        "test al, al",
        "je 2f",
        "movaps [rsp + 80], xmm0",
        "movaps [rsp + 96], xmm1",
        "movaps [rsp + 112], xmm2",
        "movaps [rsp + 128], xmm3",
        "movaps [rsp + 144], xmm4",
        "movaps [rsp + 160], xmm5",
        "movaps [rsp + 176], xmm6",
        "movaps [rsp + 192], xmm7",
        "2:",
        // As above, with three registers used up.
        "mov dword ptr [rsp + 8], 24",
        "mov dword ptr [rsp + 12], 48",
        "lea rax, [rsp + 224]",
        "mov [rsp + 16], rax",
        "lea rax, [rsp + 32]",
        "mov [rsp + 24], rax",
        "lea rcx, [rsp + 8]",
        "call {served}",
        "add rsp, 216",
        "ret",
        served = sym __vdprintf_chk,
    )
}

/// `dprintf` of libc.
///
/// # Safety
/// As for libc's.
#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn dprintf(fd: c_int, format: *const c_char) -> c_int {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "sub sp, sp, #224",
        "stp x2, x3, [sp, #48]",
        "stp x4, x5, [sp, #64]",
        "stp x6, x7, [sp, #80]",
        "stp q0, q1, [sp, #96]",
        "stp q2, q3, [sp, #128]",
        "stp q4, q5, [sp, #160]",
        "stp q6, q7, [sp, #192]",
        // The list: the arguments on the stack, the ends of both kinds of registers, and how far
        // before them the first ones are.
        "add x9, sp, #240",
        "str x9, [sp]",
        "add x9, sp, #96",
        "str x9, [sp, #8]",
        "add x9, sp, #224",
        "str x9, [sp, #16]",
        "mov w9, #-48",
        "str w9, [sp, #24]",
        "mov w9, #-128",
        "str w9, [sp, #28]",
        "mov x2, sp",
        "bl {served}",
        "add sp, sp, #224",
        "ldp x29, x30, [sp], #16",
        "ret",
        served = sym vdprintf,
    )
}

/// `__dprintf_chk` of libc.
///
/// # Safety
/// As for libc's.
#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn __dprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
) -> c_int {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "sub sp, sp, #224",
        "str x3, [sp, #56]",
        "stp x4, x5, [sp, #64]",
        "stp x6, x7, [sp, #80]",
        "stp q0, q1, [sp, #96]",
        "stp q2, q3, [sp, #128]",
        "stp q4, q5, [sp, #160]",
        "stp q6, q7, [sp, #192]",
        "add x9, sp, #240",
        "str x9, [sp]",
        "add x9, sp, #96",
        "str x9, [sp, #8]",
        "add x9, sp, #224",
        "str x9, [sp, #16]",
        "mov w9, #-40",
        "str w9, [sp, #24]",
        "mov w9, #-128",
        "str w9, [sp, #28]",
        "mov x3, sp",
        "bl {served}",
        "add sp, sp, #224",
        "ldp x29, x30, [sp], #16",
        "ret",
        served = sym __vdprintf_chk,
    )
}
