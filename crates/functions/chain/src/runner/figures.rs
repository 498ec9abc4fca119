//! Gathers what all threads have counted.

use std::time::{Duration, Instant};

use sys::clock;

use super::{Chain, Thread};
use crate::board::{Group, Label};
use crate::figures::{CounterFigure, Figures, GroupFigures, SCHEMA_VERSION, SliceFigures};
use crate::tables::Tables;

/// How long figures are waited for; a thread answers between two batches. After that those of the
/// last time are given.
const WITHIN: Duration = Duration::from_millis(500);

impl Chain {
    /// What has been counted up to now.
    pub fn figures(&self) -> Figures {
        let questions: Vec<u64> = self.threads.iter().map(|thread| thread.board.ask()).collect();
        self.threads.iter().for_each(|thread| thread.feed.wake());
        let began = Instant::now();
        for (thread, question) in self.threads.iter().zip(questions) {
            while !thread.board.is_answered(question) && began.elapsed() < WITHIN {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
        Figures {
            schema_version: SCHEMA_VERSION,
            name: self.file.name.clone(),
            pid: std::process::id(),
            uptime_seconds: clock::now().since(self.began).as_secs_f64(),
            slices: self.threads.iter().map(of_slice).collect(),
            hook: self.hook_figures(),
            router: self.tables.as_ref().map(Tables::figures),
        }
    }
}

fn of_slice(thread: &Thread) -> SliceFigures {
    let mut groups: Vec<_> = thread.board.read().groups.iter().map(of_group).collect();
    thread.stats.add_to(&mut groups);
    SliceFigures {
        name: thread.name.clone(),
        cpus: thread.cpus.clone(),
        filter: thread.filter.clone(),
        groups,
    }
}

fn of_group(group: &Group) -> GroupFigures {
    let counter = |(name, help, value): &(Label, Label, u64)| CounterFigure {
        name: name.as_ref().to_owned(),
        help: help.as_ref().to_owned(),
        value: *value,
    };
    GroupFigures {
        of: group.of.to_owned(),
        name: group.name.clone(),
        fault: group.fault.map(|fault| fault.of(&group.name)),
        counters: group.counters.iter().map(counter).collect(),
    }
}
