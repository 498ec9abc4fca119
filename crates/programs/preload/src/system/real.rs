//! The functions that ours stand before: libc's, or those of a library between.
//!
//! Each is looked up once, at its first call, by `dlsym(RTLD_NEXT)`. A call that comes while the
//! same thread is looking one up (a memory allocator that reads a file, say) goes to the kernel
//! itself; so does a function that this libc does not have.

use std::ffi::CStr;

use libc::{
    c_char, c_int, c_long, c_uint, c_ulong, c_void, epoll_event, fd_set, iovec, mmsghdr, msghdr,
    nfds_t, off_t, off64_t, pid_t, pollfd, pthread_t, sigaction as SignalAction, sighandler_t,
    sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec, timeval,
};

use crate::system::cell::{FunctionCell, NO_NUMBER, without_libc};
use crate::system::functions::functions;

macro_rules! real {
    (@number) => { NO_NUMBER };
    (@number $number:ident) => { libc::$number };
    ($($how:ident $name:ident($($argument:ident: $type:ty),*) -> $returned:ty
        = $($number:ident)? => $server:path;)*) => {
        $(
            /// What the function of this name did before this library was loaded.
            ///
            /// # Safety
            /// As for the function.
            #[inline]
            #[allow(dead_code, reason = "aliases are served by the function that they name")]
            pub(crate) unsafe fn $name($($argument: $type),*) -> $returned {
                static PLACE: FunctionCell = FunctionCell::new();
                const NAME: &CStr = match CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => panic!("a name has no zero byte within"),
                };
                type Function = unsafe extern "C-unwind" fn($($type),*) -> $returned;
                #[cold]
                #[inline(never)]
                unsafe extern "C-unwind" fn first_call($($argument: $type),*) -> $returned {
                    if let Some(found) = PLACE.find(NAME) {
                        // SAFETY: as below.
                        let function = unsafe {
                            std::mem::transmute::<*mut c_void, Function>(found)
                        };
                        // SAFETY: the caller's promise.
                        return unsafe { function($($argument),*) };
                    }
                    let given: &[usize] = &[$($argument as usize),*];
                    let mut arguments = [0; 6];
                    for (to, from) in arguments.iter_mut().zip(given) {
                        *to = *from;
                    }
                    // SAFETY: the caller's promise; a number is given only to functions that
                    // are the system call with the same arguments.
                    let value = unsafe {
                        without_libc(real!(@number $($number)?), arguments)
                    };
                    value as $returned
                }
                let Some(found) = PLACE.known() else {
                    // SAFETY: the caller's promise.
                    return unsafe { first_call($($argument),*) };
                };
                // SAFETY: libc declares the function of this name so.
                let function = unsafe { std::mem::transmute::<*mut c_void, Function>(found) };
                // SAFETY: the caller's promise.
                unsafe { function($($argument),*) }
            }
        )*
    };
}

functions!(real);
