//! A thread without which the daemon is of no use: its panic ends the daemon, which says so.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;

/// A thread that runs until the daemon ends.
pub(crate) struct Watched {
    thread: JoinHandle<bool>,
}

impl Watched {
    /// Starts it. When `run` panics, `on_panic` is called in its thread.
    pub(crate) fn start(
        name: &str,
        run: impl FnOnce() + Send + 'static,
        on_panic: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            // What it had is dropped on the way, and nobody sees it again.
            let has_ended_well = catch_unwind(AssertUnwindSafe(run)).is_ok();
            if !has_ended_well {
                on_panic();
            }
            has_ended_well
        })?;
        Ok(Self { thread })
    }

    /// Waits for its end; whether that was no panic.
    pub(crate) fn join(self) -> bool {
        self.thread.join().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_panic_is_told_at_once_and_at_the_end() {
        let (told, heard) = channel();
        let tell = move || told.send(()).expect("the test waits");
        let fell = Watched::start("falls", || panic!("as it is meant to"), tell);
        heard.recv().expect("its panic is told, though nobody joins");
        assert!(!fell.expect("threads are left").join());
        let (told, heard) = channel::<()>();
        let stood = Watched::start("stands", || (), move || drop(told)).expect("threads are left");
        assert!(stood.join() && heard.recv().is_err());
    }
}
