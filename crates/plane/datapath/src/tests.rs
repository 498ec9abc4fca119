//! The whole of steering and hand-over: random schedules, real threads, whole packets.

mod attached_apps;
mod cores;
mod harness;
mod packets;
mod schedules;
mod threads;
