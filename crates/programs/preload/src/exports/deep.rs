//! dlopen(3): a library is never bound to libc past this one.
//!
//! RTLD_DEEPBIND has a library look for functions in itself and what it needs first, so that what
//! it calls of libc would not come by here, and it would have the kernel's halves, which are not
//! connected.

use libc::{c_char, c_int, c_void};

use crate::system::cell::FunctionCell;

/// Where the real one is.
extern "C" fn real_dlopen() -> *const c_void {
    static PLACE: FunctionCell = FunctionCell::new();
    let found = PLACE.known().or_else(|| PLACE.find(c"dlopen"));
    found.map_or(nothing as *const c_void, <*mut c_void>::cast_const)
}

/// A libc without it loads nothing.
extern "C" fn nothing(_: *const c_char, _: c_int) -> *mut c_void {
    std::ptr::null_mut()
}

/// `dlopen` of libc, without RTLD_DEEPBIND (8). It looks at its caller, whose own path it follows:
/// so it must be entered by a jump.
///
/// # Safety
/// As for libc's.
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(_: *const c_char, _: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {real}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "and esi, -9",
        "jmp rax",
        real = sym real_dlopen,
    )
}

/// `dlopen` of libc, without RTLD_DEEPBIND (8). It looks at its caller, whose own path it follows:
/// so it must be entered by a jump.
///
/// # Safety
/// As for libc's.
#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(_: *const c_char, _: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "stp x0, x1, [sp, #16]",
        "bl {real}",
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "and w1, w1, #0xfffffff7",
        "br x16",
        real = sym real_dlopen,
    )
}
