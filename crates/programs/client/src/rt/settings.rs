//! How a runtime behaves, apart from what it attaches to.

use base::Nanos;

/// How a runtime behaves. The defaults suit servers that answer within microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A poll that takes longer is counted under the name of its task: it holds up every other task
    /// of its worker. By default 2 ms. A poll that does not end is found out at this rate too.
    pub long_poll: Nanos,
    /// A packet that has waited for this time may be taken over by a worker that has nothing to do,
    /// with all that wait in its class of flows. By default 100 us.
    pub steal_after: Nanos,
    /// Packets that may wait at once, for each worker and each address listened on; more are
    /// dropped and counted. By default 256.
    pub queue_packets: usize,
    /// How long a worker that has nothing to do goes on looking before it sleeps. By default zero;
    /// the price of a wake-up (tens of microseconds), if packets come that often and the CPU is its
    /// own.
    pub spin: Nanos,
    /// How long the runtime waits, after [`crate::rt::Runtime::shutdown`], for its main tasks to
    /// end; then they are dropped. By default 1 s.
    pub grace: Nanos,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            long_poll: Nanos::from_millis(2),
            steal_after: Nanos::from_micros(100),
            queue_packets: 256,
            spin: Nanos::ZERO,
            grace: Nanos::from_secs(1),
        }
    }
}
