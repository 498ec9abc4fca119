//! Programs whose sockets the daemon serves: the slow side, on the attach server's thread.
//!
//! `table.rs` knows who is here, `calls.rs` answers what they ask, `listen.rs`, `connect.rs`,
//! `udp.rs` and `local.rs` set sockets up, `ends.rs` hears of their ends. Whatever may take long
//! happens here, before a worker is told: the way to a peer, its link address, the port, the right
//! to it. Payload never passes.

mod app;
mod calls;
mod closer;
mod connect;
mod ends;
mod examine;
mod fallbacks;
mod firewall;
mod guards;
mod interfaces;
mod lingering;
mod listen;
mod local;
mod local_pair;
mod named;
mod names;
mod notifier;
mod proofs;
mod reach;
mod records;
mod rights;
mod routes;
mod rows;
mod shares;
mod table;
mod table_config;
mod udp;

pub(crate) use app::Member;
pub(crate) use calls::Answer;
pub(crate) use routes::Link;
pub(crate) use table::SocketTable;
pub(crate) use table_config::SocketTableConfig;

#[cfg(test)]
mod tests;
