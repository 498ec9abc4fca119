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
//! Read [`functions`] first.

mod accept;
mod address;
mod cancel;
mod cell;
mod close;
mod connect;
mod copy;
mod datagram;
mod deadline;
mod descriptors;
mod duplicate;
mod entry;
mod environment;
mod epoll;
mod epoll_calls;
mod exec;
/// The functions of libc that are defined here.
pub mod exports;
mod fallback;
mod faults;
mod file;
mod fork;
mod functions;
mod inherit;
mod inherited;
mod interrupts;
mod kernel_options;
mod kernel_socket;
mod list;
mod listen;
mod load;
mod lock;
mod lookup;
mod many;
mod memberships;
mod message;
mod names;
mod options;
mod outcome;
mod own_code;
mod poll;
mod pthread_cancel;
mod raw;
mod real;
mod receive;
mod route;
mod say;
mod select;
mod send;
mod sendfile;
mod served;
mod session;
mod signals;
mod socket;
mod spans;
mod spawn;
mod stdio;
mod tcp_info;
mod ticket;
mod udp;
mod wait;
mod yield_policy;
