//! `calisto bench load`: whether the load generator can be trusted, and how much it can send.

mod echo_port;
mod limit;
mod timing;

use crate::cases::{Bench, Case};

/// Options that `calisto bench load` alone has.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Load {}

impl Bench for Load {
    const NAME: &'static str = "load";
    const CASES: &'static [Case] = &[
        Case { name: "timing", help: "recorded latencies against the TSC's", run: timing::run },
        Case {
            name: "limit",
            help: "what leaves by a kernel socket, and sendmmsg's",
            run: limit::run,
        },
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printed::{self, value};

    #[test]
    fn what_is_recorded_is_printed_beside_what_the_counter_says() {
        let figures = printed::of_case(Load {}, "timing");
        for metric in ["error, p95", "latency, p50", "latency, p95"] {
            assert!(value(&figures, metric) > 0.0, "{metric}");
        }
    }
}
