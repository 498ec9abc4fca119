//! An application that does to its shared memory whatever it likes, between honest moments.
#![no_main]

use fuzz::hostile_app::{Step, run};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|steps: Vec<Step>| {
    run(&steps[..steps.len().min(64)]);
});
