//! Chains of network functions over slices: what `calisto nf` runs.
//!
//! A file says which queues, CPUs and functions (`file.rs`), the kernel or another file which
//! routes (`routes.rs`). Each slice has a thread that moves packets (`worker.rs`); the control
//! thread (`runner.rs`) keeps the router's tables (`tables.rs`), sends what changes there in small
//! steps to all threads (`feed.rs`), sends them other functions when the file changes (`swap.rs`),
//! and answers whoever asks for figures (`socket.rs`).
//!
//! A chain may have functions that are not ours: [`own`] says how, and [`serve::program`] is the
//! whole program around them.
#![forbid(unsafe_code)]

mod board;
mod check;
mod error;
mod feed;
/// What a running chain has counted.
pub mod figures;
/// The file that describes a chain.
pub mod file;
/// Which packets a chain takes.
pub mod filter;
mod health;
mod hook;
/// The interfaces behind port numbers.
pub mod ports;
/// Where a router's routes come from.
pub mod routes;
/// What functions of one's own are written with, so that this crate is all that they depend on.
pub mod own {
    pub use base::{Nanos, PortId};
    pub use calisto_nf::{EachNamed, Function, Own, Prefix, Verdict, Verdicts, complete_checksum};
    pub use shm::{Batch, Frame};
    pub use wire;

    pub use crate::file::{Given, Kinds, NotMade};
}
mod runner;
/// A chain by its file, until it is told to end.
pub mod serve;
/// The socket of a running chain.
pub mod socket;
mod stage;
mod swap;
mod tables;
/// What a chain does to one packet, function by function.
pub mod trace;
mod tunnels;
mod walk;
mod worker;

pub use check::{Checked, check, check_here};
pub use error::ChainError;
pub use runner::{Chain, Event};
