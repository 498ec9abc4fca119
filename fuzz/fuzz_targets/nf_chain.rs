//! Hosts, servers and strangers through a chain that translates, balances, guards and routes.
#![no_main]

use fuzz::nf_chain::run;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    run(input);
});
