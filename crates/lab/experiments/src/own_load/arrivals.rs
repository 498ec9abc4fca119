//! Requests that are made, where nobody has seen any.

use base::Nanos;
use load::{Distribution, Random, Zipf};
use sim::model::{Trace, Traced};

/// Requests independent of each other.
#[derive(Clone, Copy, Debug)]
pub struct Poisson {
    /// Requests a second.
    pub rate: f64,
    /// What one takes, on average.
    pub service: Nanos,
    /// The distribution of that.
    pub distribution: Distribution,
    /// Flows that they are of.
    pub flows: u32,
    /// The k-th flow has a share as 1 / k to this power; 0: all alike.
    pub zipf: f64,
    /// Requests of a run.
    pub requests: u32,
}

impl Poisson {
    /// The requests of a run.
    pub(super) fn trace(&self, seed: u64) -> Trace {
        let mut random = Random::new(seed ^ 0x51ed_2701);
        let law = (self.zipf > 0.0).then(|| Zipf::new(self.flows, self.zipf));
        let mut at = 0.0;
        let packets = (0..self.requests).map(|_| {
            at += random.exponential() * 1e9 / self.rate;
            let flow = match law {
                Some(law) => law.draw(&mut random),
                None => random.below(self.flows),
            };
            let work = Nanos(self.distribution.sample(self.service.0, &mut random));
            Traced { at: Nanos(at as u64), flow, work }
        });
        Trace::new(packets.collect())
    }
}
