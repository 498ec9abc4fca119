//! What the whole-system tests share: a daemon under test and a client that checks every reply.
#![forbid(unsafe_code)]

mod client;
mod daemon;

pub use client::Flows;
pub use daemon::{Daemon, binary, run};
