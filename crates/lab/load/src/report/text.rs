//! A report for people, and the CSV line of Shenango's `synthetic` for its plotting scripts.

use std::fmt::Write;

use super::{Replies, Report, Requests, Run, Step};
use crate::{Distribution, Latencies, Percentiles, TransportCounters};

impl Report {
    /// The report as a table, a line each.
    pub fn table(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_table(&mut text);
        text
    }

    /// The header of [`Self::csv_line`]: that of Shenango's `synthetic`.
    pub fn csv_header() -> &'static str {
        "Distribution, Target, Actual, Dropped, Never Sent, Median, 90th, 99th, 99.9th, 99.99th, \
         Start"
    }

    /// The run as a line of that CSV: latencies in microseconds, `inf` where a lost request falls.
    pub fn csv_line(&self) -> String {
        csv_line(
            self.run.distribution,
            self.rates.target_rate.unwrap_or(self.rates.sent_rate),
            self.rates.achieved_rate,
            (self.requests.lost, self.requests.never_sent),
            &self.times.latencies,
            self.run.start,
        )
    }

    /// A line for each step of a sweep, or the one of a run without steps; each ends in a newline.
    pub fn csv_lines(&self) -> String {
        if self.steps.is_empty() {
            return self.csv_line() + "\n";
        }
        let line = |step: &Step| {
            let Step { target_rate, achieved_rate, lost, never_sent, latencies, start, .. } = step;
            let counts = (*lost, *never_sent);
            csv_line(self.run.distribution, *target_rate, *achieved_rate, counts, latencies, *start)
                + "\n"
        };
        self.steps.iter().map(line).collect()
    }

    fn write_table(&self, text: &mut String) -> std::fmt::Result {
        let Requests { sent, received, lost, late, never_sent } = &self.requests;
        writeln!(text, "generator   {}", self.run.generator)?;
        writeln!(text, "placement   {}", self.run.placement)?;
        let Run { distribution, iterations, seed, .. } = &self.run;
        writeln!(text, "work        {distribution}, mean {iterations} iterations; seed {seed}")?;
        let early = if self.run.interrupted { ", ended early" } else { "" };
        writeln!(text, "measured    {:.2} s{early}", self.rates.seconds)?;
        let target = match self.rates.target_rate {
            Some(rate) => format!(" of {rate:.0} wanted"),
            None => String::new(),
        };
        writeln!(
            text,
            "rate        {:.0}/s answered, {:.0}/s sent{target}",
            self.rates.achieved_rate, self.rates.sent_rate
        )?;
        writeln!(
            text,
            "requests    {sent} sent, {received} answered, {lost} lost, {late} late, {never_sent} \
             never sent"
        )?;
        let Replies { duplicates, reordered, corrupted, expired, .. } = &self.replies;
        writeln!(
            text,
            "replies     {reordered} reordered, {duplicates} duplicate, {corrupted} corrupted, \
             {expired} after they were given up"
        )?;
        let troubles = [
            (self.transport.send_full, "calls without room to send"),
            (self.transport.send_errors, "requests not sent because of errors"),
            (self.transport.refused, "refusals: nobody listens at the target"),
            (self.transport.strangers, "packets that were no replies"),
            (self.replies.errors, "answers that were errors of the server"),
            (self.transport.closed, "connections that ended too soon"),
            (self.transport.broken, "connections given up because of what came"),
            (self.transport.resent, "requests sent again on a new connection"),
        ];
        for (count, what) in troubles {
            if count > 0 {
                writeln!(text, "trouble     {count} {what}")?;
            }
        }
        let TransportCounters { hits, misses, stored, .. } = &self.transport;
        if hits + misses + stored > 0 {
            writeln!(text, "values      {hits} hits, {misses} misses, {stored} stored")?;
        }
        let columns = ["p50", "p90", "p95", "p99", "p99.9", "p99.99", "max", "mean"];
        write!(text, "latency, us           ")?;
        columns.iter().try_for_each(|column| write!(text, "{column:>10}"))?;
        writeln!(text)?;
        write_row(text, "  from intended time", &self.times.latency)?;
        write_row(text, "  from sending", &self.times.latency_from_send)?;
        if self.rates.target_rate.is_some() {
            write_row(text, "  generator's delay", &self.times.send_delay)?;
        }
        self.steps.iter().try_for_each(|step| step.write_line(text))?;
        write!(text, "stolen     ")?;
        for stolen in &self.stolen {
            write!(text, " CPU {} {:.0} ms", stolen.cpu, stolen.millis)?;
        }
        writeln!(text)?;
        self.failed_checks.iter().try_for_each(|sentence| writeln!(text, "MISSED      {sentence}"))
    }
}

/// `counts`: lost and never sent.
fn csv_line(
    distribution: Distribution,
    target_rate: f64,
    achieved_rate: f64,
    counts: (u64, u64),
    latencies: &Latencies,
    start: u64,
) -> String {
    let (lost, never_sent) = counts;
    let (target, achieved) = (target_rate.round(), achieved_rate.round());
    let mut line = format!("{distribution}, {target}, {achieved}, {lost}, {never_sent}");
    for share in [0.5, 0.9, 0.99, 0.999, 0.9999] {
        // Writing to a string cannot fail.
        let _ = match latencies.quantile_with_missing(share, lost) {
            Some(latency) => write!(line, ", {:.1}", latency.as_micros_f64()),
            None => write!(line, ", inf"),
        };
    }
    let _ = write!(line, ", {start}");
    line
}

fn write_row(text: &mut String, name: &str, percentiles: &Percentiles) -> std::fmt::Result {
    let Percentiles { p50_us, p90_us, p95_us, p99_us, p99_9_us, p99_99_us, max_us, mean_us } =
        percentiles;
    write!(text, "{name:<22}")?;
    for micros in [p50_us, p90_us, p95_us, p99_us, p99_9_us, p99_99_us, max_us, mean_us] {
        write!(text, "{micros:>10.1}")?;
    }
    writeln!(text)
}

#[cfg(test)]
mod tests {
    use crate::{Report, report};

    #[test]
    fn csv_has_the_columns_of_synthetic_and_inf_where_a_lost_request_falls() {
        let report = report::sample();
        assert_eq!(Report::csv_header().split(", ").count(), 11);
        let line = report.csv_line();
        let columns: Vec<_> = line.split(", ").collect();
        assert_eq!(columns[..5], ["constant", "20000", "100", "1", "0"]);
        assert_eq!(columns[8..], ["inf", "inf", "0"], "{line}");
        assert_eq!(columns.len(), 11);
    }

    #[test]
    fn table_csv_and_json_say_alike_where_a_lost_request_falls() {
        let report = report::sample();
        let (table, line) = (report.table(), report.csv_line());
        let row = |name| table.lines().find(|line| line.contains(name)).expect(name);
        for row in [row("from intended time"), row("from sending")] {
            let cells: Vec<_> = row.split_whitespace().rev().take(8).collect();
            // From the right: mean, max, p99.99, p99.9, p99.
            assert_eq!(cells[..4], ["inf"; 4], "{row}");
            assert!(cells[4].parse::<f64>().is_ok_and(f64::is_finite), "{row}");
        }
        let p99 = line.split(", ").nth(7).expect("there are eleven");
        assert!(row("from intended time").contains(p99), "{line}\n{table}");
        let json = serde_json::to_value(&report).expect("it is data");
        let latency = &json["latency"];
        assert!(latency["p99_us"].is_f64(), "{latency}");
        for name in ["p99_9_us", "p99_99_us", "max_us", "mean_us"] {
            assert!(latency[name].is_null(), "{name}: {latency}");
        }
    }

    #[test]
    fn the_table_names_every_figure_and_what_made_it() {
        let mut report = report::sample();
        report.failed_checks.push("p95 is 1 us".to_owned());
        let table = report.table();
        for words in [
            "101 sent, 100 answered, 1 lost",
            "open loop, poisson",
            "not pinned",
            "p99.9",
            "CPU 0 20 ms",
            "MISSED      p95 is 1 us",
        ] {
            assert!(table.contains(words), "{words}:\n{table}");
        }
        assert!(!table.contains("trouble"), "{table}");
    }
}
