//! TCP segments of peers that know the numbers of living connections, in every state.
#![no_main]

use fuzz::hostile_peer::run;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|program: &[u8]| {
    run(program);
});
