//! Settings of the steering.

use base::Nanos;

use crate::migrate::MigrateConfig;

/// Groups, hand-overs, ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SteeringConfig {
    /// Flow groups: a power of two from 128 to 1 Mi.
    pub groups: u32,
    /// Flows that can be pinned one by one, at most (0: none).
    pub overrides: u32,
    /// Worker ids are below this.
    pub workers_max: u16,
    /// Time between two control ticks.
    pub tick: Nanos,
    /// Time between two slices of load; a slice has at most 4096 groups.
    pub load_interval: Nanos,
    /// Hand-overs.
    pub migrate: MigrateConfig,
}

impl Default for SteeringConfig {
    fn default() -> Self {
        Self {
            groups: 1 << 16,
            overrides: 1024,
            workers_max: 64,
            tick: Nanos::from_micros(50),
            load_interval: Nanos::from_millis(1),
            migrate: MigrateConfig::default(),
        }
    }
}
