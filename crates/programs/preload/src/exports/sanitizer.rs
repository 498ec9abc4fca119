//! What AddressSanitizer asks the libraries of a program that was built with it.
//!
//! Its runtime, as a library of its own, ends the program if it is not the first one, which this
//! library is then. The order is right: a call comes here first, goes on by `dlsym(RTLD_NEXT)` to
//! the runtime's, and from there to libc. A program that answers these questions itself is asked
//! instead of us, and is to say the same.

use libc::c_char;

/// Options of the runtime, before those of ASAN_OPTIONS.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn __asan_default_options() -> *const c_char {
    c"verify_asan_link_order=0".as_ptr()
}
