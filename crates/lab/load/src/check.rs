//! Thresholds that a run is held to: `p95=100us,lost=0`.

use std::fmt;
use std::str::FromStr;

use base::Nanos;

use crate::{Report, Requests, parse_duration, parse_rate};

/// One threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    figure: &'static Figure,
    limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// A latency, at most.
    Latency(Nanos),
    /// A count, at most.
    Count(u64),
    /// A rate, at least.
    Rate(f64),
}

/// A figure that can be held to a threshold.
#[derive(Debug)]
struct Figure {
    name: &'static str,
    of: Of,
}

#[derive(Clone, Copy, Debug)]
enum Of {
    Latency(fn(&Report) -> f64),
    Count(fn(&Report) -> u64),
    Rate(fn(&Report) -> f64),
}

impl PartialEq for Figure {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

static FIGURES: [Figure; 18] = [
    Figure { name: "p50", of: Of::Latency(|report| report.times.latency.p50_us) },
    Figure { name: "p90", of: Of::Latency(|report| report.times.latency.p90_us) },
    Figure { name: "p95", of: Of::Latency(|report| report.times.latency.p95_us) },
    Figure { name: "p99", of: Of::Latency(|report| report.times.latency.p99_us) },
    Figure { name: "p99.9", of: Of::Latency(|report| report.times.latency.p99_9_us) },
    Figure { name: "max", of: Of::Latency(|report| report.times.latency.max_us) },
    Figure { name: "mean", of: Of::Latency(|report| report.times.latency.mean_us) },
    Figure { name: "lost", of: Of::Count(|report| report.requests.lost) },
    Figure { name: "late", of: Of::Count(|report| report.requests.late) },
    Figure { name: "never_sent", of: Of::Count(|report| report.requests.never_sent) },
    Figure { name: "duplicates", of: Of::Count(|report| report.replies.duplicates) },
    Figure { name: "reordered", of: Of::Count(|report| report.replies.reordered) },
    Figure { name: "corrupted", of: Of::Count(|report| report.replies.corrupted) },
    Figure { name: "errors", of: Of::Count(|report| report.replies.errors) },
    Figure { name: "closed", of: Of::Count(|report| report.transport.closed) },
    Figure { name: "broken", of: Of::Count(|report| report.transport.broken) },
    Figure { name: "refused", of: Of::Count(|report| report.transport.refused) },
    Figure { name: "rate", of: Of::Rate(|report| report.rates.achieved_rate) },
];

impl Check {
    /// The sentence that says how far `report` misses it; nothing when it is met. A latency that
    /// falls on a lost request is missed, whatever the limit.
    pub fn missed_by(&self, report: &Report) -> Option<String> {
        let Self { figure: Figure { name, of }, limit } = self;
        match (of, limit) {
            (Of::Latency(_), Limit::Latency(_)) if report.requests.received == 0 => {
                Some(format!("{name} is not known: nothing was answered"))
            }
            (Of::Latency(of), Limit::Latency(limit)) => {
                let (found, limit) = (of(report), limit.as_micros_f64());
                if found.is_infinite() {
                    let Requests { lost, sent, .. } = report.requests;
                    return Some(format!(
                        "{name} is not known: {lost} of {sent} requests were never answered, and it \
                         falls among them"
                    ));
                }
                (found > limit).then(|| format!("{name} is {found:.1} us, above {limit:.1} us"))
            }
            (Of::Count(of), Limit::Count(limit)) => {
                let found = of(report);
                (found > *limit).then(|| format!("{name} is {found}, above {limit}"))
            }
            (Of::Rate(of), Limit::Rate(limit)) => {
                let found = of(report);
                (found < *limit).then(|| format!("{name} is {found:.0}/s, below {limit:.0}/s"))
            }
            _ => None,
        }
    }
}

impl FromStr for Check {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            format!("{text:?} is no threshold: write FIGURE=LIMIT, as in p95=100us or lost=0")
        })?;
        let figure = FIGURES.iter().find(|figure| figure.name == name).ok_or_else(|| {
            let names: Vec<_> = FIGURES.iter().map(|figure| figure.name).collect();
            format!("there is no figure {name:?} to check; there are {}", names.join(", "))
        })?;
        let limit = match figure.of {
            Of::Latency(_) => Limit::Latency(parse_duration(value)?),
            Of::Rate(_) => Limit::Rate(parse_rate(value)?),
            Of::Count(_) => Limit::Count(
                value
                    .parse()
                    .map_err(|_| format!("{name}={value}: the limit is a whole number"))?,
            ),
        };
        Ok(Self { figure, limit })
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.figure.name;
        match self.limit {
            Limit::Latency(limit) => write!(f, "{name}={}us", limit.as_micros_f64()),
            Limit::Count(limit) => write!(f, "{name}={limit}"),
            Limit::Rate(limit) => write!(f, "{name}={limit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report;

    #[test]
    fn a_threshold_is_met_up_to_its_limit_and_missed_by_a_sentence_with_both_numbers() {
        let mut report = report::sample();
        for (check, sentence) in [
            ("p50=52us", None),
            ("p50=49us", Some("p50 is 51.0 us, above 49.0 us")),
            ("p99=1ms", None),
            ("lost=1", None),
            ("lost=0", Some("lost is 1, above 0")),
            ("rate=100", None),
            ("rate=0.2k", Some("rate is 100/s, below 200/s")),
        ] {
            let check: Check = check.parse().expect(check);
            assert_eq!(check.missed_by(&report).as_deref(), sentence, "{check}");
        }
        let checks = ["lost=0", "p50=1ms"].map(|check| check.parse().expect("as above"));
        assert!(!report.apply(&checks));
        assert_eq!(report.failed_checks.len(), 1);
    }

    #[test]
    fn a_latency_that_falls_on_a_lost_request_is_missed_whatever_the_limit() {
        // One of 101 was lost.
        let report = report::sample();
        for (text, is_met) in
            [("p99=1ms", true), ("p99.9=60s", false), ("max=60s", false), ("mean=60s", false)]
        {
            let check: Check = text.parse().expect(text);
            let missed = check.missed_by(&report);
            assert_eq!(missed.is_none(), is_met, "{text}: {missed:?}");
            assert!(missed.is_none_or(|words| words.contains("1 of 101")), "{text}");
        }
    }

    #[test]
    fn a_latency_of_a_run_without_replies_is_missed() {
        let mut report = report::sample();
        report.requests.received = 0;
        let check: Check = "p95=10s".parse().expect("it is a threshold");
        assert!(check.missed_by(&report).is_some());
    }

    #[test]
    fn what_is_no_threshold_is_refused_by_a_sentence() {
        for (text, words) in [
            ("p95", "FIGURE=LIMIT"),
            ("p42=1us", "there are p50, p90"),
            ("lost=1.5", "whole number"),
            ("p95=fast", "no length of time"),
            ("rate=0", "no rate"),
        ] {
            let sentence = text.parse::<Check>().expect_err(text);
            assert!(sentence.contains(words), "{sentence}");
        }
    }
}
