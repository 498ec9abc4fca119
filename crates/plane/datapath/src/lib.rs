//! The shell around the decisions: receive, classify, dispatch, worker, transmit, migrate, control.
//!
//! One file per step, in packet order; a library without process-wide state or threads of its own.
//! The host reads the clock once per turn and calls [`Dispatcher::step`] and [`Worker::step`], on
//! one thread or on many; the simulator calls the very same functions. It knows no TCP: what
//! workers do with a connection is crate `stack`.
#![forbid(unsafe_code)]

mod app;
mod apps;
mod attach;
mod capture;
mod classified;
mod classify;
/// Cores on demand, carried out.
pub mod cores;
/// Events with names, one writer each.
pub mod counters;
mod dispatch;
mod dispatch_context;
mod dispatcher;
mod flow_id;
mod flow_sampler;
mod group_loads;
mod hold;
/// What workers do.
pub mod job;
/// Which addresses and ports are served here.
pub mod listeners;
/// What travels between dispatcher and workers.
pub mod message;
mod migrate;
/// The owner table as workers see it.
pub mod owners;
mod rate_limit;
mod receive;
mod steering;
mod transmit;
mod worker;
mod worker_queue;

pub use app::{AppDispatch, AppLimits, AttachmentId, DetachReason, Egress, NewApp};
pub use apps::APPS_MAX;
pub use attach::AttachRefused;
pub use capture::{
    CAPTURES_MAX, CaptureChunk, CaptureDirection, CaptureFilter, CaptureReader, CaptureTap,
    CapturedPacket, capture,
};
pub use dispatcher::{Dispatcher, DispatcherConfig, DispatcherPort, NewWorker, Progress};
pub use flow_id::FlowId;
pub use flow_sampler::{FlowSampler, SampledFlow};
pub use job::{Echo, Job, Outlet, Sink, Synthetic, SyntheticState, Verdict};
pub use listeners::{Listener, Listeners, Taken};
pub use migrate::MigrateConfig;
pub use rate_limit::RateLimit;
pub use steering::{Caller, PinError, Steering, SteeringConfig};
pub use worker::{Remains, Worker, WorkerStep};
pub use worker_queue::{Wake, WorkerQueueEnds, WorkerQueueState};

#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
