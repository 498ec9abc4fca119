//! What the machine has shown, as rows.

use std::collections::BTreeMap;

use base::Nanos;
use sim::model::{AppOutcome, Outcome, StepOutcome};

use super::super::form::{Row, Task};
use super::plan::Timetable;
use crate::scenario::Over;

pub(super) const VALUES: &[&str] = &[
    "p50_us",
    "p90_us",
    "p99_us",
    "p99_9_us",
    "mean_us",
    "offered_kpps",
    "delivered_kpps",
    "moved_percent",
    "moved_flows",
    "cold_percent",
    "reordered_packets",
    "held_packets",
    "stolen_percent",
    "dropped_packets",
    "table_full_packets",
    "grants_per_s",
    "cores",
    "busy_percent",
    "batch_cores",
    "dispatcher_percent",
];

/// Everything that all applications of requests have shown in some stretches of time.
#[derive(Default)]
struct Sum {
    length: Nanos,
    all: AppOutcome,
    batch_time: Nanos,
    dispatcher: Nanos,
}

impl Sum {
    fn add(&mut self, step: &StepOutcome, services: usize) {
        let (at_begin, is_first) = (self.all.at_begin, self.length == Nanos::ZERO);
        // What was there at the begin of the first and at the end of the last, not of each.
        self.all.unfinished = 0;
        step.apps[..services].iter().for_each(|app| self.all.add(app));
        if !is_first {
            self.all.at_begin = at_begin;
        }
        self.length += step.length;
        self.dispatcher += step.dispatcher;
        self.batch_time += step.apps.get(services).map_or(Nanos::ZERO, |batch| batch.core_time);
    }

    fn row(&self, over: Over, at: Option<f64>) -> Row {
        let Self { length, all, batch_time, dispatcher } = self;
        let seconds = length.as_secs_f64();
        let percentiles = all.latency.percentiles();
        let percent = |count: u64| 100.0 * count as f64 / all.delivered.max(1) as f64;
        let busy = all.busy_time.as_secs_f64() / all.core_time.as_secs_f64().max(1e-12);
        let values = BTreeMap::from([
            ("p50_us", percentiles.p50_us),
            ("p90_us", percentiles.p90_us),
            ("p99_us", percentiles.p99_us),
            ("p99_9_us", percentiles.p99_9_us),
            ("mean_us", percentiles.mean_us),
            ("offered_kpps", all.offered as f64 / seconds / 1e3),
            ("delivered_kpps", all.delivered as f64 / seconds / 1e3),
            ("moved_percent", percent(all.moved_packets)),
            ("moved_flows", all.moved_flows as f64),
            ("cold_percent", percent(all.cold_packets)),
            ("reordered_packets", all.reordered as f64),
            ("held_packets", all.held as f64),
            ("stolen_percent", percent(all.stolen)),
            ("dropped_packets", all.dropped as f64),
            ("table_full_packets", all.table_full as f64),
            ("grants_per_s", all.grants as f64 / seconds),
            ("cores", all.cores(*length)),
            ("busy_percent", 100.0 * busy),
            ("batch_cores", batch_time.as_secs_f64() / seconds),
            ("dispatcher_percent", 100.0 * dispatcher.as_secs_f64() / seconds),
        ]);
        let saturated = match over {
            // For a moment there may be more than can be served: that is what a sweep over time
            // shows. While nothing was answered at all, no latency is known.
            Over::Time => all.delivered == 0 && all.unfinished > 0,
            _ => all.is_saturated(),
        };
        Row { at, values, saturated }
    }
}

pub(super) fn rows(task: &Task<'_>, timetable: &Timetable, outcome: &Outcome) -> Vec<Row> {
    let services = task.settings.whole("apps") as usize;
    let mut rows = Vec::new();
    let (mut sum, mut end) = (Sum::default(), Nanos::ZERO);
    for (number, step) in outcome.steps.iter().enumerate() {
        end += step.length;
        if number < timetable.unseen {
            continue;
        }
        sum.add(step, services);
        if timetable.apart {
            let at = (task.over == Over::Time).then(|| end.as_micros_f64());
            rows.push(std::mem::take(&mut sum).row(task.over, at));
        }
    }
    if !timetable.apart {
        rows.push(sum.row(task.over, None));
    }
    rows
}
