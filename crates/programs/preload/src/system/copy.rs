//! Copies between our memory and the program's, whose addresses may be wrong: a fault becomes
//! EFAULT, as it would in the kernel.
//!
//! The routine touches no stack and calls nothing, so that the signal handler that finds the
//! processor inside it ([`crate::system::faults`]) can let it return "failed" from any instruction.

use rustix::io::Errno;

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .text.calisto_copy,\"ax\",@progbits",
    ".hidden calisto_copy",
    ".hidden calisto_copy_end",
    ".hidden calisto_copy_fault",
    ".globl calisto_copy",
    ".globl calisto_copy_end",
    ".globl calisto_copy_fault",
    ".p2align 4",
    ".type calisto_copy,@function",
    "calisto_copy:",
    // rdi: to, rsi: from, rdx: bytes; eax: 0 if all of it was copied.
    "xor eax, eax",
    "mov rcx, rdx",
    // From here on the processor's own loop is the fastest there is.
    "cmp rdx, 512",
    "jae 6f",
    "cmp rdx, 16",
    "jb 3f",
    "2:",
    "movups xmm0, [rsi]",
    "movups [rdi], xmm0",
    "add rsi, 16",
    "add rdi, 16",
    "sub rcx, 16",
    "cmp rcx, 16",
    "jae 2b",
    // The rest together with bytes that are there already.
    "movups xmm0, [rsi + rcx - 16]",
    "movups [rdi + rcx - 16], xmm0",
    "ret",
    "3:",
    "cmp rdx, 8",
    "jb 4f",
    "mov r8, [rsi]",
    "mov r9, [rsi + rdx - 8]",
    "mov [rdi], r8",
    "mov [rdi + rdx - 8], r9",
    "ret",
    "4:",
    "cmp rdx, 4",
    "jb 5f",
    "mov r8d, [rsi]",
    "mov r9d, [rsi + rdx - 4]",
    "mov [rdi], r8d",
    "mov [rdi + rdx - 4], r9d",
    "ret",
    "5:",
    "test rdx, rdx",
    "jz 7f",
    "6:",
    "rep movsb",
    "7:",
    "ret",
    "calisto_copy_end:",
    "calisto_copy_fault:",
    "mov eax, 1",
    "ret",
    ".size calisto_copy, . - calisto_copy",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".pushsection .text.calisto_copy,\"ax\",@progbits",
    ".hidden calisto_copy",
    ".hidden calisto_copy_end",
    ".hidden calisto_copy_fault",
    ".globl calisto_copy",
    ".globl calisto_copy_end",
    ".globl calisto_copy_fault",
    ".p2align 4",
    ".type calisto_copy,%function",
    "calisto_copy:",
    // x0: to, x1: from, x2: bytes; w0: 0 if all of it was copied.
    "2:",
    "cmp x2, #16",
    "b.lo 3f",
    "ldp x3, x4, [x1], #16",
    "stp x3, x4, [x0], #16",
    "sub x2, x2, #16",
    "b 2b",
    "3:",
    "cbz x2, 4f",
    "ldrb w3, [x1], #1",
    "strb w3, [x0], #1",
    "sub x2, x2, #1",
    "b 3b",
    "4:",
    "mov w0, #0",
    "ret",
    "calisto_copy_end:",
    "calisto_copy_fault:",
    "mov w0, #1",
    "ret",
    ".size calisto_copy, . - calisto_copy",
    ".popsection",
);

unsafe extern "C" {
    fn calisto_copy(to: *mut u8, from: *const u8, bytes: usize) -> u32;
    static calisto_copy_end: u8;
    fn calisto_copy_fault();
}

/// Where a thread goes on that has met a fault at `address` of the program's code: only if it is
/// within the routine.
pub(crate) fn after_fault(address: usize) -> Option<usize> {
    let start = calisto_copy as *const () as usize;
    let end = (&raw const calisto_copy_end).addr();
    (start..end).contains(&address).then_some(calisto_copy_fault as *const () as usize)
}

/// Copies `bytes`; EFAULT if one of the stretches is not all there. Some bytes may have been copied
/// then.
///
/// # Safety
/// Where the addresses are mapped, reading `from` and writing `to` must be the program's own wish;
/// neither is memory that Rust holds a reference to, but for an exclusive one of this caller.
#[inline]
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) -> Result<(), Errno> {
    // SAFETY: the caller's promise; a fault ends the routine, if `faults` has been told to look.
    if unsafe { calisto_copy(to, from, bytes) } == 0 { Ok(()) } else { Err(Errno::FAULT) }
}

/// Reads a plain value of C from the program's memory.
///
/// # Safety
/// Every pattern of bits is a `T`; reading there is the program's wish.
pub(crate) unsafe fn get<T: Copy>(from: *const T) -> Result<T, Errno> {
    let mut value = std::mem::MaybeUninit::<T>::uninit();
    // SAFETY: `value` is ours and has room for a `T`.
    unsafe { copy(value.as_mut_ptr().cast(), from.cast(), size_of::<T>())? };
    // SAFETY: all its bytes were copied, and any are good.
    Ok(unsafe { value.assume_init() })
}

/// Writes a plain value of C to the program's memory.
///
/// # Safety
/// Writing there is the program's wish.
pub(crate) unsafe fn put<T: Copy>(to: *mut T, value: &T) -> Result<(), Errno> {
    // SAFETY: the caller's promise, and a reference is readable.
    unsafe { copy(to.cast(), std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_whole_and_nothing_beside_it() {
        let from: Vec<u8> = (0..1200_u32).map(|index| (index % 251) as u8).collect();
        for bytes in (0..80).chain([255, 256, 257, 511, 512, 513, 1100]) {
            let mut to = vec![0xEE; 1300];
            // SAFETY: both are ours and long enough.
            unsafe { copy(to.as_mut_ptr().add(7), from.as_ptr().add(3), bytes) }.expect("mapped");
            assert_eq!(to[7..7 + bytes], from[3..3 + bytes], "{bytes}");
            assert!(to[..7].iter().chain(&to[7 + bytes..]).all(|&byte| byte == 0xEE), "{bytes}");
        }
    }

    #[test]
    fn a_bad_address_is_an_error_and_not_the_end() {
        crate::system::faults::watch();
        let good = [7_u8; 1024];
        let mut room = [0_u8; 1024];
        for bytes in [1, 4, 8, 16, 100, 1024] {
            let bad = std::ptr::without_provenance_mut::<u8>(8);
            // SAFETY: what is not mapped is what is tested.
            unsafe {
                assert_eq!(copy(bad, good.as_ptr(), bytes), Err(Errno::FAULT), "{bytes}");
                assert_eq!(copy(room.as_mut_ptr(), bad, bytes), Err(Errno::FAULT), "{bytes}");
            }
        }
    }
}
