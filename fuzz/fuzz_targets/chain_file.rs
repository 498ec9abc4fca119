//! Any text as the file of a chain: within its limits, or refused by one sentence that names a line
//! of it.
#![no_main]

use chain::file::ChainFile;
use fuzz::is_one_sentence;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match ChainFile::parse(text, "c.toml") {
        Ok(file) => {
            assert!(
                (1..=64).contains(&file.slices.len()) && (1..=16).contains(&file.functions.len())
            );
            is_one_sentence(&file.name);
            assert_eq!(ChainFile::parse(text, "other.toml").as_ref(), Ok(&file));
        }
        Err(error) => {
            assert!(error.line().is_none_or(|line| line <= 1 + text.lines().count()));
            is_one_sentence(&error.to_string());
        }
    }
});
