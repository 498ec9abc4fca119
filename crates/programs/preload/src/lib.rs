//! libcalisto_preload.so: loaded before libc (`LD_PRELOAD`), it serves the socket calls of a
//! program that knows nothing of it by the data plane, and passes on what is not ours.
//!
//! The one idea: the descriptor that the program sees is a real socket of the kernel, and stays
//! one. It has the number, the options, the reserved port, and a lifetime that survives fork, exec
//! and `SCM_RIGHTS`; falling back to the kernel is doing nothing. Beside it, in `entry`, is an
//! entry with the socket of the data plane that bytes take instead.
//!
//! What must always hold: no call changes its meaning for a descriptor that is not ours, no panic
//! crosses into the program, no lock is held while the program's memory is touched, and a call that
//! comes from a signal handler, a child of vfork or a forked thread's successor does not deadlock.
//!
//! The files stand in layers; each uses its own layer and those below it, and no two files use each
//! other (`tests/layers.rs`, `cargo xtask tidy`):
//!
//! | layer | what it is | may use |
//! |---|---|---|
//! | `exports` | the symbols by libc's names; what runs in the frames of C | all |
//! | `calls` | what each call does: a file for each man page | `wait` and below |
//! | `wait` | deadlines; waiting for a socket, a list, a set of epoll(7) | `process` and below |
//! | `process` | the attachment; sockets from elsewhere; the next program | `entry` and below |
//! | `entry` | what stands behind a descriptor | `system` |
//! | `system` | libc's own functions (`real`), the kernel, the program's memory | none |
//!
//! Read `system/functions.rs` first: one row for each function of libc that is defined here.

mod calls;
mod entry;
/// The functions of libc that are defined here.
pub mod exports;
mod process;
mod system;
mod wait;
