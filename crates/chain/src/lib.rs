//! Chains of network functions over slices: what `calisto nf` runs.
//!
//! A file says which queues, CPUs and functions (`file.rs`).
#![forbid(unsafe_code)]

/// The file that describes a chain.
pub mod file;
