//! The whole of steering and hand-over: random schedules, real threads, whole packets.

mod attached_apps;
mod connections;
mod cores;
mod harness;
mod lots;
mod packets;
mod schedules;
mod sockets;
mod threads;
