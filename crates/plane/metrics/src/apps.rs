//! Bounds the labels that programs choose: how they call themselves.

use std::collections::BTreeMap;

use crate::family::Value;

/// Names of applications that get a label of their own; the rest share one.
pub const APPS_MAX: usize = 1000;

/// The label of the applications beyond [`APPS_MAX`].
const OTHERS: &str = "(others)";

/// Adds up by name: several applications may have the same, and numbers, which nobody shares, would
/// make new series with every start.
#[derive(Debug, Default)]
pub(crate) struct ByApp<'a> {
    sums: BTreeMap<&'a str, u64>,
}

impl<'a> ByApp<'a> {
    pub(crate) fn add(&mut self, app: &'a str, value: u64) {
        let is_known = self.sums.contains_key(app) || self.sums.len() < APPS_MAX;
        let sum = self.sums.entry(if is_known { app } else { OTHERS }).or_default();
        *sum = sum.wrapping_add(value);
    }

    pub(crate) fn samples(self) -> Vec<crate::family::Sample> {
        let sample = |(app, sum): (&str, u64)| crate::family::Sample {
            labels: vec![("app", app.to_owned())],
            value: Value::Count(sum),
        };
        self.sums.into_iter().map(sample).collect()
    }
}

/// The name that the daemon gave a thread of counters for an application: `app NAME (NUMBER)`.
pub(crate) fn app_of(thread: &str) -> Option<&str> {
    let name_and_number = thread.strip_prefix("app ")?;
    name_and_number.rsplit_once(" (").map(|(name, _)| name)
}

/// The application's label among at most [`APPS_MAX`] that come in the order of `seen`.
pub(crate) fn label<'a>(app: &'a str, seen: &mut Vec<&'a str>) -> &'a str {
    if !seen.contains(&app) {
        if seen.len() >= APPS_MAX {
            return OTHERS;
        }
        seen.push(app);
    }
    app
}
