//! Packetdrill scripts against the TCP engine in virtual time: seconds of a script take
//! microseconds.
//!
//! [`Script::parse`] reads a script, [`run`] plays it: packets of the script go in, packets of the
//! engine are held against what the script expects, and system calls are answered by a small model
//! of Linux's socket layer (`socket.rs`) over the engine's rings. Nothing here touches a kernel:
//! the commands in a script's back-ticks are read for the settings they make, and not run.
#![forbid(unsafe_code)]

mod call;
mod code;
mod inbound;
mod outbound;
mod parse;
mod run;
mod scan;
mod script;
mod settings;
mod socket;
mod syscalls;
mod testbed;

pub use run::{Ending, Failure, run};
pub use script::Script;
