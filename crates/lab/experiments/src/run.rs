//! Runs a scenario: its jobs on some threads, its results in the order of the jobs, whoever is done
//! first.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use report::{Line, PointLine};

use crate::lines;
use crate::points;
use crate::shard::Shard;
use crate::sweep::{Job, Jobs, Scenario};

/// How a scenario is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Instead of the scenario's own seed.
    pub seed: Option<u64>,
    /// Which part of it.
    pub shard: Shard,
    /// Jobs at a time.
    pub threads: usize,
    /// A tenth of everything, and no bands.
    pub quick: bool,
    /// Runs of each point, each with a seed of its own: one to [`RUNS_MAX`].
    pub runs: u32,
}

/// Runs of a point, at most.
pub const RUNS_MAX: u32 = 1000;
/// Runs of a point by default: the fewest of which one may be otherwise in a claim
/// that holds.
pub const RUNS: u32 = 10;

/// A run that did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunError {
    sentence: String,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for RunError {}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Jobs that are done.
    pub done: usize,
    /// Jobs of this shard.
    pub of: usize,
}

type Found = (usize, Result<Vec<PointLine>, String>);

/// A scenario that is being run. Dropped, no job begins any more.
#[derive(Debug)]
pub struct Run {
    scenario: Arc<Scenario>,
    options: Options,
    found: Receiver<Found>,
    points: BTreeMap<usize, Vec<PointLine>>,
    of: usize,
    is_over: Arc<AtomicBool>,
}

impl Run {
    /// Begins.
    ///
    /// # Errors
    /// The system has no threads left.
    pub fn start(scenario: Arc<Scenario>, options: Options) -> Result<Self, RunError> {
        let all = Jobs::of(&scenario).all;
        let jobs = all.into_iter().enumerate().filter(|(number, _)| options.shard.has(*number));
        let jobs: Arc<Vec<(usize, Job)>> = Arc::new(jobs.collect());
        let (sender, found) = mpsc::channel();
        let (next, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let seed = options.seed.unwrap_or(scenario.read.seed);
        let run = Self {
            scenario: Arc::clone(&scenario),
            options,
            found,
            points: BTreeMap::new(),
            of: jobs.len(),
            is_over: Arc::clone(&is_over),
        };
        for _ in 0..options.threads.clamp(1, jobs.len().max(1)) {
            let (scenario, jobs, sender) =
                (Arc::clone(&scenario), Arc::clone(&jobs), sender.clone());
            let (next, is_over) = (Arc::clone(&next), Arc::clone(&is_over));
            let work = move || {
                while let Some((number, job)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let points = points::of_job(&scenario, job, seed, options.runs, options.quick);
                    if sender.send((*number, points)).is_err() {
                        return;
                    }
                }
            };
            let thread = std::thread::Builder::new().name("simulation".to_owned()).spawn(work);
            thread.map_err(|error| RunError {
                sentence: format!("no thread can be started: {error}"),
            })?;
        }
        Ok(run)
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress { done: self.points.len(), of: self.of }
    }

    /// Waits until another job is done, but no longer than this; false when all are.
    ///
    /// # Errors
    /// A job cannot be done, or its thread is gone.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, RunError> {
        if self.points.len() == self.of {
            return Ok(false);
        }
        match self.found.recv_timeout(timeout) {
            Ok((number, Ok(points))) => {
                self.points.insert(number, points);
                Ok(true)
            }
            Ok((_, Err(sentence))) => Err(RunError { sentence }),
            Err(RecvTimeoutError::Timeout) => Ok(true),
            Err(RecvTimeoutError::Disconnected) => {
                Err(RunError { sentence: "a simulation has broken off".to_owned() })
            }
        }
    }

    /// What came out: the lines of a result file, of what is done.
    pub fn lines(mut self, command: &str) -> Vec<Line> {
        let points = std::mem::take(&mut self.points).into_values().flatten().collect();
        let seed = self.options.seed.unwrap_or(self.scenario.read.seed);
        lines::all(&self.scenario, command, seed, points)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
