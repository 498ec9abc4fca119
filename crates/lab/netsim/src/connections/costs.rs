//! What a request takes of a core, as measured, and what a cache holds.

use sim::model::Level;

/// A measured number: the median of its rounds and their extremes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cycles {
    /// The least that a round found.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The most.
    pub high: f64,
}

impl Cycles {
    const fn new(low: f64, median: f64, high: f64) -> Self {
        Self { low, median, high }
    }

    /// A number that is known without a range.
    pub const fn exactly(cycles: f64) -> Self {
        Self::new(cycles, cycles, cycles)
    }

    /// The value of a level.
    pub const fn at(&self, level: Level) -> f64 {
        match level {
            Level::Low => self.low,
            Level::Median => self.median,
            Level::High => self.high,
        }
    }
}

/// What a request takes of the server's core, all segments that belong to it included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestCosts {
    /// Cycles with everything in the cache.
    pub warm: Cycles,
    /// Cycles more when nothing of the connection is.
    pub cold: Cycles,
    /// Bytes that a connection keeps in the cache while it is used.
    pub state_bytes: Cycles,
}

impl RequestCosts {
    /// The engine alone, a service inside the data path, on a NIC that costs nothing: `calisto
    /// bench tcp`'s cycles a request with 100 and with 100,000 flows in batches of 32 (188, 775),
    /// of 64 (191, 824), and one by one (206, 2153), with the 70 MB that 100,000 flows were.
    pub const CALISTO_ENGINE: Self = Self {
        warm: Cycles::new(188.0, 191.0, 206.0),
        cold: Cycles::new(587.0, 633.0, 1947.0),
        state_bytes: Cycles::new(700.0, 700.0, 700.0),
    };

    /// Programs' sockets under `calisto run`: `calisto bench sockets --case breakdown`'s IP, TCP
    /// and sockets (0.7 and 2.2 thousand) on AF_XDP in copy mode (3.6 thousand); the client's half,
    /// which a veth runs on the server's core, left out. With 19,488 connections a request took
    /// 1/0.48 of what it took with 100: of the 16.1 thousand cycles that it is on a veth. A socket
    /// has 8.4 KB. Ranges: the tenth by which docs/figures says those runs may move.
    pub const CALISTO_SOCKETS: Self = Self {
        warm: Cycles::new(5850.0, 6500.0, 7150.0),
        cold: Cycles::new(13_000.0, 17_400.0, 19_200.0),
        state_bytes: Cycles::new(7400.0, 8400.0, 8400.0),
    };

    /// Linux's own sockets on the same machine, from the same two benchmarks: driver 1.8, IP and
    /// TCP 8.1, sockets 2.6 thousand; 1/0.66 of 20.5 thousand with 19,488 connections. How much a
    /// socket of the kernel keeps in use was not measured: from its two structures to what one of
    /// ours has.
    pub const LINUX: Self = Self {
        warm: Cycles::new(11_250.0, 12_500.0, 13_750.0),
        cold: Cycles::new(8_500.0, 10_600.0, 12_700.0),
        state_bytes: Cycles::new(2500.0, 4000.0, 8400.0),
    };
}

/// What a core can keep close.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cache {
    /// Bytes of connections' state that a core's caches hold: its own and its part of the shared
    /// one.
    pub bytes_per_core: u64,
    /// Cycles a second.
    pub hertz: u64,
}

impl Default for Cache {
    /// The TAS authors' Xeon Platinum 8160: 1 MiB of its own and 1.375 MiB of the shared cache for
    /// each core, 2.1 GHz.
    fn default() -> Self {
        Self { bytes_per_core: 2_490_368, hertz: 2_100_000_000 }
    }
}
