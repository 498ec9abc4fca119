//! What samples say together: each stage's percentiles, and its part of the whole.

use admin::TracedRequest;
use serde::Serialize;

use crate::table::{Cell, Table};

/// Letters of the longest bar.
const BAR_LETTERS: usize = 30;

/// Of how many requests the slowest are looked at by themselves.
const SLOWEST_OF: usize = 100;

/// Everything that is told.
#[derive(Debug, Serialize)]
pub(super) struct Stages {
    /// Samples.
    pub(super) requests: u64,
    /// Along the way of a request.
    stages: Vec<Stage>,
    /// All of it.
    total: Figures,
}

#[derive(Debug, Serialize)]
struct Stage {
    stage: &'static str,
    #[serde(flatten)]
    figures: Figures,
    /// Its part of the time of all requests together, and of the slowest hundredth.
    share: f64,
    share_of_slowest: f64,
}

#[derive(Debug, Serialize)]
struct Figures {
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    mean_us: f64,
}

impl Figures {
    fn of(mut lengths_ns: Vec<u64>) -> Self {
        lengths_ns.sort_unstable();
        let us = |ns: u64| ns as f64 / 1000.0;
        // The nearest rank.
        let at = |share: f64| {
            let rank = (lengths_ns.len() as f64 * share).ceil() as usize;
            lengths_ns.get(rank.max(1) - 1).copied().map_or(0.0, us)
        };
        let sum: u128 = lengths_ns.iter().map(|ns| u128::from(*ns)).sum();
        let mean_us = sum as f64 / 1000.0 / lengths_ns.len().max(1) as f64;
        Self { p50_us: at(0.5), p99_us: at(0.99), max_us: at(1.0), mean_us }
    }
}

type Length = fn(&TracedRequest) -> u64;

const STAGES: [(&str, Length); 6] = [
    ("dispatch", |of| of.dispatch_ns),
    ("receive", |of| of.receive_ns),
    ("wake-up", |of| of.wake_up_ns),
    ("application", |of| of.application_ns),
    ("notice", |of| of.notice_ns),
    ("transmit", |of| of.transmit_ns),
];

fn total(of: &TracedRequest) -> u64 {
    STAGES.iter().map(|(_, length)| length(of)).fold(0, u64::saturating_add)
}

impl Stages {
    pub(super) fn of(samples: &[TracedRequest]) -> Self {
        let mut by_length: Vec<&TracedRequest> = samples.iter().collect();
        by_length.sort_by_key(|of| std::cmp::Reverse(total(of)));
        by_length.truncate(samples.len().div_ceil(SLOWEST_OF));
        let part = |of: &[&TracedRequest], length: Length| {
            let sum = |length: &dyn Fn(&TracedRequest) -> u64| -> u128 {
                of.iter().map(|one| u128::from(length(one))).sum()
            };
            sum(&length) as f64 / sum(&total).max(1) as f64
        };
        let all: Vec<&TracedRequest> = samples.iter().collect();
        let stages = STAGES.map(|(stage, length)| Stage {
            stage,
            figures: Figures::of(samples.iter().map(length).collect()),
            share: part(&all, length),
            share_of_slowest: part(&by_length, length),
        });
        Self {
            requests: samples.len() as u64,
            stages: stages.into(),
            total: Figures::of(samples.iter().map(total).collect()),
        }
    }

    pub(super) fn render(&self) -> String {
        let mut table =
            Table::new(["stage", "p50 us", "p99 us", "max us", "of all", "of slowest 1 %", ""]);
        let figures = |of: &Figures| {
            [of.p50_us, of.p99_us, of.max_us].map(|value| Cell::decimal(value, 1, ""))
        };
        for Stage { stage, figures: lengths, share, share_of_slowest } in &self.stages {
            let [p50, p99, max] = figures(lengths);
            let percent = |share: f64| Cell::decimal(100.0 * share, 0, " %");
            let bar = "#".repeat((share * BAR_LETTERS as f64).round() as usize);
            let (all, slowest) = (percent(*share), percent(*share_of_slowest));
            table.row([(*stage).into(), p50, p99, max, all, slowest, bar.into()]);
        }
        let [p50, p99, max] = figures(&self.total);
        let whole = || Cell::Number("100 %".to_owned());
        table.row(["together".into(), p50, p99, max, whole(), whole(), "".into()]);
        table.render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(application_us: u64, wake_up_us: u64) -> TracedRequest {
        TracedRequest {
            app: 1,
            app_name: "web".to_owned(),
            dispatch_ns: 500,
            receive_ns: 1500,
            wake_up_ns: 1000 * wake_up_us,
            application_ns: 1000 * application_us,
            notice_ns: 0,
            transmit_ns: 2000,
        }
    }

    #[test]
    fn stages_add_up_and_the_slowest_show_what_made_them_slow() {
        let mut samples: Vec<_> = (0..198).map(|_| request(10, 2)).collect();
        samples.extend([request(10, 990), request(10, 986)]);
        let stages = Stages::of(&samples);
        assert_eq!(stages.requests, 200);
        let sum: f64 = stages.stages.iter().map(|stage| stage.share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let wake_up = &stages.stages[2];
        assert_eq!((wake_up.stage, wake_up.figures.p50_us), ("wake-up", 2.0));
        assert_eq!((wake_up.figures.p99_us, wake_up.figures.max_us), (2.0, 990.0));
        assert!(wake_up.share_of_slowest > 0.98, "{}", wake_up.share_of_slowest);
        assert!(wake_up.share < 0.5, "{}", wake_up.share);
        assert_eq!((stages.total.p50_us, stages.total.max_us), (16.0, 1004.0));
        let text = stages.render();
        assert!(text.contains("application") && text.contains("#####"), "{text}");
        assert_eq!(text.lines().count(), 8, "{text}");
    }

    #[test]
    fn nothing_sampled_is_told_by_zeros() {
        let stages = Stages::of(&[]);
        assert_eq!((stages.requests, stages.total.max_us), (0, 0.0));
    }
}
