//! One step of a sweep, measured for itself.

use std::fmt::{self, Write};

use base::Nanos;
use serde::Serialize;

use crate::open_loop::PartSent;
use crate::{Latencies, Percentiles, Piece};

/// What a step of a sweep found.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Requests a second that were wanted.
    pub target_rate: f64,
    /// Requests a second that were answered.
    pub achieved_rate: f64,
    /// How long it was measured, in seconds: less than planned where the run was ended early.
    pub seconds: f64,
    /// Requests that were due in it and were sent.
    pub sent: u64,
    /// Of these, how many were answered.
    pub received: u64,
    /// Of these, how many were not.
    pub lost: u64,
    /// Requests that left more than 5 us after their intended time.
    pub late: u64,
    /// Requests that were due in it and never sent.
    pub never_sent: u64,
    /// Time to the reply from the intended time of each request; the lost ones wait for ever.
    pub latency: Percentiles,
    /// When it began, in seconds since 1970.
    pub start: u64,
    /// All latencies from the intended time.
    #[serde(skip)]
    pub latencies: Latencies,
}

impl Step {
    /// `measured`: how much of it was, before the run ended.
    pub(super) fn new(
        piece: &Piece,
        start: u64,
        measured: Nanos,
        counts: &PartSent,
        latencies: &Latencies,
    ) -> Self {
        let PartSent { sent, late, never_sent } = *counts;
        let seconds = measured.as_secs_f64();
        let received = latencies.count();
        let lost = sent.saturating_sub(received);
        Self {
            target_rate: piece.requests() / piece.length.as_secs_f64(),
            achieved_rate: if seconds > 0.0 { received as f64 / seconds } else { 0.0 },
            seconds,
            sent,
            received,
            lost,
            late,
            never_sent,
            latency: latencies.percentiles_with_missing(lost),
            start,
            latencies: latencies.clone(),
        }
    }

    pub(super) fn write_line(&self, text: &mut String) -> fmt::Result {
        let Self { target_rate, achieved_rate, lost, never_sent, latency, .. } = self;
        writeln!(
            text,
            "step        {target_rate:.0}/s wanted, {achieved_rate:.0}/s answered, {lost} lost, \
             {never_sent} never sent; us: p50 {:.1}, p99 {:.1}, p99.9 {:.1}",
            latency.p50_us, latency.p99_us, latency.p99_9_us
        )
    }
}
