//! The terms on which an application gets cores, and why a request for them is refused.

use std::fmt;

use base::{AppId, Nanos, WorkerId};
use serde::{Deserialize, Serialize};

use super::{APP_LIMIT, CoreId};
use crate::number;

/// The terms on which an application gets cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppTerms {
    /// Which.
    #[serde(with = "number::app")]
    pub id: AppId,
    /// Cores that it gets whenever it asks, if need be from others that have more than theirs.
    pub guaranteed: u16,
    /// Cores that it may have while no application with a better right asks.
    pub burst: u16,
    /// Whom it gives way to.
    #[serde(default)]
    pub class: Class,
    /// It is congested when an item waits for longer than this. Zero: when an item that was there
    /// at the tick before still is.
    #[serde(default, with = "number::nanos")]
    pub queue_delay: Nanos,
}

/// Which applications give way to which, above their guarantees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Its cores beyond the guarantee go back only to somebody's guarantee.
    #[default]
    Latency,
    /// It gets what is left, and loses a core to anybody of the other class who asks.
    Batch,
}

/// A request about applications and cores that cannot be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoresRefused {
    /// No core to give out, or far too many, or one twice.
    CoreSet(usize),
    /// The id is beyond the limit.
    AppId(AppId),
    /// There is an application with that id.
    AppTaken(AppId),
    /// More cores guaranteed than it may have.
    Burst(AppId),
    /// A batch job with a guarantee.
    BatchGuarantee(AppId),
    /// It has fewer workers than cores are guaranteed to it.
    FewWorkers {
        /// Which application.
        app: AppId,
        /// Its workers.
        workers: usize,
        /// The cores guaranteed to it.
        guaranteed: u16,
    },
    /// More guarantees than cores.
    Guarantees {
        /// Asked for now.
        wanted: u16,
        /// Not guaranteed to anybody yet.
        left: usize,
    },
    /// The worker's id is beyond the limit, or somebody has it.
    Worker(WorkerId),
    /// Nothing is guaranteed to it, and the policy gives nothing else.
    NothingGuaranteed,
}

impl fmt::Display for CoresRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingGuaranteed => f.write_str(
                "the policy in force gives out guaranteed cores only, and none is guaranteed: it would \
                 never run",
            ),
            Self::CoreSet(count) => write!(
                f,
                "{count} cores, or one of them twice, cannot be given out: name 1 to {} cores, \
                 each once",
                CoreId::COUNT_MAX
            ),
            Self::AppId(app) => {
                write!(f, "application {app} is not possible: ids end at {}", APP_LIMIT - 1)
            }
            Self::AppTaken(app) => {
                write!(f, "application {app} is there already: detach it, or use another id")
            }
            Self::Burst(app) => write!(
                f,
                "application {app} is guaranteed more cores than it may have: raise its burst, or \
                 lower its guarantee"
            ),
            Self::BatchGuarantee(app) => {
                write!(f, "application {app} is a batch job and cannot be guaranteed a core")
            }
            Self::FewWorkers { app, workers, guaranteed } => write!(
                f,
                "application {app} has {workers} workers and could not use {guaranteed} guaranteed \
                 cores: start more workers, or lower its guarantee"
            ),
            Self::Guarantees { wanted, left } => write!(
                f,
                "{wanted} more cores cannot be guaranteed, only {left} are left: lower a \
                 guarantee, or give the data plane more cores"
            ),
            Self::Worker(worker) => {
                write!(f, "worker {worker} is not possible or has an application already")
            }
        }
    }
}

impl std::error::Error for CoresRefused {}
