//! The symbols that this library defines, by the names of libc: one for each row of the table.
//!
//! They keep libc's unversioned names, so that a program's calls come here first;
//! [`crate::system::real`] has the functions that they stand before.

/// syscall(2).
pub mod by_number;
/// dlopen(3).
pub mod deep;
/// dprintf(3).
pub mod print;
/// AddressSanitizer.
pub mod sanitizer;
/// liburing.
pub mod uring;
/// vfork(2).
pub mod vfork;

use libc::{
    c_char, c_int, c_long, c_uint, c_ulong, c_void, epoll_event, fd_set, iovec, mmsghdr, msghdr,
    nfds_t, off_t, off64_t, pid_t, pollfd, pthread_t, sigaction as SignalAction, sighandler_t,
    sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec, timeval,
};

use crate::calls::{
    accept, cancel, checked, close, confine, connect, duplicate, epoll, exec, listen, many,
    message, names, options, poll, receive, select, send, sendfile, shutdown, signals, socket,
    spawn, splice, stdio, udp,
};
use crate::entry::descriptors;
use crate::system::functions::functions;
use crate::system::real;

macro_rules! export {
    (@by_descriptor $server:path, $name:ident($first:ident: $first_type:ty
        $(, $argument:ident: $type:ty)*) -> $returned:ty) => {
        #[doc = concat!("`", stringify!($name), "` of libc.")]
        ///
        /// # Safety
        /// As for libc's.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name($first: $first_type $(, $argument: $type)*)
            -> $returned
        {
            if descriptors::is_plain($first) {
                // SAFETY: the caller's arguments, unchanged.
                return unsafe { real::$name($first $(, $argument)*) };
            }
            // SAFETY: the caller's arguments, unchanged.
            unsafe { $server($first $(, $argument)*) }
        }
    };
    (@always $server:path, $name:ident($($argument:ident: $type:ty),*) -> $returned:ty) => {
        #[doc = concat!("`", stringify!($name), "` of libc.")]
        ///
        /// # Safety
        /// As for libc's.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $returned {
            // SAFETY: the caller's arguments, unchanged.
            unsafe { $server($($argument),*) }
        }
    };
    (@by_hand $server:path, $name:ident($($argument:ident: $type:ty),*) -> $returned:ty) => {
        const _: unsafe extern "C-unwind" fn($($type),*) -> $returned = $server;
    };
    ($($how:ident $name:ident($($argument:ident: $type:ty),*) -> $returned:ty
        = $($number:ident)? => $server:path;)*) => {
        $(export!(@$how $server, $name($($argument: $type),*) -> $returned);)*

        /// The names of all rows.
        #[cfg(test)]
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

functions!(export);

#[cfg(test)]
mod tests;
