//! Metrics as text: OpenMetrics 1.0, or the older text format of Prometheus, 0.0.4.

use std::fmt::{self, Write};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::family::{Family, Kind, Sample, Value};

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4, for clients that do not know the other.
    Text,
}

impl Format {
    /// What a client that sends this `Accept` understands.
    pub fn accepted(accept: &str) -> Self {
        match accept.contains("application/openmetrics-text") {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }

    /// The `Content-Type` of it.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The metrics as text.
pub fn render(families: Vec<Family>, format: Format) -> String {
    let counters: Vec<String> = match format {
        Format::OpenMetrics => Vec::new(),
        Format::Text => counters(&families),
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    let mut openmetrics = String::new();
    text::encode(&mut openmetrics, &registry).expect("a string takes all that is written");
    match format {
        Format::OpenMetrics => openmetrics,
        Format::Text => older(&openmetrics, &counters),
    }
}

fn counters(families: &[Family]) -> Vec<String> {
    let counters = families.iter().filter(|family| family.kind == Kind::Counter);
    let mut names: Vec<String> = counters.map(|family| family.name.clone()).collect();
    names.sort_unstable();
    names
}

/// The same in the older format: there the comments of a counter name it as its samples do, and
/// nothing marks the end.
fn older(openmetrics: &str, counters: &[String]) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines().filter(|line| *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        let comment = (words.next(), words.next(), words.next(), words.next());
        let written = match comment {
            (Some("#"), Some(what @ ("HELP" | "TYPE")), Some(name), rest)
                if counters.binary_search_by(|counter| counter.as_str().cmp(name)).is_ok() =>
            {
                writeln!(text, "# {what} {name}_total {}", rest.unwrap_or_default())
            }
            _ => writeln!(text, "{line}"),
        };
        written.expect("a string takes all that is written");
    }
    text
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Family { name, help, kind, samples } in &self.0 {
            let kind_name = match kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut metric = encoder.encode_descriptor(name, help, None, kind_name)?;
            // By itself it would get empty braces.
            if let [Sample { labels, value }] = &samples[..]
                && labels.is_empty()
            {
                encode(*kind, *value, metric)?;
                continue;
            }
            for Sample { labels, value } in samples {
                encode(*kind, *value, metric.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

fn encode(kind: Kind, value: Value, sample: MetricEncoder<'_>) -> fmt::Result {
    match (kind, value) {
        (Kind::Counter, Value::Count(count)) => ConstCounter::new(count).encode(sample),
        (Kind::Counter, Value::Real(real)) => ConstCounter::new(real).encode(sample),
        (Kind::Gauge, Value::Count(count)) => ConstGauge::new(count as f64).encode(sample),
        (Kind::Gauge, Value::Real(real)) => ConstGauge::new(real).encode(sample),
    }
}
