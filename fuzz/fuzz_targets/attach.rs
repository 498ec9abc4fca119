//! Any bytes as a message of the attach protocol, in both directions.
#![no_main]

use attach::{ToDaemon, decode_to_app, decode_to_daemon};
use fuzz::is_one_sentence;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match decode_to_daemon(bytes) {
        // Nothing gets in that breaks a limit.
        Ok(ToDaemon::Attach(request)) => assert_eq!(request.check(), Ok(())),
        Err(sentence) => is_one_sentence(&sentence),
    }
    if let Err(sentence) = decode_to_app(bytes) {
        is_one_sentence(&sentence);
    }
});
