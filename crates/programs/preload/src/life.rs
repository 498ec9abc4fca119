//! The process: its birth, its children, and how we tell a child of vfork from its parent.

use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_void};

use crate::table::real;
use crate::{adopt, exec, lock, raw, session};

/// The process that the tables here belong to.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// How often this process has made another one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// What the loader calls before the program's own code.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    PROCESS.store(raw::process_id(), Ordering::Relaxed);
    // SAFETY: three functions that live as long as the library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    exec::remember_environment();
    adopt::look_for_inherited();
}

unsafe extern "C" fn before_fork() {
    will_fork();
    lock::close_gate();
}

unsafe extern "C" fn after_fork() {
    lock::open_gate();
}

unsafe extern "C" fn in_child() {
    PROCESS.store(raw::process_id(), Ordering::Relaxed);
    lock::open_gate();
    session::in_child();
}

/// This process, as the tables here know it.
pub(crate) fn process() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

/// How often this process has made another one: sockets older than the last of them may be held by it.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Another process is about to be made, by whatever means.
pub(crate) fn will_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Whether the caller runs in a child that shares our memory but not our descriptors (vfork), so that
/// nothing that it does to its descriptors may be noted here.
pub(crate) fn is_borrowed() -> bool {
    raw::process_id() != PROCESS.load(Ordering::Relaxed)
}

/// Notes a coming vfork, and says where the real one is.
extern "C" fn before_vfork() -> *const c_void {
    will_fork();
    static PLACE: crate::real::FunctionCell = crate::real::FunctionCell::new();
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

/// clone(2): a new process, unless it is a thread.
///
/// # Safety
/// As for libc's.
pub(crate) unsafe fn clone(
    run: *mut c_void,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent_tid: *mut c_void,
    tls: *mut c_void,
    child_tid: *mut c_void,
) -> c_int {
    if flags & libc::CLONE_THREAD == 0 {
        will_fork();
    }
    // SAFETY: the caller's arguments.
    unsafe { real::clone(run, stack, flags, argument, parent_tid, tls, child_tid) }
}
