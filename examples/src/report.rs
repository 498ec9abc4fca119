//! The figures at the end.

use calisto_client::Counters;
use serde::Serialize;
use serde_json::{Map, Value};

/// What an application has done, all workers and attachments together.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Report {
    /// Times that it has attached.
    pub(crate) attachments: u64,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) done: u64,
    pub(crate) sleeps: u64,
    pub(crate) wakes: u64,
    /// The service's own figures.
    #[serde(flatten)]
    own: Map<String, Value>,
}

impl Report {
    pub(crate) fn add(&mut self, counters: &Counters) {
        self.received += counters.received;
        self.sent += counters.sent;
        self.done += counters.done;
        self.sleeps += counters.sleeps;
        self.wakes += counters.wakes;
    }

    /// Adds a figure of a service to those of the same name.
    pub(crate) fn add_own(&mut self, name: &str, count: u64) {
        let sum = self.own.get(name).and_then(Value::as_u64).unwrap_or(0) + count;
        self.own.insert(name.to_owned(), sum.into());
    }

    /// One JSON object, or a line for people.
    pub(crate) fn text(&self, as_json: bool) -> String {
        if as_json {
            return serde_json::to_string(self).expect("numbers under names");
        }
        let mut text = format!(
            "{} packets received, {} sent, {} done without an answer",
            self.received, self.sent, self.done
        );
        for (name, count) in &self.own {
            text += &format!(", {} {count}", name.replace('_', " "));
        }
        text
    }
}
