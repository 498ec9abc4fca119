//! The interface in C, as `include/calisto_function.h` has it.

use std::ffi::{c_char, c_int, c_void};

pub(crate) const VERSION: u32 = 1;
pub(crate) const SYMBOL: &str = "calisto_function_1";
pub(crate) const COUNTERS_MAX: u32 = 64;

pub(crate) const NEXT: u8 = 0;
pub(crate) const DROP: u8 = 1;
pub(crate) const OUT: u8 = 2;

pub(crate) const UNKNOWN: u8 = 0;
pub(crate) const VERIFIED: u8 = 1;

/// `struct calisto_function_packet`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Packet {
    pub(crate) data: *mut u8,
    pub(crate) len: u32,
    pub(crate) room: u32,
    pub(crate) received_ns: u64,
    pub(crate) port: u16,
    pub(crate) out: u16,
    pub(crate) vlan: u16,
    pub(crate) verdict: u8,
    pub(crate) checksum: u8,
}

impl Packet {
    pub(crate) const NONE: Self = Self {
        data: std::ptr::null_mut(),
        len: 0,
        room: 0,
        received_ns: 0,
        port: 0,
        out: 0,
        vlan: 0,
        verdict: DROP,
        checksum: UNKNOWN,
    };
}

/// `struct calisto_function_counter`.
#[repr(C)]
pub(crate) struct Counter {
    pub(crate) name: *const c_char,
    pub(crate) help: *const c_char,
}

/// `struct calisto_function_host`.
#[repr(C)]
pub(crate) struct Host {
    pub(crate) chain: *const c_void,
    pub(crate) port: unsafe extern "C" fn(*const c_void, *const c_char) -> c_int,
}

pub(crate) type Make = unsafe extern "C" fn(
    *const Host,
    usize,
    *const *const c_char,
    *mut c_char,
    usize,
) -> *mut c_void;
pub(crate) type Process = unsafe extern "C" fn(*mut c_void, *mut Packet, usize, u64);

/// `struct calisto_function`. What an object may have left out is an `Option`.
#[repr(C)]
pub(crate) struct Table {
    pub(crate) version: u32,
    pub(crate) counter_count: u32,
    pub(crate) counters: *const Counter,
    pub(crate) make: Option<Make>,
    pub(crate) process: Option<Process>,
    pub(crate) leave: Option<Process>,
    pub(crate) read: Option<unsafe extern "C" fn(*const c_void, *mut u64)>,
    pub(crate) take_over: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    pub(crate) destroy: Option<unsafe extern "C" fn(*mut c_void)>,
}

#[cfg(test)]
mod tests;
