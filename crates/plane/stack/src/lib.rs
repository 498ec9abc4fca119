//! The host stack: the TCP and UDP sockets of programs, as the job of a worker.
//!
//! A worker's job like any other, on the flows of the groups that the worker owns: [`SocketJob`] is
//! a TCP engine with everything around it. Programs share memory with it (`served`), the daemon's
//! slow side sends it commands ([`CommandQueue`]), and flows move from worker to worker with their
//! groups ([`Exchange`]). [`BuiltIn`] is this job or one of those of `datapath`, which knows no
//! TCP.
#![forbid(unsafe_code)]

mod app_sockets;
mod bucket;
mod built_in;
mod command_queue;
mod counts;
mod datagrams;
mod eviction;
mod exchange;
mod flow_records;
mod for_kernel;
mod frames;
mod gso_batch;
mod heritage;
mod neighbours;
mod parcel;
mod recently_sent;
mod rings;
mod routes;
mod served;
mod service;
mod socket_job;
mod sources;
mod trace;

pub use app_sockets::{AppSockets, Notifier};
pub use bucket::{PacketCost, Rate};
pub use built_in::BuiltIn;
pub use command_queue::{Command, CommandQueue, LetGoRequest, Listening, SocketEvent};
pub use counts::{SocketCounter, SocketCounts};
pub use datagrams::Datagrams;
pub use eviction::{Evicted, Eviction};
pub use exchange::Exchange;
pub use flow_records::FlowRecords;
pub use for_kernel::ForKernel;
pub use heritage::{Heritage, Inherited, NoHeritage};
pub use parcel::{LetGo, Parcel};
pub use rings::RingLimits;
pub use routes::{NextHop, PortLink};
pub use service::ServiceKind;
pub use socket_job::{SocketJob, SocketJobConfig, send_connect_probe};
pub use sources::{PREFIXES_MAX, Ports, SourcePrefix, Sources};
pub use trace::{Sample, TraceLosses};

#[cfg(test)]
mod tests;
