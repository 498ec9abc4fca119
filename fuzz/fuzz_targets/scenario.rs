//! Any text as a scenario of the simulator: a bounded number of runs, or refused by one sentence
//! that names a line of it.
#![no_main]

use experiments::Scenario;
use fuzz::is_one_sentence;
use libfuzzer_sys::fuzz_target;

/// More runs than anybody waits for.
const JOBS_MAX: usize = 1 << 20;

fuzz_target!(|text: &str| {
    match Scenario::parse(text) {
        Ok(scenario) => {
            is_one_sentence(scenario.name());
            let _ = scenario.title();
            assert!(scenario.job_count() <= JOBS_MAX, "{} runs", scenario.job_count());
        }
        Err(error) => {
            assert!(error.line().is_none_or(|line| line <= 1 + text.lines().count()));
            is_one_sentence(&error.to_string());
        }
    }
});
