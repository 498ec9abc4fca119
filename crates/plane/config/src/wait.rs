//! `[wait]`: what threads without work do.

use base::Nanos;
use serde::{Deserialize, Serialize};

/// `[wait]`: what a thread without work does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wait {
    /// Microseconds that it polls before it idles, at most: as long as the gaps of the recent past
    /// say that it pays; 0: none, -1: for ever. Default: 50.
    pub spin_us: i64,
    /// How it idles. Default: sleep.
    pub idle: Idle,
}

impl Wait {
    /// `spin_us` as a length of time.
    pub const fn spin(&self) -> Spin {
        match self.spin_us {
            ..0 => Spin::Forever,
            micros => Spin::For(Nanos::from_micros(micros as u64)),
        }
    }
}

impl Default for Wait {
    fn default() -> Self {
        Self { spin_us: 50, idle: Idle::Sleep }
    }
}

/// How long to poll before idling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spin {
    /// This long.
    For(Nanos),
    /// It never idles.
    Forever,
}

/// How a thread idles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// In the kernel, until it is woken.
    Sleep,
    /// It offers its CPU to others, again and again.
    Yield,
    /// Not at all: it keeps polling.
    Spin,
}
