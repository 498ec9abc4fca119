//! A program that writes anything into the memory of its sockets, while TCP peers talk to it and to
//! an honest one beside it: nothing panics, and the honest one does not notice.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|schedule: &[u8]| {
    fuzz::sockets::beside_a_hostile_one(schedule);
});
