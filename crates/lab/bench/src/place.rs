//! Where a measurement runs: one thread, one CPU.

use std::thread;

use base::Nanos;

use crate::error::{Error, OrNeeds};

/// The two CPUs of a measurement: the traffic's and ours. One and the same where there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpus {
    /// Clients, and whoever is the other side.
    pub(crate) client: usize,
    /// What is measured.
    pub(crate) server: usize,
}

impl Cpus {
    /// The first and the last CPU that this process may use.
    pub(crate) fn choose() -> Self {
        let allowed = allowed();
        let first = allowed.first().copied().unwrap_or(0);
        Self { client: first, server: allowed.last().copied().unwrap_or(first) }
    }

    /// Whether they are two.
    pub(crate) fn are_two(self) -> bool {
        self.client != self.server
    }

    /// Refuses to measure on one.
    pub(crate) fn need_two(self) -> Result<(), Error> {
        if self.are_two() { Ok(()) } else { Err("there is one").or_needs("second CPU") }
    }
}

/// The CPUs that this process may use.
pub(crate) fn allowed() -> Vec<usize> {
    sys::thread::allowed_cpus()
}

/// Runs `work` on a thread of its own that stays on `cpu`. A panic of it goes on in the caller.
pub(crate) fn on_cpu<T: Send>(
    cpu: usize,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let pinned = move || {
        sys::thread::pin(cpu).or_needs("place on that CPU")?;
        work()
    };
    thread::scope(|scope| {
        let running = scope.spawn(pinned).join();
        running.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// CPU time of the calling thread: what others that share the CPU do is not in it.
pub(crate) fn cpu_time() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // Neither part of a thread's time is negative.
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
