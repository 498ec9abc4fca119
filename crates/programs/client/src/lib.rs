//! The library of applications: sockets that the daemon serves ([`sockets`]), and packet mode, in
//! which a program takes whole packets of its flows from the daemon through shared memory, and
//! gives packets back to be sent. The rest of this page is about packet mode.
//!
//! [`App::attach`] gives an [`App`] and its [`Worker`]s. Each worker belongs to one thread and owns
//! a share of the flows, which the daemon moves between them without reordering. The usual program:
//!
//! ```no_run
//! use calisto_client::{App, AttachOptions, Nanos, reply};
//!
//! let options = AttachOptions::new("echo").listen("udp:10.0.0.2:7");
//! let (_app, mut workers) = App::attach(&options)?;
//! let mut worker = workers.remove(0);
//! loop {
//!     if worker.step(reply::echo)? == 0 {
//!         worker.wait(Nanos::from_secs(1))?;
//!     }
//! }
//! # #[expect(unreachable_code, reason = "the loop ends by `?`")]
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A daemon that ends, or that lets go of the application, shows as [`Detached`] in every call
//! within a fraction of a second; nothing waits for a daemon that is not there. Attach again then.
//! After attaching, receiving, sending and waiting allocate nothing.
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc)]

mod app;
mod options;
mod ready;
/// Answers to received UDP packets.
pub mod reply;
/// Applications as `async fn`: tasks, timers and UDP sockets on the workers of an attachment.
#[cfg(feature = "rt")]
pub mod rt;
mod shared;
/// Sockets: TCP and UDP that the daemon serves, through shared memory.
pub mod sockets;
mod worker;

pub use app::App;
pub use attach::{AttachError, CoresClass, CoresRequest, DetachReason, Detached, PortInfo};
pub use base::{ChecksumState, FlowGroup, FrameMeta, Nanos, PortId};
pub use options::{
    AttachOptions, DEFAULT_FOLDER, FOLDER_VARIABLE, SOCKET_VARIABLE, default_socket, folder,
};
pub use ready::ReadyWorkers;
pub use shm::{Batch, Frame, Moving};
pub use worker::{Counters, Handover, Verdict, Worker};
