//! Something that goes on beside a test for as long as the test takes.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs `work` in a thread of its own for as long as `test` takes, and returns what both return.
///
/// `work` gets a word that becomes true when `test` is over, also when it failed: a test that told
/// the word itself would leave `work` waiting for it behind a panic, and never end.
///
/// # Panics
/// One of them does.
pub fn beside<W: Send, T>(
    work: impl FnOnce(&AtomicBool) -> W + Send,
    test: impl FnOnce() -> T,
) -> (W, T) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let working = threads.spawn(|| work(&stop));
        let tested = {
            let _told = ToldWhenDropped(&stop);
            test()
        };
        match working.join() {
            Ok(worked) => (worked, tested),
            Err(panic) => resume_unwind(panic),
        }
    })
}

/// Tells the word, whichever way it goes out of scope.
struct ToldWhenDropped<'a>(&'a AtomicBool);

impl Drop for ToldWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::beside;

    fn until(stop: &AtomicBool) -> &'static str {
        while !stop.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        "worked"
    }

    #[test]
    fn work_goes_on_until_the_test_is_over_and_both_return_what_they_have() {
        assert_eq!(beside(until, || "tested"), ("worked", "tested"));
    }

    #[test]
    fn a_test_that_fails_ends_what_goes_on_beside_it_and_fails() {
        let failed =
            catch_unwind(AssertUnwindSafe(|| beside(until, || panic!("as it is meant to"))));
        assert!(failed.is_err());
    }
}
