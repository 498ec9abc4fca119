//! A metric with its samples.

/// Samples of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Its name, without the `_total` that counters get when they are written.
    pub name: String,
    /// One sentence: what it counts or measures.
    pub help: String,
    /// How it behaves.
    pub kind: Kind,
    /// A sample for each set of labels.
    pub samples: Vec<Sample>,
}

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows while what counts it lives.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// A value with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Names and values.
    pub labels: Vec<(&'static str, String)>,
    /// What is counted or measured.
    pub value: Value,
}

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Of things.
    Count(u64),
    /// Of a quantity.
    Real(f64),
}

impl Family {
    /// A metric that goes up and down and has one sample without labels.
    pub(crate) fn gauge(name: &str, help: &str, value: Value) -> Self {
        Self::with(name, help, Kind::Gauge, vec![Sample { labels: Vec::new(), value }])
    }

    pub(crate) fn with(name: &str, help: &str, kind: Kind, samples: Vec<Sample>) -> Self {
        let name = format!("calisto_{}", as_name(name));
        Self { name, help: help.replace(['\n', '\\'], " "), kind, samples }
    }
}

/// What a metric's name may contain.
fn as_name(text: &str) -> String {
    let allowed = |letter: char| match letter.to_ascii_lowercase() {
        letter @ ('a'..='z' | '0'..='9' | '_') => letter,
        _ => '_',
    };
    text.chars().map(allowed).collect()
}
