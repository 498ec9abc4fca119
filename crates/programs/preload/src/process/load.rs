//! What runs before the program's own code, and around each of its forks.

use crate::process::{environment, inherited, say, session};
use crate::system::{fork, lock, mover};

/// What the loader calls before the program's own code.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    fork::note_process();
    // An allocator of the program's own says at its first call what it does around forks (jemalloc
    // closes all its arenas). It is to say so before us: then it closes them after what we do
    // before a fork, and opens them before what we do in the child, both of which take memory.
    // SAFETY: it is given back at once.
    unsafe { libc::free(std::hint::black_box(libc::malloc(1))) };
    // SAFETY: three functions that live as long as the library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    environment::remember_environment();
    session::remember_settings();
    say::remember_settings();
    inherited::look_for_inherited();
}

unsafe extern "C" fn before_fork() {
    fork::will_fork();
    mover::close();
    lock::close_gate();
}

unsafe extern "C" fn after_fork() {
    lock::open_gate();
    mover::open();
}

unsafe extern "C" fn in_child() {
    fork::note_process();
    lock::open_gate();
    mover::open();
    session::in_child();
}
