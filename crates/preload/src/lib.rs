//! libcalisto_preload.so: loaded before libc (`LD_PRELOAD`), it serves the socket calls of a
//! program that knows nothing of it by the data plane, and passes on what is not ours.
//!
//! The one idea: the descriptor that the program sees is a real socket of the kernel, and stays one.
//! It has the number, the options, the reserved port, and a lifetime that survives fork, exec and
//! `SCM_RIGHTS`; falling back to the kernel is doing nothing. Beside it, in [`descriptors`], is an
//! entry with the socket of the data plane that bytes take instead.
//!
//! What must always hold: no call changes its meaning for a descriptor that is not ours, no panic
//! crosses into the program, no lock is held while the program's memory is touched, and a call that
//! comes from a signal handler, a child of vfork or a forked thread's successor does not deadlock.
//!
//! Read [`table`] first.

mod descriptors;

mod datagram {
    pub(crate) use crate::table::real::bind;
}
mod listen {
    pub(crate) use crate::table::real::listen;
}
mod connect {
    pub(crate) use crate::table::real::connect;
}
mod accept {
    pub(crate) use crate::table::real::{accept, accept4};
}
mod close {
    pub(crate) use crate::table::real::{close, close_range, closefrom, shutdown};
}
mod names {
    pub(crate) use crate::table::real::{getpeername, getsockname, sockatmark};
}
mod options {
    pub(crate) use crate::table::real::{getsockopt, ioctl, setsockopt};
}
mod receive {
    pub(crate) use crate::table::real::{
        __read_chk as read_checked, __recv_chk as recv_checked, __recvfrom_chk as recvfrom_checked,
        preadv2, read, readv, recv, recvfrom,
    };
}
mod message {
    pub(crate) use crate::table::real::{recvmsg, sendmsg};
}
mod many {
    pub(crate) use crate::table::real::{recvmmsg, sendmmsg};
}
mod send {
    pub(crate) use crate::table::real::{pwritev2, send, sendto, write, writev};
}
mod sendfile {
    pub(crate) use crate::table::real::{sendfile, splice};
}
mod poll {
    pub(crate) use crate::table::real::{
        __poll_chk as poll_checked, __ppoll_chk as ppoll_checked, poll, ppoll,
    };
}
mod select {
    pub(crate) use crate::table::real::{pselect, select};
}
mod epoll {
    pub(crate) use crate::table::real::{epoll_ctl, epoll_pwait, epoll_pwait2, epoll_wait};
}
mod duplicate {
    pub(crate) use crate::table::real::{dup, dup2, dup3, fcntl};
}
mod exec {
    pub(crate) use crate::table::real::{execv, execve, execveat, execvp, execvpe, fexecve};
}
mod spawn {
    pub(crate) use crate::table::real::{popen, posix_spawn, posix_spawnp, system};
}
mod life {
    pub(crate) use crate::table::real::{clone, pthread_cancel};
}
mod faults {
    pub(crate) use crate::table::real::{sigaction, signal, sysv_signal};
}
mod stdio {
    pub(crate) use crate::table::real::{__vdprintf_chk as vdprintf_checked, fdopen, vdprintf};
}
mod dispatch {
    pub(crate) use crate::table::real::syscall;
}
mod outcome;
mod raw;
mod real;
/// The functions of libc that are defined here.
pub mod table;
mod sockets {
    pub(crate) use crate::table::real::socket;
}
