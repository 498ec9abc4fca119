//! A report for people.

use std::fmt::{self, Write};

use super::{Played, Report, Setup};
use crate::link::PLAYABLE;

impl Report {
    /// The report as text: what was played, what became of it, and what is worth a look.
    pub fn table(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_table(&mut text);
        text
    }

    fn write_table(&self, text: &mut String) -> fmt::Result {
        self.write_head(text)?;
        self.write_records(text)?;
        self.write_flows(text)?;
        if !self.protocols.is_empty() {
            let heads = ["protocol", "packets", "bytes", "flows", "conversations"];
            let rows = self.protocols.iter().map(|row| {
                let numbers = [row.packets, row.bytes, row.flows, row.conversations];
                (format!("{} over IPv{}", row.protocol, row.ip), numbers.to_vec())
            });
            write_rows(text, &heads, rows)?;
        }
        let rows = self
            .by_worker
            .iter()
            .map(|row| (format!("worker {}", row.worker), vec![row.packets, row.bytes, row.flows]));
        write_rows(text, &["worker", "packets", "bytes", "flows"], rows)?;
        if !self.top.is_empty() {
            let rows = self.top.iter().map(|flow| {
                let numbers =
                    [flow.packets, flow.bytes, u64::from(flow.worker), u64::from(flow.moves)];
                (flow.flow.clone(), numbers.to_vec())
            });
            write_rows(text, &["top flow", "packets", "bytes", "worker", "moves"], rows)?;
        }
        self.write_counters(text)?;
        if let Some(damage) = &self.faults.damage {
            writeln!(text, "\nDAMAGED      {damage}; everything before that is counted above")?;
        }
        Ok(())
    }

    fn write_head(&self, text: &mut String) -> fmt::Result {
        let Setup { file, policy, workers, groups, seed, speed } = &self.setup;
        let Played { packets, seconds, capture_seconds, packets_per_second, .. } = self.played;
        if !file.is_empty() {
            writeln!(text, "capture      {file}")?;
        }
        let workers: Vec<String> = workers.iter().map(u16::to_string).collect();
        let workers = workers.join(", then ");
        writeln!(text, "steering     {policy}, {workers} worker(s), {groups} groups, seed {seed}")?;
        let early = if self.played.interrupted { ", ended early" } else { "" };
        writeln!(
            text,
            "played       {packets} packets in {seconds:.3} s, {packets_per_second:.0} a \
             second{early}; captured in {capture_seconds:.6} s"
        )?;
        if let (Some(speed), Some(late)) = (speed, self.played.late_max_us) {
            writeln!(text, "pace         {speed} times as captured, at most {late:.0} us late")?;
        }
        Ok(())
    }

    fn write_records(&self, text: &mut String) -> fmt::Result {
        let records = &self.records;
        writeln!(
            text,
            "records      {}, {} bytes on the wire, {} of them in the file",
            records.total, records.bytes, records.captured_bytes
        )?;
        let notes = [
            (records.cut, "cut short by the capture: played with the lengths that are there"),
            (records.too_long, "longer than a frame: the start of each is played"),
            (records.empty, "without a byte: not played"),
            (records.headerless, "that end within their link's header: not played"),
        ];
        for (count, what) in notes {
            if count > 0 {
                writeln!(text, "  {count} {what}")?;
            }
        }
        for other in &records.other_links {
            match other.link_type {
                Some(kind) => writeln!(
                    text,
                    "  {} of link type {kind}: not played; what can be is {PLAYABLE}",
                    other.records
                )?,
                None => writeln!(
                    text,
                    "  {} of an interface that the file does not describe: not played",
                    other.records
                )?,
            }
        }
        Ok(())
    }

    fn write_flows(&self, text: &mut String) -> fmt::Result {
        let flows = &self.flows;
        writeln!(
            text,
            "flows        {} in {} conversations; {} moved to another worker ({} moves)",
            flows.tracked, flows.conversations, flows.moved, flows.moves
        )?;
        if flows.untracked_packets > 0 {
            writeln!(
                text,
                "  {} packets of further flows are not tracked: raise --flows-max",
                flows.untracked_packets
            )?;
        }
        writeln!(
            text,
            "order        {} packets reordered, {} lost, {} doubled",
            flows.reordered, self.faults.lost, self.faults.duplicated
        )?;
        let sums = &self.checksums;
        writeln!(
            text,
            "checksums    {} right, {} left to the NIC, {} wrong, {} not to be known",
            sums.right, sums.unfinished, sums.wrong, sums.unknown
        )
    }

    fn write_counters(&self, text: &mut String) -> fmt::Result {
        let is_drop = |name: &str| {
            ["drop_", "not_ours_", "malformed_"].iter().any(|kind| name.starts_with(kind))
        };
        let drops = self.counters.iter().filter(|counter| is_drop(&counter.name));
        let drops: Vec<_> = drops.collect();
        let Some(width) = drops.iter().map(|drop| drop.name.len()).max() else {
            return Ok(());
        };
        writeln!(text, "\n{:<width$}  {:>14}", "no worker's", "packets")?;
        for drop in drops {
            writeln!(text, "{:<width$}  {:>14}  {}", drop.name, drop.value, drop.help)?;
        }
        Ok(())
    }
}

/// A table: names to the left, numbers to the right.
fn write_rows(
    text: &mut String,
    heads: &[&str],
    rows: impl Iterator<Item = (String, Vec<u64>)>,
) -> fmt::Result {
    let rows: Vec<_> = rows.collect();
    let names = rows.iter().map(|(name, _)| name.len());
    let width = names.chain([heads[0].len()]).max().unwrap_or(0);
    write!(text, "\n{:<width$}", heads[0])?;
    heads[1..].iter().try_for_each(|head| write!(text, "  {head:>14}"))?;
    writeln!(text)?;
    for (name, numbers) in rows {
        write!(text, "{name:<width$}")?;
        numbers.iter().try_for_each(|number| write!(text, "  {number:>14}"))?;
        writeln!(text)?;
    }
    Ok(())
}
