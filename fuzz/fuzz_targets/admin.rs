//! Any line as a question to the daemon, and as its answer: what is understood is written again
//! and understood the same.
#![no_main]

use admin::{Reply, Request, decode, encode};
use fuzz::is_one_sentence;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &str| {
    match decode::<Request>(line) {
        Ok(request) => {
            if let Err(wrong) = request.check() {
                is_one_sentence(&wrong.to_string());
            }
            assert!(!request.command.name().is_empty());
            let again = encode(&request).expect("what was read can be written");
            assert_eq!(again.matches('\n').count(), 1, "{again:?}");
            assert_eq!(decode(&again), Ok(request));
        }
        Err(wrong) => is_one_sentence(&wrong.to_string()),
    }
    if let Ok(reply) = decode::<Reply>(line) {
        let again = encode(&reply).expect("what was read can be written");
        assert_eq!(decode(&again), Ok(reply));
    }
});
