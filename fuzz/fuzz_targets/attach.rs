//! Any bytes as a message of the attach protocol, in both directions.
#![no_main]

use attach::{decode_to_app, decode_to_daemon};
use fuzz::is_one_sentence;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match decode_to_daemon(bytes) {
        // Nothing gets in that breaks a limit.
        Ok(message) => assert_eq!(message.check(), Ok(())),
        Err(sentence) => is_one_sentence(&sentence),
    }
    if let Err(sentence) = decode_to_app(bytes) {
        is_one_sentence(&sentence);
    }
});
