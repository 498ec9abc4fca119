//! vfork(2): the child returns into the frame of the parent, so nothing of ours may be left on the
//! stack.

use libc::{c_int, c_void};

use crate::system::cell::FunctionCell;
use crate::system::fork;

/// Notes a coming vfork, and says where the real one is.
extern "C" fn before_vfork() -> *const c_void {
    fork::will_fork();
    static PLACE: FunctionCell = FunctionCell::new();
    let found = PLACE.known().or_else(|| PLACE.find(c"vfork"));
    // A libc without it has at least the other one, which is always right.
    found.map_or(libc::fork as *const c_void, <*mut c_void>::cast_const)
}

macro_rules! vfork {
    ($($name:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of libc. It returns twice into the same frame, so it must be entered \
                         by a jump, with the stack as the program left it.")]
        ///
        /// # Safety
        /// As for libc's.
        #[cfg(target_arch = "x86_64")]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() -> c_int {
            core::arch::naked_asm!(
                "sub rsp, 8",
                "call {before}",
                "add rsp, 8",
                "jmp rax",
                before = sym before_vfork,
            )
        }

        #[doc = concat!("`", stringify!($name), "` of libc. It returns twice into the same frame, so it must be entered \
                         by a jump, with the stack as the program left it.")]
        ///
        /// # Safety
        /// As for libc's.
        #[cfg(target_arch = "aarch64")]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() -> c_int {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-16]!",
                "bl {before}",
                "ldp x29, x30, [sp], #16",
                "mov x16, x0",
                "br x16",
                before = sym before_vfork,
            )
        }
    )*};
}

vfork! { vfork __vfork }
