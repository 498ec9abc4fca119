//! Results as lines of JSON, and a page of plots made of them.
//!
//! A run writes [`Line`]s: what its figure is, then a point at a time. Lines of many runs (shards of one sweep,
//! live and simulated ones) are merged by putting their files into one folder.

#![forbid(unsafe_code)]

mod line;

pub use line::{
    Axis, Claim, FigureLine, Kind, Line, Origin, Parameter, PointLine, SCHEMA_VERSION, Scale,
    SeriesHead,
};
