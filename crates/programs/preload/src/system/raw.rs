//! System calls without libc: for the moments when libc's own functions are not known yet, and for
//! what libc remembers instead of asking.

use libc::{c_int, c_long};
use rustix::io::Errno;

/// Makes a system call; what the kernel returned, a negative error number included.
///
/// # Safety
/// What the call does with these arguments must be sound.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) unsafe fn call(number: c_long, arguments: [usize; 6]) -> isize {
    let result: isize;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the kernel's calling convention; it keeps all registers but rax, rcx and r11, and
    // what happens to memory is the caller's promise.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// Makes a system call; what the kernel returned, a negative error number included.
///
/// # Safety
/// What the call does with these arguments must be sound.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(crate) unsafe fn call(number: c_long, arguments: [usize; 6]) -> isize {
    let result: isize;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the kernel's calling convention; it keeps all registers but x0, and what happens to
    // memory is the caller's promise.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack)
        );
    }
    result
}

/// Makes a system call; its value, or the error.
///
/// # Safety
/// As for [`call`].
pub(crate) unsafe fn checked(number: c_long, arguments: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    let result = unsafe { call(number, arguments) };
    if (-4095..0).contains(&result) {
        Err(Errno::from_raw_os_error(-(result as i32)))
    } else {
        Ok(result as usize)
    }
}

/// The number of this process, from the kernel: a child of vfork learns its own.
pub(crate) fn process_id() -> u32 {
    // SAFETY: getpid takes nothing and cannot fail.
    unsafe { call(libc::SYS_getpid, [0; 6]) as u32 }
}

/// Sends a signal to the calling thread alone; it has been delivered when this returns, unless it
/// is blocked.
pub(crate) fn raise_here(signal: c_int) {
    // SAFETY: plain numbers. The call fails only for a signal that does not exist.
    unsafe {
        let thread = call(libc::SYS_gettid, [0; 6]) as usize;
        let process = process_id() as usize;
        call(libc::SYS_tgkill, [process, thread, signal as usize, 0, 0, 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_returns_its_value_or_its_error() {
        assert_eq!(process_id(), std::process::id());
        // SAFETY: closing what cannot be open.
        let result = unsafe { checked(libc::SYS_close, [usize::MAX, 0, 0, 0, 0, 0]) };
        assert_eq!(result, Err(Errno::BADF));
    }
}
