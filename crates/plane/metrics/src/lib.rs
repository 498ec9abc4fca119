//! What the daemon counts, as monitoring systems read it: OpenMetrics, and whether it is ready.
//!
//! [`Scrape`] is what the daemon has answered. `families.rs` makes metrics of it, `apps.rs` bounds
//! the labels that programs choose, `exposition.rs` writes the text, and `readiness.rs` says what
//! keeps the daemon from serving. Nothing is asked and nothing is sent here.
#![forbid(unsafe_code)]

mod apps;
mod exposition;
mod families;
mod family;
mod readiness;
mod scrape;
#[cfg(test)]
mod tests;

pub use apps::APPS_MAX;
pub use exposition::{Format, render};
pub use families::{down, families};
pub use family::{Family, Kind, Sample, Value};
pub use readiness::obstacles;
pub use scrape::{AppSockets, Scrape};
