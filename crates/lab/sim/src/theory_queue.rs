//! Customers arrive, wait in one queue for the first server that is free, are served and leave.

use std::collections::VecDeque;

use base::Nanos;
use load::{Distribution, Latencies, Random};

use crate::{BatchMeans, EventQueue};

/// A queue and its load.
#[derive(Clone, Copy, Debug)]
pub struct TheoryQueue {
    /// Servers, at least one.
    pub servers: u32,
    /// The mean time between two arrivals; they are independent of each other (Poisson).
    pub gap: Nanos,
    /// The distribution of the service times.
    pub service: Distribution,
    /// Their mean.
    pub service_mean: Nanos,
}

/// What became of the customers.
#[derive(Debug)]
pub struct Served {
    /// Times from arrival to the begin of service, in nanoseconds.
    pub waits: BatchMeans,
    /// The same as a histogram.
    pub wait_quantiles: Latencies,
    /// Times from arrival to departure.
    pub sojourn_quantiles: Latencies,
    /// Customers who arrived.
    pub arrived: u64,
    /// Customers who left.
    pub left: u64,
    /// Customers who are still there: arrived = left + there.
    pub there: u64,
    /// The order in which customers began to be served was that of their arrivals.
    pub in_order: bool,
}

enum Event {
    Arrival,
    Departure(Customer),
}

#[derive(Clone, Copy)]
struct Customer {
    number: u64,
    arrived: Nanos,
    service: Nanos,
}

impl TheoryQueue {
    /// Lets `warm_up` customers begin unseen, so that the queue is no longer empty, and then
    /// measures `customers` of them.
    pub fn run(&self, seed: u64, warm_up: u64, customers: u64) -> Served {
        let (mut arrivals, mut work) = (Random::new(seed), Random::new(!seed));
        let mut events = EventQueue::default();
        let mut queue: VecDeque<Customer> = VecDeque::new();
        let mut idle = self.servers;
        let mut served = Served {
            waits: BatchMeans::new(customers),
            wait_quantiles: Latencies::default(),
            sojourn_quantiles: Latencies::default(),
            arrived: 0,
            left: 0,
            there: 0,
            in_order: true,
        };
        let mut begun = 0;
        events.put(Nanos::ZERO, Event::Arrival);
        while begun < warm_up + customers
            && let Some(event) = events.take()
        {
            let now = events.now();
            match event {
                Event::Arrival => {
                    let gap = self.gap.0 as f64 * arrivals.exponential();
                    events.put(now + Nanos(gap.round() as u64), Event::Arrival);
                    let service = Nanos(self.service.sample(self.service_mean.0, &mut work));
                    queue.push_back(Customer { number: served.arrived, arrived: now, service });
                    served.arrived += 1;
                }
                Event::Departure(customer) => {
                    idle += 1;
                    served.left += 1;
                    if customer.number >= warm_up {
                        served.sojourn_quantiles.record(now.since(customer.arrived));
                    }
                }
            }
            if idle > 0
                && let Some(customer) = queue.pop_front()
            {
                idle -= 1;
                served.in_order &= customer.number == begun;
                begun += 1;
                if begun > warm_up {
                    let wait = now.since(customer.arrived);
                    served.waits.add(wait.0 as f64);
                    served.wait_quantiles.record(wait);
                }
                events.put(now + customer.service, Event::Departure(customer));
            }
        }
        served.there = queue.len() as u64 + u64::from(self.servers - idle);
        served
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_form;

    const MEAN: Nanos = Nanos::from_micros(10);

    fn theory_queue(servers: u32, load: f64, service: Distribution) -> TheoryQueue {
        let gap = Nanos((MEAN.0 as f64 / load).round() as u64);
        TheoryQueue { servers, gap, service, service_mean: MEAN }
    }

    fn run(theory_queue: TheoryQueue) -> Served {
        let served = theory_queue.run(42, 50_000, 2_000_000);
        assert!(served.in_order);
        assert_eq!(served.arrived, served.left + served.there, "nobody is lost");
        served
    }

    fn waits_as_theory_says(theory_queue: TheoryQueue, expected: f64) {
        let waits = run(theory_queue).waits.interval().expect("the run is over");
        let expected = expected * MEAN.0 as f64;
        assert!(waits.allows(expected), "{theory_queue:?}: {waits:?}, expected {expected}");
        assert!(waits.half_width < 0.1 * expected, "{theory_queue:?} {waits:?} says nothing");
    }

    #[test]
    fn one_server_makes_wait_as_pollaczek_and_khinchin_say() {
        // Squared coefficients of variation: 0.9 x 0.25 + 0.1 x 30.25 - 1 of bimodal1.
        for (service, scv) in [
            (Distribution::Constant, 0.0),
            (Distribution::Exponential, 1.0),
            (Distribution::Bimodal1, 2.25),
        ] {
            for load in [0.3, 0.7, 0.85] {
                waits_as_theory_says(
                    theory_queue(1, load, service),
                    closed_form::mg1_mean_wait(load, scv),
                );
            }
        }
    }

    #[test]
    fn many_servers_make_wait_as_erlang_says() {
        for (servers, load) in [(2, 1.4), (10, 7.0), (10, 9.0)] {
            waits_as_theory_says(
                theory_queue(servers, load, Distribution::Exponential),
                closed_form::mmn_mean_wait(servers, load),
            );
        }
    }

    #[test]
    fn percentiles_are_those_of_the_distributions_that_theory_names() {
        let is_near = |found: Nanos, expected: f64| {
            let ratio = found.0 as f64 / (expected * MEAN.0 as f64);
            assert!((0.93..1.07).contains(&ratio), "{found:?} is {ratio} of what is expected");
        };
        let one = run(theory_queue(1, 0.7, Distribution::Exponential));
        let ten = run(theory_queue(10, 9.0, Distribution::Exponential));
        for share in [0.5, 0.9, 0.99] {
            let expected = closed_form::mm1_sojourn_quantile(0.7, share);
            is_near(one.sojourn_quantiles.quantile(share), expected);
            let expected = closed_form::mmn_wait_quantile(10, 9.0, share);
            is_near(ten.wait_quantiles.quantile(share), expected);
        }
    }

    #[test]
    fn one_seed_gives_one_result_and_another_seed_another() {
        let theory_queue = theory_queue(2, 1.5, Distribution::Exponential);
        let mean = |seed| theory_queue.run(seed, 100, 10_000).waits.interval();
        assert_eq!(mean(1), mean(1));
        assert_ne!(mean(1), mean(2));
    }
}
