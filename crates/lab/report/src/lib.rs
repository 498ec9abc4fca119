//! Results as lines of JSON, and a page of plots made of them.
//!
//! A run writes [`Line`]s: what its figure is, then a point at a time. Lines of many runs (shards
//! of one sweep, live and simulated ones) are merged by putting their files into one folder, which
//! [`read()`] makes a [`Report`] of: [`Report::page`] is the page, [`Figure::svg`] one plot.
//!
//! Files come from anywhere: what they may hold is bounded (`check.rs`), and nothing of it reaches
//! the page but as text (`markup.rs`). The same lines always make the same bytes.

#![forbid(unsafe_code)]

mod against;
mod canvas;
mod cells;
mod check;
mod cover;
mod csv;
mod curves;
mod differences;
mod error;
mod figure;
mod frame;
mod line;
mod look;
mod markup;
mod merge;
mod number;
mod page;
mod paper_table;
mod papers;
mod read;
mod ruler;
#[cfg(test)]
mod sample;
mod svg;
#[cfg(test)]
mod xml;

pub use differences::{CellChange, ClaimChange, Differences};
pub use error::{Error, SourceLine};
pub use figure::{Coverage, Figure};
pub use line::{
    Axis, Claim, FigureLine, Kind, Line, Origin, Parameter, PointLine, SCHEMA_VERSION, Scale,
    SeriesHead, Swing, Whose,
};
pub use merge::Report;
pub use page::Verdicts;
pub use papers::{Ours, Paper, PaperRow};
pub use read::read;
