//! The host stack: the TCP and UDP sockets of programs, as the job of a worker.
#![forbid(unsafe_code)]

pub use datapath::BuiltIn;
pub use datapath::sockets::*;
