//! Tests of the library as one program, which is built and linked once. Apart are those that count
//! allocations, and the one that starts itself again as a daemon.

mod common;
mod datagrams;
#[path = "common/ends.rs"]
mod ends;
mod native;
mod neighbours;
mod packet_mode;
mod ready_workers;
#[cfg(feature = "rt")]
#[path = "common/rig.rs"]
mod rig;
#[cfg(feature = "rt")]
mod rt;
#[cfg(feature = "rt")]
mod rt_tcp;
mod sockets;
#[path = "common/streams.rs"]
mod streams;
#[cfg(feature = "tokio")]
mod tokio;
