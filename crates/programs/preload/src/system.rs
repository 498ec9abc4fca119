//! libc and the kernel, as they are without this library. Nothing here knows what a socket of the
//! data plane is.

/// Socket addresses of C.
pub(crate) mod address;
/// The place of one function of libc.
pub(crate) mod cell;
/// Copies to and from addresses that may be wrong.
pub(crate) mod copy;
/// How many descriptors this process has room for.
pub(crate) mod descriptor_table;
/// SIGSEGV and SIGBUS.
pub(crate) mod faults;
/// Which process this is.
pub(crate) mod fork;
/// The table of the functions that this library defines.
pub(crate) mod functions;
/// Which signals end a call.
pub(crate) mod interrupts;
/// What the kernel says of a socket.
pub(crate) mod kernel_socket;
/// A lock that a fork cannot leave closed.
pub(crate) mod lock;
/// The thread that may change the files of numbers.
pub(crate) mod mover;
/// How a call of C ends.
pub(crate) mod outcome;
/// System calls without libc.
pub(crate) mod raw;
/// libc's own functions.
pub(crate) mod real;
/// The address from which a peer is reached.
pub(crate) mod route;
