//! An honest program with sockets, TCP peers that end in any way at any moment, and workers: it is
//! never taken for a hostile one.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|schedule: &[u8]| {
    fuzz::sockets::honest(schedule);
});
