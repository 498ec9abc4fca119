//! Any text as a configuration, and as one `key=value` of a command line.
#![no_main]

use config::Config;
use fuzz::is_one_sentence;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match Config::parse(text) {
        Ok(config) => assert_eq!(Config::parse(&config.to_toml()), Ok(config)),
        Err(error) => {
            assert!(error.line().is_none_or(|line| line <= 1 + text.lines().count()));
            is_one_sentence(&error.to_string());
        }
    }
    let mut config = Config::default();
    match config.set(text) {
        Ok(()) => assert_eq!(Config::parse(&config.to_toml()), Ok(config)),
        Err(error) => {
            assert_eq!(config, Config::default());
            is_one_sentence(&error.to_string());
        }
    }
});
