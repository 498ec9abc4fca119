//! What queueing theory knows exactly: first come first served, one queue, Poisson arrivals.
//!
//! Times are in units of the mean service time, loads in servers kept busy. Sources: Kleinrock,
//! Queueing Systems I: M/M/1 3.2, M/M/m (Erlang C) 3.5, M/G/1 (Pollaczek and Khinchin) 5.6.

/// The mean wait of M/G/1 at `load` < 1, for a service time whose squared coefficient of variation
/// is `scv` (exponential 1, constant 0).
pub fn mg1_mean_wait(load: f64, scv: f64) -> f64 {
    load * (1.0 + scv) / (2.0 * (1.0 - load))
}

/// The time in M/M/1 (wait and service) that a share `quantile` of the customers stay below: it is
/// exponential with mean 1 / (1 - load).
pub fn mm1_sojourn_quantile(load: f64, quantile: f64) -> f64 {
    -(1.0 - quantile).ln() / (1.0 - load)
}

/// The probability that a customer of M/M/n has to wait, at `load` < n (Erlang's C).
pub fn erlang_c(servers: u32, load: f64) -> f64 {
    // By Erlang's B, whose recurrence neither overflows nor cancels.
    let blocked = (1..=servers).fold(1.0, |blocked, server| {
        let offered = load * blocked;
        offered / (f64::from(server) + offered)
    });
    let n = f64::from(servers);
    n * blocked / (n - load * (1.0 - blocked))
}

/// The mean wait of M/M/n.
pub fn mmn_mean_wait(servers: u32, load: f64) -> f64 {
    erlang_c(servers, load) / (f64::from(servers) - load)
}

/// The wait in M/M/n that a share `quantile` of the customers stay below: zero for those that find
/// a server free, exponential for the others.
pub fn mmn_wait_quantile(servers: u32, load: f64, quantile: f64) -> f64 {
    let waits = erlang_c(servers, load);
    if quantile <= 1.0 - waits {
        return 0.0;
    }
    (waits / (1.0 - quantile)).ln() / (f64::from(servers) - load)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-4 * expected.abs().max(1e-3), "{value} {expected}");
    }

    #[test]
    fn one_server_of_many_is_the_queue_with_one_server() {
        for load in [0.1, 0.5, 0.9] {
            is_near(erlang_c(1, load), load);
            is_near(mmn_mean_wait(1, load), mg1_mean_wait(load, 1.0));
        }
    }

    #[test]
    fn constant_service_waits_half_as_long_as_exponential_service() {
        is_near(mg1_mean_wait(0.8, 0.0), 2.0);
        is_near(mg1_mean_wait(0.8, 1.0), 4.0);
    }

    #[test]
    fn erlang_c_has_the_values_of_the_tables() {
        // Two servers: load^2 / (2 + load); ten servers of which eight are busy: 0.4092.
        is_near(erlang_c(2, 1.0), 1.0 / 3.0);
        is_near(erlang_c(10, 8.0), 0.409_180_2);
    }

    #[test]
    fn quantiles_fit_their_means() {
        // The mean is the area over the distribution function.
        let area = |quantile: &dyn Fn(f64) -> f64| {
            (0..200_000).map(|at| quantile((f64::from(at) + 0.5) / 200_000.0)).sum::<f64>()
                / 200_000.0
        };
        let sojourn = area(&|share| mm1_sojourn_quantile(0.7, share));
        assert!((sojourn - 1.0 / 0.3).abs() < 0.001, "{sojourn}");
        let wait = area(&|share| mmn_wait_quantile(10, 9.0, share));
        assert!((wait - mmn_mean_wait(10, 9.0)).abs() < 0.001, "{wait}");
    }
}
