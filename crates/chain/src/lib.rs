//! Chains of network functions over slices: what `calisto nf` runs.
//!
//! A file says which queues, CPUs and functions (`file.rs`), the kernel or another file which routes
//! (`routes.rs`).
#![forbid(unsafe_code)]

/// What a running chain has counted.
pub mod figures;
/// The file that describes a chain.
pub mod file;
/// Which packets a chain takes.
pub mod filter;
/// The interfaces behind port numbers.
pub mod ports;
/// Where a router's routes come from.
pub mod routes;
