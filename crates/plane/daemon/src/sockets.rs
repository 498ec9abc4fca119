//! Programs whose sockets the daemon serves: the slow side, on the attach server's thread.
//!
//! `table.rs` knows who is here; of its folder, `calls.rs` answers what they ask, `listen.rs`,
//! `connect.rs`, `udp.rs` and `local.rs` set sockets up, and `ends.rs` hears of their ends. The
//! files beside it are the parts that the table is made of. Whatever may take long
//! happens here, before a worker is told: the way to a peer, its link address, the port, the right
//! to it. Payload never passes.

mod answer;
mod app;
mod apps;
pub(crate) mod aside;
mod asking;
mod beside_kernel;
pub(crate) mod budget;
mod claimed;
pub(crate) mod closer;
mod connected;
mod control_groups;
mod descriptors;
mod endings;
mod errors;
mod examine;
mod fallbacks;
mod firewall;
mod given;
mod guards;
mod interfaces;
mod lingering;
mod local_pair;
mod memory;
mod names;
mod network;
mod notifier;
mod own_address;
mod proofs;
mod put_out;
pub(crate) mod raw_segments;
mod reach;
mod records;
mod regions;
mod rights;
mod routes;
mod shares;
mod sources;
pub(crate) mod successor;
mod table;
mod table_config;
pub(crate) mod tell;
mod traced;
mod wait_budget;
mod waiting;

pub(crate) use answer::Answer;
pub(crate) use app::Member;
pub(crate) use interfaces::PortInterface;
pub(crate) use routes::Link;
pub(crate) use table::{Processes, SocketTable};
pub(crate) use table_config::SocketTableConfig;
